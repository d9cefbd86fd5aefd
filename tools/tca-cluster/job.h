/* A job: processes that are started, watched and ended together. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "tools/tca-cluster/cluster.h"

struct job_process {
    char **environment; /* "NAME=VALUE" to set; ends with NULL */
    int cpu;            /* to run on; -1: any */
    unsigned node;
};

struct job {
    const struct cluster *cluster;
    char *const *command; /* the same for all; ends with NULL */
    struct job_process *processes;
    size_t count;
    const char *name; /* the only process in messages; NULL: the processes are ranks */
    bool tag;         /* begin each line of output with "[rank] " */
};

/* Runs the processes until all have ended. If one fails, or a signal arrives, ends the others. The
 * exit code: 0, or that of the first failure (128 plus the signal's number for a signal). */
int job_run(const struct job *job);

/* Whether the program exists: 0, or -ENOENT after an error message. */
int job_check_program(const char *program);
