/* How busy the machine is: what is measured on a busy one is measured again on a quiet one. */
#pragma once

#include <stdlib.h>
#include <unistd.h>

#define LOAD_BUSY  1.5
#define LOAD_QUIET 0.75

/* Threads that run or could run, for each processor, over the last minute; 0: unknown. */
static inline double load_per_processor(void)
{
    double load;
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    return getloadavg(&load, 1) == 1 && processors > 0 ? load / (double)processors : 0;
}
