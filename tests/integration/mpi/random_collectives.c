/*
 * Random collective operations on several communicators, of few shapes, so that each comes again,
 * while messages are under way: every rank computes what the results must be.
 *
 *     random_collectives SEED CALLS
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/integration/mpi/random_messages.h"

enum { SHAPES = 8, COMMUNICATORS = 4, NUMBERS_MAX = 6000, LONG_MESSAGE = 30000, FREED_EVERY = 60 };

/* MPICH 4.0 reads from MPI_IN_PLACE in some calls of MPI_Reduce(). */
#ifdef MPICH_VERSION
static const bool bare_fails = true;
#else
static const bool bare_fails = false;
#endif

enum kind { BARRIER, BCAST, REDUCE, ALLREDUCE, REDUCE_SCATTER, ALLGATHER, ALLTOALL, KINDS };

struct shape {
    enum kind kind;
    int communicator, root, count;
    int op;
    bool in_place;
};

static int world_rank, world_size;
static unsigned wrong_results;
static MPI_Comm communicators[COMMUNICATORS];
static double *given, *taken;

/* Of an element that a rank of MPI_COMM_WORLD gives: small integers, so that sums are exact. */
static double value(uint64_t call, int of, int i)
{
    return (double)(mix(mix(call, (uint64_t)of), (uint64_t)i) % 1000);
}

static double combined(int op, double a, double b)
{
    return op == 0 ? a + b : op == 1 ? (a < b ? a : b) : (a > b ? a : b);
}

static MPI_Op op_of(int op)
{
    return op == 0 ? MPI_SUM : op == 1 ? MPI_MIN : MPI_MAX;
}

/* ---- memory: contiguous or with a gap behind each element, as this rank likes */

static MPI_Datatype type_with_gaps(int gap)
{
    MPI_Datatype type;

    MPI_Type_create_resized(MPI_DOUBLE, 0, (1 + gap) * (MPI_Aint)sizeof(double), &type);
    MPI_Type_commit(&type);
    return type;
}

static void fill(double *memory, int stride, uint64_t call, int of, int from, int count)
{
    for (int i = 0; i < count; i++)
        memory[i * stride] = value(call, of, from + i);
}

static void expect(const char *what, double got, double wanted, uint64_t call)
{
    if (got == wanted)
        return;
    if (wrong_results++ == 0)
        fprintf(stderr, "rank %d: call %llu: %s: %g instead of %g\n", world_rank,
                (unsigned long long)call, what, got, wanted);
}

/* ---- calls */

/* The members of the communicator as ranks of MPI_COMM_WORLD. */
struct members {
    int rank, size;
    int world[RANKS_MAX];
};

static void find_members(MPI_Comm comm, struct members *members)
{
    MPI_Group group, all;
    int ranks[RANKS_MAX];

    MPI_Comm_rank(comm, &members->rank);
    MPI_Comm_size(comm, &members->size);
    for (int i = 0; i < members->size; i++)
        ranks[i] = i;
    MPI_Comm_group(comm, &group);
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_translate_ranks(group, members->size, ranks, all, members->world);
    MPI_Group_free(&group);
    MPI_Group_free(&all);
}

static double reduced(const struct shape *shape, const struct members *members, uint64_t call,
                      int i)
{
    double all = value(call, members->world[0], i);

    for (int r = 1; r < members->size; r++)
        all = combined(shape->op, all, value(call, members->world[r], i));
    return all;
}

static void reduce(const struct shape *shape, const struct members *members, uint64_t call)
{
    MPI_Comm comm = communicators[shape->communicator];
    const MPI_Op op = op_of(shape->op);
    const int n = shape->count, own = members->world[members->rank];
    const bool scatters = shape->kind == REDUCE_SCATTER;
    const bool receives = shape->kind != REDUCE || members->rank == shape->root;
    const bool in_place = shape->in_place && receives && !(bare_fails && shape->kind == REDUCE);
    const int first = scatters ? n * members->rank : 0;

    fill(in_place ? taken : given, 1, call, own, 0, scatters ? n * members->size : n);
    const void *in = in_place ? MPI_IN_PLACE : given;
    if (shape->kind == REDUCE)
        MPI_Reduce(in, taken, n, MPI_DOUBLE, op, shape->root, comm);
    else if (shape->kind == ALLREDUCE)
        MPI_Allreduce(in, taken, n, MPI_DOUBLE, op, comm);
    else
        MPI_Reduce_scatter_block(in, taken, n, MPI_DOUBLE, op, comm);
    for (int i = 0; receives && i < n; i++)
        expect("reduction", taken[i], reduced(shape, members, call, first + i), call);
}

static void broadcast(const struct shape *shape, const struct members *members, uint64_t call,
                      int gap)
{
    const int stride = 1 + gap, from = members->world[shape->root];
    MPI_Datatype type = type_with_gaps(gap);

    if (members->rank == shape->root)
        fill(taken, stride, call, from, 0, shape->count);
    MPI_Bcast(taken, shape->count, gap ? type : MPI_DOUBLE, shape->root,
              communicators[shape->communicator]);
    for (int i = 0; i < shape->count; i++) {
        expect("broadcast", taken[i * stride], value(call, from, i), call);
        if (gap && members->rank != shape->root)
            expect("gap", taken[i * stride + 1], -1, call);
    }
    MPI_Type_free(&type);
}

