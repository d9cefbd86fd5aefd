/* Signals as events: blocked here, read from a descriptor, and back to normal in the programs that
 * we start. */
#pragma once

/* Blocks SIGCHLD, SIGINT, SIGTERM, SIGHUP and SIGQUIT and gives a descriptor (the same every time)
 * to poll for them. */
int signals_open(void);
/* The next signal, 0 when there is none now. */
int signals_next(void);
/* In a child before exec. */
void signals_reset(void);
