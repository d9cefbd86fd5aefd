/* Programs on an emulated cluster. */
#pragma once

#include <stdbool.h>

#include "tools/tca-cluster/up.h"

struct run_options {
    /* for a cluster that is up for this run only; nodes 0: as many as the run needs */
    struct up_options up;
    unsigned nodes;    /* to use; 0: all */
    unsigned per_node; /* processes */
    unsigned ranks;    /* of mpirun; 0: nodes * per_node */
    bool cyclic;       /* rank r on node r modulo nodes, else blocks of per_node */
    bool bind;
    bool tag;
    char *const *variables; /* "NAME=VALUE"; NULL at the end */
    const char *launcher;   /* of mpirun: its words with blanks between */
};

/* Both bring a cluster up, and down again, when none is there; that of an MPI program has boards
 * where they were not refused. The exit code. */
int run_program(const char *dir, const struct run_options *options, char *const *command);
int run_mpirun(const char *dir, const struct run_options *options, char *const *command);
