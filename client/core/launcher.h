/* Which launcher started this process: mpirun, mpiexec, srun. */
#pragma once

#include <sys/types.h>

struct launcher {
    const char *title;
    const char *rank;    /* variables that it sets */
    const char *size;    /* the same */
    const char *job[2];  /* together they name the job; NULL: hydra, which has no name for it */
    const char *mark;    /* a further variable that tells it from others; NULL: not needed */
    pid_t (*task)(void); /* the process of ours that it started, we or an ancestor; 0: unknown */
};

/* The innermost of the launchers around this process: inside an allocation of Slurm's, mpiexec
 * itself is a step and its ranks have the variables of both. NULL: none. */
const struct launcher *launcher_find(void);

/* NULL when it is not set, or empty. */
const char *launcher_variable(const char *name);
