/* The table of communicators, and the calls that make and free them. */
#include "client/mpi/communicator.h"

#include <stdlib.h>

#include "client/mpi/collective.h"
#include "client/mpi/request.h"
#include "client/mpi/shim.h"

enum { BUCKETS = 1024 }; /* a power of 2 */

static struct communicator *buckets[BUCKETS];
static struct communicator *last; /* found */
static uint32_t chosen;           /* context numbers, by this rank */

static struct communicator **bucket_of(MPI_Comm handle)
{
    const uint64_t number = (uintptr_t)handle;

    return &buckets[(number * UINT64_C(0x9e3779b97f4a7c15)) >> 54];
}

struct communicator *communicator_find(MPI_Comm handle)
{
    if (last && last->handle == handle)
        return last;
    for (struct communicator *it = *bucket_of(handle); it; it = it->next)
        if (it->handle == handle)
            return last = it;
    return NULL;
}

void communicator_release(struct communicator *communicator)
{
    if (--communicator->uses > 0)
        return;
    collectives_leave(communicator->collectives);
    free(communicator->world);
    free(communicator->local);
    free(communicator);
}

/* The program or the MPI may use the handle again. */
static void forget(MPI_Comm handle)
{
    struct communicator **link = bucket_of(handle);

    while (*link && (*link)->handle != handle)
        link = &(*link)->next;
    if (!*link)
        return;
    struct communicator *communicator = *link;
    *link = communicator->next;
    communicator->handle = MPI_COMM_NULL;
    last = NULL;
    communicator_release(communicator);
}

/* ---- new ones */

uint32_t communicator_context_new(void)
{
    int bits = 32 - __builtin_clz(shim.size - 1);

    return ++chosen << bits | (uint32_t)shim.rank;
}

/* Translates its ranks. False: not all are in MPI_COMM_WORLD, or there is no memory. */
static bool translate(struct communicator *communicator)
{
    MPI_Group group, world;
    int size = communicator->size;
    int *ranks = malloc(2 * size * sizeof(*ranks));
    bool inside = ranks, same = size == shim.size;

    communicator->world = malloc(size * sizeof(*communicator->world));
    communicator->local = malloc(shim.size * sizeof(*communicator->local));
    if (!ranks || !communicator->world || !communicator->local) {
        free(ranks);
        return false;
    }
    for (int i = 0; i < size; i++)
        ranks[i] = i;
    next.Comm_group(communicator->handle, &group);
    next.Comm_group(MPI_COMM_WORLD, &world);
    next.Group_translate_ranks(group, size, ranks, world, ranks + size);
    next.Group_free(&group);
    next.Group_free(&world);
    for (int i = 0; i < shim.size; i++)
        communicator->local[i] = -1;
    for (int i = 0; i < size && inside; i++) {
        int rank = ranks[size + i];
        inside = rank != MPI_UNDEFINED;
        same &= rank == i;
        if (inside) {
            communicator->world[i] = rank;
            communicator->local[rank] = i;
        }
    }
    free(ranks);
    if (same) {
        free(communicator->world);
        free(communicator->local);
        communicator->world = NULL;
        communicator->local = NULL;
    }
    return inside;
}

/* NULL: it is not to be carried. */
static struct communicator *communicator_new(MPI_Comm handle)
{
    struct communicator *communicator;
    int between = 0;

    next.Comm_test_inter(handle, &between);
    if (between || !(communicator = calloc(1, sizeof(*communicator))))
        return NULL;
    communicator->handle = handle;
    communicator->uses = 1;
    next.Comm_size(handle, &communicator->size);
    if (translate(communicator))
        return communicator;
    communicator_release(communicator);
    return NULL;
}

static void put_in_table(struct communicator *communicator, uint32_t context)
{
    struct communicator **bucket = bucket_of(communicator->handle);

    communicator->context = context;
    shim_lock();
    forget(communicator->handle); /* freed without our knowing */
    communicator->next = *bucket;
    *bucket = communicator;
    shim_unlock();
}

void communicator_adopt_with(MPI_Comm handle, uint32_t context)
{
    struct communicator *communicator = communicator_new(handle);

    if (communicator)
        put_in_table(communicator, context);
}

