/* Signals as events: blocked in this process, read from a descriptor, and restored in programs that
 * it starts. */
#pragma once

/* Blocks SIGCHLD, SIGINT, SIGTERM, SIGHUP and SIGQUIT and returns a descriptor to poll for them
 * (the same on every call). */
int signals_open(void);
/* The next signal, 0 if none is pending. */
int signals_next(void);
/* To be called in a child before exec. */
void signals_reset(void);
