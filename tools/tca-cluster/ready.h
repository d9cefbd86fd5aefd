/* Readiness notifications of daemons (sd_notify(3)). */
#pragma once

#include <sys/types.h>

/* A bound socket for them; negative errno after an error message. */
int ready_open(const char *path);
/* The next process that has sent READY=1, 0 if no message is pending. */
pid_t ready_next(int fd);
