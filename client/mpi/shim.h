/*
 * Unmodified MPI programs over tcad (tca-mpi(1)): what the files of this room share.
 *
 * The library is preloaded, once for each MPI, and exports MPI_ functions. At MPI_Init(), the ranks
 * of MPI_COMM_WORLD decide together whether tcad carries their messages; if not, each function here
 * passes its call on to the MPI (client/mpi/next.h).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/include/tca-msg.h"
#include "client/mpi/next.h"

struct shim {
    bool active;    /* between MPI_Init() and MPI_Finalize(), if tcad carries messages */
    bool threaded;  /* MPI_THREAD_MULTIPLE: lock_enter() locks */
    int rank, size; /* of MPI_COMM_WORLD, and of the session */
    struct tca *session;
    struct tca_msg *msg;
};
extern struct shim shim;
