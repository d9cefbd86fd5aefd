/*
 * Communicators that are carried: those whose processes are all in MPI_COMM_WORLD. Each has a
 * context number, which its rank 0 chooses when the MPI has made it: its rank in MPI_COMM_WORLD,
 * and how many it has chosen before. The lock is held in all functions but communicator_adopt().
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/mpi/next.h"

struct collectives;

struct communicator {
    struct communicator *next; /* of those with the same hash */
    MPI_Comm handle;           /* MPI_COMM_NULL: freed, but requests use it */
    uint32_t context;
    int size;
    uint32_t uses;   /* requests, and the table */
    uint32_t *world; /* ranks in MPI_COMM_WORLD; NULL: the same */
    int *local;      /* ranks here of those in MPI_COMM_WORLD, or -1; NULL: the same */
    struct collectives *collectives; /* NULL: no call that could be carried */
};

/* The communicator of a handle; NULL: it is not carried. */
struct communicator *communicator_find(MPI_Comm handle);
/* Makes known a communicator that the MPI has just made, if it is to be carried; MPI_COMM_NULL is a
 * no-op. Collective for its processes. */
void communicator_adopt(MPI_Comm handle);
/* The same with a context that its processes know. */
void communicator_adopt_with(MPI_Comm handle, uint32_t context);
/* A context number that no other communicator gets. */
uint32_t communicator_context_new(void);
/* Releases a use. */
void communicator_release(struct communicator *communicator);
/* MPI_COMM_WORLD and MPI_COMM_SELF. */
void communicators_init(void);
void communicators_deinit(void);

static inline uint32_t communicator_world_rank(const struct communicator *communicator, int rank)
{
    return communicator->world ? communicator->world[rank] : (uint32_t)rank;
}

static inline int communicator_rank(const struct communicator *communicator, uint32_t world_rank)
{
    return communicator->local ? communicator->local[world_rank] : (int)world_rank;
}