static void exchange(const struct shape *shape, const struct members *members, uint64_t call,
                     int gap)
{
    MPI_Comm comm = communicators[shape->communicator];
    const int n = shape->count, own = members->world[members->rank], stride = 1 + gap;
    const bool to_all = shape->kind == ALLTOALL;
    MPI_Datatype type = type_with_gaps(gap);

    if (!shape->in_place)
        fill(given, 1, call, own, 0, to_all ? n * members->size : n);
    else if (to_all)
        fill(taken, stride, call, own, 0, n * members->size);
    else
        fill(taken + n * members->rank * stride, stride, call, own, 0, n);
    const void *in = shape->in_place ? MPI_IN_PLACE : given;
    if (to_all)
        MPI_Alltoall(in, n, MPI_DOUBLE, taken, n, gap ? type : MPI_DOUBLE, comm);
    else
        MPI_Allgather(in, n, MPI_DOUBLE, taken, n, gap ? type : MPI_DOUBLE, comm);
    for (int r = 0; r < members->size; r++)
        for (int i = 0; i < n; i++) {
            const int at = (r * n + i) * stride;
            expect("exchange", taken[at],
                   value(call, members->world[r], to_all ? n * members->rank + i : i), call);
            if (gap)
                expect("gap", taken[at + 1], -1, call);
        }
    MPI_Type_free(&type);
}

static void call_once(const struct shape *shape, uint64_t call, int gap)
{
    struct members members;

    find_members(communicators[shape->communicator], &members);
    for (int i = 0; i < 2 * NUMBERS_MAX; i++)
        taken[i] = -1;
    switch (shape->kind) {
    case BCAST:
        broadcast(shape, &members, call, gap);
        break;
    case ALLGATHER:
    case ALLTOALL:
        exchange(shape, &members, call, gap);
        break;
    case BARRIER:
    case KINDS:
        MPI_Barrier(communicators[shape->communicator]);
        break;
    default:
        reduce(shape, &members, call);
    }
}

/* ---- messages that are under way meanwhile: around the ring, to any receiver */

struct ring {
    MPI_Request requests[2];
    double *sent, *received;
    int count;
};

static void ring_begin(struct ring *ring, uint64_t call, int count)
{
    ring->count = count;
    fill(ring->sent, 1, call, world_rank, 0, count);
    MPI_Irecv(ring->received, count, MPI_DOUBLE, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD,
              &ring->requests[0]);
    MPI_Isend(ring->sent, count, MPI_DOUBLE, (world_rank + 1) % world_size, 3, MPI_COMM_WORLD,
              &ring->requests[1]);
}

static void ring_end(struct ring *ring, uint64_t call)
{
    const int from = (world_rank + world_size - 1) % world_size;

    MPI_Waitall(2, ring->requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < ring->count; i++)
        expect("message", ring->received[i], value(call, from, i), call);
}

/* ---- the program */

static void make_communicators(struct dice *plan)
{
    communicators[0] = MPI_COMM_WORLD;
    MPI_Comm_dup(MPI_COMM_WORLD, &communicators[1]);
    MPI_Comm_split(MPI_COMM_WORLD, 0, roll(plan, 2) ? -world_rank : world_rank, &communicators[2]);
    MPI_Comm_split(MPI_COMM_WORLD, world_rank % 2, world_rank, &communicators[3]);
}

static void free_communicators(void)
{
    for (int i = 1; i < COMMUNICATORS; i++)
        MPI_Comm_free(&communicators[i]);
}

static void draw(struct dice *plan, struct shape *shape)
{
    static const int most[] = {1, 8, 100, 2000, NUMBERS_MAX};

    *shape = (struct shape){.kind = (enum kind)roll(plan, KINDS),
                            .communicator = roll(plan, COMMUNICATORS),
                            .count = roll(plan, most[roll(plan, 5)] + 1),
                            .op = roll(plan, 3),
                            .in_place = roll(plan, 3) == 0};
    /* The half of the odd ranks is the smallest one; the buffers are as long as the longest. */
    shape->root =
        roll(plan, shape->communicator < 3 || world_size < 2 ? world_size : world_size / 2);
    if (shape->kind == ALLGATHER || shape->kind == ALLTOALL || shape->kind == REDUCE_SCATTER)
        shape->count /= world_size;
}

int main(int argc, char **argv)
{
    struct shape shapes[SHAPES];
    struct ring ring = {.count = 0};
    unsigned all = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    struct dice plan = {strtoull(argv[1], NULL, 0)}, own = {mix(plan.state, 9 + world_rank)};
    const int calls = atoi(argv[2]);
    given = calloc(2 * NUMBERS_MAX, sizeof(*given));
    taken = calloc(2 * NUMBERS_MAX, sizeof(*taken));
    ring.sent = calloc(LONG_MESSAGE, sizeof(*ring.sent));
    ring.received = calloc(LONG_MESSAGE, sizeof(*ring.received));
    make_communicators(&plan);
    for (int i = 0; i < SHAPES; i++)
        draw(&plan, &shapes[i]);
    shapes[0] = (struct shape){.kind = ALLREDUCE, .count = 10}; /* one is carried in any case */
    for (int call = 0; call < calls; call++) {
        const int meanwhile = roll(&plan, 3);
        if (call % FREED_EVERY == FREED_EVERY - 1) {
            free_communicators();
            make_communicators(&plan);
        }
        if (meanwhile)
            ring_begin(&ring, (uint64_t)call, roll(&plan, meanwhile == 1 ? 100 : LONG_MESSAGE));
        call_once(&shapes[roll(&plan, SHAPES)], (uint64_t)call, roll(&own, 2));
        if (meanwhile)
            ring_end(&ring, (uint64_t)call);
    }
    MPI_Reduce(&wrong_results, &all, 1, MPI_UNSIGNED, MPI_SUM, 0, MPI_COMM_WORLD);
    if (world_rank == 0)
        printf("%u wrong\n", all);
    free_communicators();
    free(given);
    free(taken);
    free(ring.sent);
    free(ring.received);
    MPI_Finalize();
    return 0;
}
