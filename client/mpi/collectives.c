/* The MPI's collective calls. */
#include <errno.h>
#include <stdlib.h>

#include "client/include/tca-coll.h"

#include "client/mpi/collective.h"
#include "client/mpi/operator.h"
#include "client/mpi/request.h"
#include "client/mpi/shim.h"

enum { BYTES_MAX = 1 << 20 }; /* of all blocks: copying costs more than it saves beyond */

struct side {
    const void *address;
    MPI_Count count;
    MPI_Datatype type;
};

struct arguments {
    enum collective_kind kind;
    struct side in, out;
    MPI_Op op;
    int root;
    MPI_Comm comm;
};

/* ---- shapes */

static bool is_reduction(enum collective_kind kind)
{
    return kind == COLLECTIVE_REDUCE || kind == COLLECTIVE_ALLREDUCE ||
           kind == COLLECTIVE_REDUCE_SCATTER;
}

/* How many blocks `out` of these arguments has at least one rank. */
static MPI_Count blocks_of(enum collective_kind kind, const struct communicator *communicator)
{
    return kind == COLLECTIVE_ALLGATHER || kind == COLLECTIVE_ALLTOALL ||
                   kind == COLLECTIVE_REDUCE_SCATTER
               ? communicator->size
               : 1;
}

/* By nothing that may differ between ranks. False: the MPI gets it. */
static bool shape_of(const struct arguments *arguments, const struct communicator *communicator,
                     struct collective_shape *ret_shape)
{
    struct collective_shape shape = {.kind = arguments->kind, .root = (uint32_t)arguments->root};
    struct tca_coll_operator operation;
    uint64_t each = 0, bytes;

    if (arguments->kind == COLLECTIVE_BARRIER) {
        *ret_shape = shape;
        return true;
    }
    if (arguments->out.count <= 0 || arguments->root < 0 || arguments->root >= communicator->size ||
        arguments->out.type == MPI_DATATYPE_NULL)
        return false;
    shape.count = (uint64_t)arguments->out.count;
    if (is_reduction(arguments->kind)) {
        if (!operator_of(arguments->op, arguments->out.type, &operation))
            return false;
        shape.combine = operation.combine;
        shape.type = operation.type;
        each = (uint64_t)tca_combine_bytes(operation.combine, operation.type);
    } else if (datatype_bytes(arguments->out.type, &each) < 0 ||
               __builtin_mul_overflow(shape.count, each, &shape.count)) {
        return false;
    }
    bytes = is_reduction(arguments->kind) ? each : 1;
    if (__builtin_mul_overflow(bytes, shape.count, &bytes) ||
        __builtin_mul_overflow(bytes, (uint64_t)blocks_of(arguments->kind, communicator), &bytes))
        return false;
    *ret_shape = shape;
    return bytes > 0 && bytes <= BYTES_MAX;
}

/* ---- memory without gaps */

struct edge {
    struct datatype_use use;
    void *copy; /* NULL: the program's memory has no gaps, or the use has copied */
};

static int edge_init(struct edge *ret_edge, const struct side *side, MPI_Count blocks,
                     enum datatype_direction direction)
{
    struct edge edge = {0};
    int r =
        datatype_use_init(&edge.use, side->address, side->count * blocks, side->type, direction);

    if (r == 0 && edge.use.buffer.layout && !(edge.copy = malloc(edge.use.bytes + 1))) {
        datatype_use_deinit(&edge.use);
        r = -ENOMEM;
    }
    if (r == 0)
        *ret_edge = edge;
    return r;
}

static void edge_deinit(struct edge *edge)
{
    free(edge->copy);
    datatype_use_deinit(&edge->use);
}

static void *edge_memory(const struct edge *edge)
{
    return edge->copy ? edge->copy : edge->use.buffer.address;
}

/* Gathers what the program has there. */
static int edge_fill(struct edge *edge)
{
    uint64_t position = 0;

    if (!edge->copy)
        return datatype_use_start(&edge->use);
    return tca_pack(edge->use.buffer.layout, edge->use.buffer.address, edge->copy, edge->use.bytes,
                    &position);
}

static int edge_empty(struct edge *edge)
{
    uint64_t position = 0;

    if (!edge->copy)
        return datatype_use_finish(&edge->use);
    return tca_unpack(edge->use.buffer.layout, edge->use.buffer.address, edge->copy,
                      edge->use.bytes, &position);
}

/* ---- running */

/* Elements of reductions have no gaps that matter. */
static int reduce(struct collective *collective, const struct arguments *arguments)
{
    const bool in_place = arguments->in.address == MPI_IN_PLACE;
    const void *in = in_place ? NULL : arguments->in.address;

    if (in_place && arguments->kind == COLLECTIVE_REDUCE_SCATTER)
        in = arguments->out.address; /* read before it is written */
    return collective_run(collective, in, (void *)(uintptr_t)arguments->out.address);
}

static int broadcast(struct collective *collective, const struct arguments *arguments, int rank)
{
    const bool is_root = arguments->root == rank;
    struct edge edge;
    int r = edge_init(&edge, &arguments->out, 1, is_root ? DATATYPE_SEND : DATATYPE_RECEIVE);

    if (r < 0)
        return r;
    if (is_root)
        r = edge_fill(&edge);
    if (r >= 0)
        r = collective_run(collective, NULL, edge_memory(&edge));
    if (r >= 0 && !is_root)
        r = edge_empty(&edge);
    edge_deinit(&edge);
    return r;
}

