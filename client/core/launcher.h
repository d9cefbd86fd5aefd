/* Finds the launcher that started this process: mpirun, mpiexec, srun, flux, torchrun and
 * others. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct launcher {
    const char *title;
    const char *rank;    /* variable that holds the rank */
    const char *size;    /* variable that holds the size */
    const char *job[2];  /* variables that together name the job; NULL: Hydra, see hydra.h */
    const char *mark;    /* a further variable that identifies it; NULL: none */
    pid_t (*task)(void); /* the process that it started, this one or an ancestor; 0: unknown */
    bool sizeless;       /* a process with a rank, but without a size, can be a group of one */
    /* Variable with the number of parts of a job, when rank and size may be those within one part;
     * NULL: there is none. */
    const char *components;
    /* Variable with the number of ranks on this node; "2(x3)", as of Slurm: two on each. NULL:
     * none. */
    const char *local;
};

/* The innermost launcher of this process. Inside a Slurm allocation, mpiexec itself is a step, and
 * its ranks have the variables of both. NULL: none. */
const struct launcher *launcher_find(void);

/* A launcher that has given this process a rank, but not the number of ranks. NULL: none. */
const struct launcher *launcher_without_size(void);

/* The number of ranks on this node, as the launcher says. 0: unknown. */
uint32_t launcher_local_size(const struct launcher *launcher);

/* Value of a variable; NULL when it is unset or empty. */
const char *launcher_variable(const char *name);
