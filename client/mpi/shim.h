/*
 * Unmodified MPI programs over tcad (tca-mpi(1)): what the files of this room share.
 *
 * The library is preloaded, once for each MPI, and exports MPI_ functions. At MPI_Init(), the ranks
 * of MPI_COMM_WORLD decide together whether tcad carries their messages; if not, each function here
 * passes its call on to the MPI (client/mpi/next.h).
 *
 * Otherwise all point-to-point messages of communicators whose members are all in MPI_COMM_WORLD
 * are carried, in a context for each communicator (client/mpi/communicator.h), and no others. A
 * call whose arguments are invalid goes to the MPI, which reports it; so does one with
 * MPI_PROC_NULL.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/include/tca-msg.h"
#include "client/mpi/next.h"

struct shim {
    bool active;      /* between MPI_Init() and MPI_Finalize(), if tcad carries messages */
    bool threaded;    /* MPI_THREAD_MULTIPLE */
    bool collectives; /* carried, too: TCA_MPI_COLL=1 */
    int rank, size;   /* of MPI_COMM_WORLD, and of the session */
    int tag_max;
    struct tca *session;
    struct tca_msg *msg;
    pthread_mutex_t lock; /* if threaded: of all in this room, the session and the messenger. It
                           * is not held while the MPI may wait for others */
};
extern struct shim shim;

static inline void shim_lock(void)
{
    if (shim.threaded)
        pthread_mutex_lock(&shim.lock);
}

static inline void shim_unlock(void)
{
    if (shim.threaded)
        pthread_mutex_unlock(&shim.lock);
}

/* The arguments of a call. */
struct call {
    const void *address;
    MPI_Count count;
    MPI_Datatype type;
    int rank, tag;
    MPI_Comm comm;
};

/* ---- progress.c */

/* Lets the MPI advance our messages whenever it looks for its own: while it waits in calls that are
 * not carried. A reason why that is impossible, or NULL. After MPI_Init(), once. */
const char *progress_open(void);
/* Lets the MPI advance its own messages. The lock is not held. */
void progress_mpi(void);
/* After an unsuccessful look at our requests, of which `round` counts those of this wait: advances
 * what else there is from time to time, and pauses. The lock is not held. */
void progress_pause(uint64_t *round);
/* The same after one that the program itself repeats, as with MPI_Test(): does not pause. */
void progress_poll(void);

/* ---- error.c */

/* The MPI's class of an error of the library. */
int error_class(int error);
/* Calls the error handler of a communicator for an error of the library; says to standard error
 * what the MPI has no class for. Returns the class. The lock is not held. */
int error_raise(MPI_Comm comm, int error);

/* ---- report.c */

enum counted {
    COUNTED_SHORT, /* sent, of up to TCA_MSG_EAGER_BYTES */
    COUNTED_LONG,
    COUNTED_LAYOUT, /* of these two, with a layout */
    COUNTED_PACKED, /* of these two, packed by the MPI */
    COUNTED_RECEIVED,
    COUNTED_BYTES,                         /* sent */
    COUNTED_FOREIGN,                       /* passed on: a communicator that is not carried */
    COUNTED_NULL,                          /* passed on: MPI_PROC_NULL */
    COUNTED_ARGUMENTS,                     /* passed on: invalid arguments */
    COUNTED_COLLECTIVE,                    /* carried, of each enum collective_kind */
    COUNTED_PART = COUNTED_COLLECTIVE + 7, /* passed on: not all ranks in the same order */
    COUNTED_SHAPE,  /* passed on: another operator or datatype, nothing, or too long */
    COUNTED_SELDOM, /* passed on: the first of a shape, or it could not be made */
    COUNTED,
};
extern uint64_t counted[COUNTED]; /* by this rank */

/* At MPI_Finalize(): rank 0 prints what all ranks have counted. Collective. */
void report_print(void);
