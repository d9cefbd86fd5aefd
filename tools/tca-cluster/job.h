/* Processes that belong together: started, watched, ended together. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "tools/tca-cluster/cluster.h"

struct job_process {
    char **environment; /* "NAME=VALUE" to set; NULL at the end */
    int cpu;            /* to run on; -1: any */
    unsigned node;
};

struct job {
    const struct cluster *cluster;
    char *const *command; /* NULL at the end; the same for all */
    struct job_process *processes;
    size_t count;
    const char *name; /* of the only process, in messages; NULL: they are ranks */
    bool tag;         /* each line of output begins with "[rank] " */
};

/* Runs them until all have ended. When one fails, or a signal asks for it, the others are ended.
 * The exit code: 0, or that of the first failure (128 and the signal's number for a signal). */
int job_run(const struct job *job);

/* Whether the program exists: 0, or -ENOENT after a complaint. */
int job_check_program(const char *program);
