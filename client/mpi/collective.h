/*
 * Collective operations of the MPI by those of tca-coll.h, on communicators that have the ranks of
 * MPI_COMM_WORLD in the same order. TCA_MPI_COLL=1 switches them on.
 *
 * Whether a call is carried must be decided alike by all ranks, without asking one another: by the
 * *shape* of the call, which consists of what MPI requires to be the same everywhere, and by the
 * number of calls of this shape before on the communicator, which come in the same order
 * everywhere. The first calls of a shape go to the MPI. One of those that follow makes an operation
 * that may have any memory; it is kept, and each further call gives it the memory of the call. The
 * ranks agree on that by calls of the MPI, which lets messages advance meanwhile; from there on all
 * of them are in the library.
 *
 * Data of a datatype with gaps is copied into memory without gaps and back: other ranks may
 * describe the same data by another datatype.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/mpi/next.h"

#include "client/mpi/communicator.h"

enum collective_kind {
    COLLECTIVE_BARRIER,
    COLLECTIVE_BROADCAST,
    COLLECTIVE_REDUCE,
    COLLECTIVE_ALLREDUCE,
    COLLECTIVE_REDUCE_SCATTER, /* blocks of the same length */
    COLLECTIVE_ALLGATHER,
    COLLECTIVE_ALLTOALL,
    COLLECTIVE_KINDS,
};

/* Equal if all bytes are. */
struct collective_shape {
    uint32_t kind; /* enum collective_kind */
    uint32_t root;
    uint32_t combine, type; /* of reductions */
    uint64_t count;         /* elements of reductions, bytes of others; of a block if there are */
};

struct collective;
struct collectives; /* those of a communicator */

/* Counts a call of this shape, and returns the operation; NULL: the call goes to the MPI, at all
 * ranks. Collective for the communicator. The lock is held, but not while the ranks agree. */
struct collective *collective_find(struct communicator *communicator,
                                   const struct collective_shape *shape);
/* Carries it out. in, out: as in tca_coll_rebind(). 0, or a negative errno. The lock is held, but
 * not all the time. */
int collective_run(struct collective *collective, const void *in, void *out);
/* The communicator is freed. Not collective: its operations are kept for others with the same
 * ranks. Returns NULL. */
struct collectives *collectives_leave(struct collectives *collectives);
/* Before the session is closed, by all ranks. */
void collectives_deinit(void);