/* Allgather and alltoall. */
static int exchange(struct collective *collective, const struct arguments *arguments, int size)
{
    const bool in_place = arguments->in.address == MPI_IN_PLACE;
    const bool to_all = arguments->kind == COLLECTIVE_ALLTOALL;
    struct edge in = {0}, out;
    int r = edge_init(&out, &arguments->out, size, DATATYPE_RECEIVE);

    if (r < 0)
        return r;
    if (in_place)
        r = edge_fill(&out);
    else if ((r = edge_init(&in, &arguments->in, to_all ? size : 1, DATATYPE_SEND)) == 0)
        r = edge_fill(&in);
    const void *from = !in_place ? edge_memory(&in) : to_all ? edge_memory(&out) : NULL;
    if (r >= 0)
        r = collective_run(collective, from, edge_memory(&out));
    if (r >= 0)
        r = edge_empty(&out);
    edge_deinit(&in);
    edge_deinit(&out);
    return r;
}

static int run(struct collective *collective, const struct arguments *arguments,
               const struct communicator *communicator)
{
    switch (arguments->kind) {
    case COLLECTIVE_BARRIER:
        return collective_run(collective, NULL, NULL);
    case COLLECTIVE_BROADCAST:
        return broadcast(collective, arguments, communicator_rank(communicator, shim.rank));
    case COLLECTIVE_ALLGATHER:
    case COLLECTIVE_ALLTOALL:
        return exchange(collective, arguments, communicator->size);
    default:
        return reduce(collective, arguments);
    }
}

/* False: the MPI gets the call. */
static bool carry(const struct arguments *arguments, int *ret_class)
{
    struct collective_shape shape;
    struct collective *collective = NULL;
    int r = 0;

    if (!shim.active || !shim.collectives)
        return false;
    shim_lock();
    struct communicator *communicator = communicator_find(arguments->comm);
    if (!communicator || communicator->world || communicator->size == 1)
        counted[COUNTED_PART]++;
    else if (!shape_of(arguments, communicator, &shape))
        counted[COUNTED_SHAPE]++;
    else if (!(collective = collective_find(communicator, &shape)))
        counted[COUNTED_SELDOM]++;
    else
        r = run(collective, arguments, communicator);
    if (collective)
        counted[COUNTED_COLLECTIVE + arguments->kind]++;
    shim_unlock();
    *ret_class = r < 0 ? error_raise(arguments->comm, r) : MPI_SUCCESS;
    return collective;
}

#define CARRY(next_call, ...)                                                                      \
    const struct arguments arguments = {__VA_ARGS__};                                              \
    int class;                                                                                     \
                                                                                                   \
    return carry(&arguments, &class) ? class : next.next_call

int MPI_Barrier(MPI_Comm comm)
{
    CARRY(Barrier(comm), .kind = COLLECTIVE_BARRIER, .comm = comm);
}

#define BCAST(name, number)                                                                        \
    int MPI_##name(void *memory, number count, MPI_Datatype type, int root, MPI_Comm comm)         \
    {                                                                                              \
        CARRY(name(memory, count, type, root, comm), .kind = COLLECTIVE_BROADCAST,                 \
              .out = {memory, count, type}, .root = root, .comm = comm);                           \
    }

#define REDUCE(name, number)                                                                       \
    int MPI_##name(const void *in, void *out, number count, MPI_Datatype type, MPI_Op op,          \
                   int root, MPI_Comm comm)                                                        \
    {                                                                                              \
        CARRY(name(in, out, count, type, op, root, comm), .kind = COLLECTIVE_REDUCE,               \
              .in = {in, count, type}, .out = {out, count, type}, .op = op, .root = root,          \
              .comm = comm);                                                                       \
    }

#define REDUCE_ALL(name, number, which)                                                            \
    int MPI_##name(const void *in, void *out, number count, MPI_Datatype type, MPI_Op op,          \
                   MPI_Comm comm)                                                                  \
    {                                                                                              \
        CARRY(name(in, out, count, type, op, comm), .kind = which, .in = {in, count, type},        \
              .out = {out, count, type}, .op = op, .comm = comm);                                  \
    }

#define EXCHANGE(name, number, which)                                                              \
    int MPI_##name(const void *in, number in_count, MPI_Datatype in_type, void *out, number count, \
                   MPI_Datatype type, MPI_Comm comm)                                               \
    {                                                                                              \
        CARRY(name(in, in_count, in_type, out, count, type, comm), .kind = which,                  \
              .in = {in, in_count, in_type}, .out = {out, count, type}, .comm = comm);             \
    }

BCAST(Bcast, int)
REDUCE(Reduce, int)
REDUCE_ALL(Allreduce, int, COLLECTIVE_ALLREDUCE)
REDUCE_ALL(Reduce_scatter_block, int, COLLECTIVE_REDUCE_SCATTER)
EXCHANGE(Allgather, int, COLLECTIVE_ALLGATHER)
EXCHANGE(Alltoall, int, COLLECTIVE_ALLTOALL)
#ifndef OPEN_MPI
BCAST(Bcast_c, MPI_Count)
REDUCE(Reduce_c, MPI_Count)
REDUCE_ALL(Allreduce_c, MPI_Count, COLLECTIVE_ALLREDUCE)
REDUCE_ALL(Reduce_scatter_block_c, MPI_Count, COLLECTIVE_REDUCE_SCATTER)
EXCHANGE(Allgather_c, MPI_Count, COLLECTIVE_ALLGATHER)
EXCHANGE(Alltoall_c, MPI_Count, COLLECTIVE_ALLTOALL)
#endif