void communicator_adopt(MPI_Comm handle)
{
    uint32_t context = 0;
    int rank;

    if (!shim.active || handle == MPI_COMM_NULL)
        return;
    struct communicator *communicator = communicator_new(handle);
    if (!communicator)
        return;
    next.Comm_rank(handle, &rank);
    if (rank == 0) {
        shim_lock();
        context = communicator_context_new();
        shim_unlock();
    }
    next.Bcast(&context, 1, MPI_UINT32_T, 0, handle);
    put_in_table(communicator, context);
}

void communicators_init(void)
{
    communicator_adopt_with(MPI_COMM_WORLD, 0);
    communicator_adopt_with(MPI_COMM_SELF, 1);
}

void communicators_deinit(void)
{
    for (int i = 0; i < BUCKETS; i++)
        while (buckets[i])
            forget(buckets[i]->handle);
}

/* ---- the calls */

#define MAKES(name, parameters, ...)                                                               \
    int MPI_##name parameters                                                                      \
    {                                                                                              \
        int r = next.name(__VA_ARGS__);                                                            \
                                                                                                   \
        if (r == MPI_SUCCESS)                                                                      \
            communicator_adopt(*made);                                                             \
        return r;                                                                                  \
    }

MAKES(Comm_dup, (MPI_Comm comm, MPI_Comm *made), comm, made)
MAKES(Comm_dup_with_info, (MPI_Comm comm, MPI_Info info, MPI_Comm *made), comm, info, made)
MAKES(Comm_split, (MPI_Comm comm, int colour, int key, MPI_Comm *made), comm, colour, key, made)
MAKES(Comm_split_type, (MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *made), comm,
      type, key, info, made)
MAKES(Comm_create, (MPI_Comm comm, MPI_Group group, MPI_Comm *made), comm, group, made)
MAKES(Comm_create_group, (MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *made), comm, group,
      tag, made)
MAKES(Cart_create,
      (MPI_Comm comm, int count, const int dims[], const int periods[], int reorder,
       MPI_Comm *made),
      comm, count, dims, periods, reorder, made)
MAKES(Cart_sub, (MPI_Comm comm, const int remain[], MPI_Comm *made), comm, remain, made)
MAKES(Graph_create,
      (MPI_Comm comm, int count, const int index[], const int edges[], int reorder, MPI_Comm *made),
      comm, count, index, edges, reorder, made)
MAKES(Dist_graph_create,
      (MPI_Comm comm, int n, const int sources[], const int degrees[], const int destinations[],
       const int weights[], MPI_Info info, int reorder, MPI_Comm *made),
      comm, n, sources, degrees, destinations, weights, info, reorder, made)
MAKES(Dist_graph_create_adjacent,
      (MPI_Comm comm, int in, const int sources[], const int source_weights[], int out,
       const int destinations[], const int weights[], MPI_Info info, int reorder, MPI_Comm *made),
      comm, in, sources, source_weights, out, destinations, weights, info, reorder, made)
MAKES(Intercomm_merge, (MPI_Comm comm, int high, MPI_Comm *made), comm, high, made)
#ifndef OPEN_MPI
MAKES(Comm_create_from_group,
      (MPI_Group group, const char *tag, MPI_Info info, MPI_Errhandler handler, MPI_Comm *made),
      group, tag, info, handler, made)
#endif

/* The number goes along, from rank 0 of the old communicator. */
int MPI_Comm_idup(MPI_Comm comm, MPI_Comm *made, MPI_Request *request)
{
    return shim.active ? request_duplicate(comm, MPI_INFO_NULL, made, request)
                       : next.Comm_idup(comm, made, request);
}

#ifndef OPEN_MPI
int MPI_Comm_idup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm *made, MPI_Request *request)
{
    return shim.active ? request_duplicate(comm, info, made, request)
                       : next.Comm_idup_with_info(comm, info, made, request);
}
#endif

static void forget_before(const MPI_Comm *comm)
{
    if (!shim.active || !comm || *comm == MPI_COMM_WORLD || *comm == MPI_COMM_SELF)
        return; /* the MPI refuses, or it is the end */
    shim_lock();
    forget(*comm);
    shim_unlock();
}

int MPI_Comm_free(MPI_Comm *comm)
{
    forget_before(comm);
    return next.Comm_free(comm);
}

int MPI_Comm_disconnect(MPI_Comm *comm)
{
    forget_before(comm);
    return next.Comm_disconnect(comm);
}
