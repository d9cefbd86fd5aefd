/* The notifications that daemons send when they are ready (sd_notify(3)). */
#pragma once

#include <sys/types.h>

/* A bound socket for them; negative errno after a complaint. */
int ready_open(const char *path);
/* The process that said READY=1, 0 when none has now. */
pid_t ready_next(int fd);
