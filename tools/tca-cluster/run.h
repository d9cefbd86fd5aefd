/* Programs on an emulated cluster. */
#pragma once

#include <stdbool.h>

#include "tools/tca-cluster/up.h"

struct run_options {
    /* for a cluster that is up for this run only; nodes 0: as needed by the run */
    struct up_options up;
    unsigned nodes;    /* to use; 0: all */
    unsigned per_node; /* processes */
    unsigned ranks;    /* of mpirun; 0: nodes * per_node */
    bool cyclic;       /* rank r on node r % nodes, else blocks of per_node */
    bool bind;
    bool tag;
    char *const *variables; /* "NAME=VALUE"; ends with NULL */
    const char *launcher;   /* of mpirun: words separated by blanks */
};

/* Both bring up a cluster for their duration if none is up; for an MPI program it has boards unless
 * the options refuse them. The exit code. */
int run_program(const char *dir, const struct run_options *options, char *const *command);
int run_mpirun(const char *dir, const struct run_options *options, char *const *command);
