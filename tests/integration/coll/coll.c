/*
 * coll SEED ROUNDS STARTS [VICTIM]: random collective operations, two at a time, the same ones at
 * all ranks of the group, with every byte checked after every start. Ranks are slow at random, and
 * start and wait in random order; in every round, one begins one of its starts long after all
 * others. Rank VICTIM kills itself in the midst, and the others must hear of that. PREFER in the
 * environment names a rail; with THREAD, most ranks use a thread; some buffers are attached memory,
 * with ATTACH most of them. Operations that may have any memory have some of malloc(), and ranks
 * give them other memory between their starts. Ends with 0, or prints what was wrong.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/include/tca-coll.h"
#include "tests/unit/client/coll_world.h"

enum { OPERATIONS = 2, VICTIMS_START = 5, LATE_US = 50000, MISALIGNED = 16 };
#define TIMEOUT_NS INT64_C(50000000000)

struct buffer {
    uint8_t *memory;
    struct tca_region *region; /* that was attached, and where it begins; or NULL */
    uint8_t *heap;
};

struct operation {
    struct coll_world world;
    struct tca_coll_args args;
    struct tca_coll *coll;
    struct buffer in, out;
    bool by_plan;   /* reduces by an operator of tca.h, rather than by a function */
    uint32_t start; /* number of the current one */
};

struct job {
    struct tca *session;
    uint32_t rank, victim;
    uint32_t late, late_start; /* which rank begins which start late */
    uint64_t round;
    struct operation operations[OPERATIONS];
    struct random delays; /* other ones at each rank */
};

static _Noreturn void wrong(const struct job *job, const struct operation *operation,
                            const char *what, int error)
{
    static const char *const names[COLL_OPERATIONS] = {
        "barrier", "broadcast", "allgather", "reduce", "allreduce", "reduce-scatter", "alltoall"};
    const struct coll_shape *shape = &operation->world.shape;

    printf("rank %u, round %lu, %s of %lu bytes by %s, root %u%s%s, start %u: %s: %s (%s)\n",
           job->rank, job->round, names[shape->operation], shape->bytes,
           tca_coll_algorithm_name(operation->args.algorithm), shape->root,
           shape->in_place ? ", in place" : "",
           shape->ordered       ? ", ordered"
           : operation->by_plan ? ", by plan"
                                : "",
           operation->start, what, tca_error_text(), tca_strerror(error));
    exit(1);
}

/* ---- operations */

static void combine(const void *left, const void *right, void *result, uint64_t count,
                    void *context)
{
    const enum coll_world_operator *reduction = context;

    for (uint64_t i = 0; i < count; i++)
        coll_world_combine(*reduction, (const uint8_t *)left + 8 * i,
                           (const uint8_t *)right + 8 * i, (uint8_t *)result + 8 * i);
}

/* A random operation, and an algorithm that suits it, or none. */
static void choose(struct job *job, struct random *random, struct operation *operation)
{
    struct coll_shape *shape = &operation->world.shape;

    coll_world_init(&operation->world, random,
                    (enum coll_operation)random_below(random, COLL_OPERATIONS),
                    tca_size(job->session));
    memset(&operation->args, 0, sizeof(operation->args));
    operation->start = 0;
    operation->by_plan = !shape->ordered && random_below(random, 2);
    for (int tries = 0; tries < 4; tries++) {
        int a = TCA_COLL_DIRECT + (int)random_below(random, TCA_COLL_HIERARCHICAL);
        if (coll_schedule_suits(shape, (enum tca_coll_algorithm)a))
            operation->args.algorithm = (enum tca_coll_algorithm)a;
    }
    if (random_below(random, 2))
        operation->args.segment_bytes = shape->segment_bytes;
    const bool any = shape->operation != COLL_ALLTOALL || shape->regular;
    operation->args.any_memory = any && random_below(random, 2);
    operation->args.plan.rail_name = getenv("PREFER");
    operation->args.plan.flags = operation->args.plan.rail_name ? TCA_PLAN_PREFER : 0;
    operation->args.plan.channel = (uint32_t)random_below(random, 4);
    operation->args.thread = getenv("THREAD") && random_below(&job->delays, 4) > 0;
}

static int make_blocks(struct job *job, struct operation *operation, const void *in)
{
    const struct coll_world *world = &operation->world;
    struct tca_coll_span sent[COLL_WORLD_RANKS], received[COLL_WORLD_RANKS];
    bool gathers = world->shape.operation == COLL_ALLGATHER;
    uint32_t me = job->rank;

    if (world->shape.regular && gathers)
        return tca_coll_allgather(job->session, in, operation->out.memory, world->shape.bytes,
                                  &operation->args, &operation->coll);
    if (world->shape.regular)
        return tca_coll_alltoall(job->session, in, operation->out.memory, world->shape.bytes,
                                 &operation->args, &operation->coll);
    for (uint32_t rank = 0; rank < world->shape.places.size; rank++) {
        const struct coll_span *out = &world->spans[gathers ? 0 : me][rank];
        sent[rank] = (struct tca_coll_span){out->offset, out->bytes};
        received[rank] =
            (struct tca_coll_span){world->targets[rank][me], world->spans[rank][me].bytes};
    }
    if (gathers)
        return tca_coll_allgatherv(job->session, in, operation->out.memory, sent, &operation->args,
                                   &operation->coll);
    return tca_coll_alltoallv(job->session, in, sent, operation->out.memory, received,
                              &operation->args, &operation->coll);
}

static int make(struct job *job, struct operation *operation)
{
    const struct coll_world *world = &operation->world;
    const struct coll_shape *shape = &world->shape;
    struct tca_coll_operator how = {.function = combine,
                                    .context = (void *)&world->reduction,
                                    .element_bytes = 8,
                                    .ordered = shape->ordered};
    uint64_t counts[COLL_WORLD_RANKS];
    bool from_in;

    if (operation->by_plan)
        how =
            world->reduction == COLL_WORLD_SUM
                ? (struct tca_coll_operator){.combine = TCA_COMBINE_SUM, .type = TCA_TYPE_UINT64}
                : (struct tca_coll_operator){.combine = TCA_COMBINE_MIN_LOC, .type = TCA_TYPE_INT8};
    coll_world_contribution(world, job->rank, &from_in);
    const void *in = from_in ? operation->in.memory : NULL;
    for (uint32_t rank = 0; rank < shape->places.size; rank++)
        counts[rank] = world->spans[0][rank].bytes / 8;
    switch (shape->operation) {
    case COLL_BARRIER:
        return tca_coll_barrier(job->session, &operation->args, &operation->coll);
    case COLL_BROADCAST:
        return tca_coll_broadcast(job->session, operation->out.memory, shape->bytes, shape->root,
                                  &operation->args, &operation->coll);
    case COLL_REDUCE:
        return tca_coll_reduce(job->session, in, operation->out.memory, shape->bytes / 8, &how,
                               shape->root, &operation->args, &operation->coll);
    case COLL_ALLREDUCE:
        return tca_coll_allreduce(job->session, in, operation->out.memory, shape->bytes / 8, &how,
                                  &operation->args, &operation->coll);
    case COLL_REDUCE_SCATTER:
        return tca_coll_reduce_scatter(job->session, in, operation->out.memory, counts, &how,
                                       &operation->args, &operation->coll);
    default:
        return make_blocks(job, operation, in);
    }
}

/* Whether it may have any memory. */
static bool may_move(const struct operation *operation)
{
    const struct coll_shape *shape = &operation->world.shape;
    uint64_t bytes = shape->bytes;

    if (shape->operation == COLL_ALLGATHER || shape->operation == COLL_REDUCE_SCATTER ||
        shape->operation == COLL_ALLTOALL) {
        bytes = 0;
        for (uint32_t rank = 0; rank < shape->places.size; rank++)
            bytes += operation->world.spans[0][rank].bytes;
    }
    if (shape->operation == COLL_ALLTOALL && !shape->regular)
        return false;
    return operation->args.any_memory || bytes <= COLL_SHORT_BYTES;
}

static int take_any_memory(struct job *job, uint64_t bytes, struct buffer *ret_buffer)
{
    struct buffer buffer = {.heap = malloc(bytes + MISALIGNED)};

    if (!buffer.heap)
        return -ENOMEM;
    buffer.memory = buffer.heap + random_below(&job->delays, MISALIGNED);
    *ret_buffer = buffer;
    return 0;
}

static int take_memory(struct job *job, uint64_t bytes, bool may_attach, struct buffer *ret_buffer)
{
    bool attaches = may_attach && random_below(&job->delays, 4) < (getenv("ATTACH") ? 3 : 1);
    struct buffer buffer = {0};

    if (!attaches) {
        *ret_buffer = buffer;
        return tca_alloc(job->session, bytes, (void **)&ret_buffer->memory);
    }
    buffer.heap = malloc(bytes + MISALIGNED);
    if (!buffer.heap)
        return -ENOMEM;
    buffer.memory = buffer.heap + random_below(&job->delays, MISALIGNED);
    *ret_buffer = buffer;
    return tca_region_attach(job->session, buffer.memory, bytes, &ret_buffer->region);
}

/* 0, or a negative errno. */
static int give_memory(struct job *job, struct buffer *buffer)
{
    int r = buffer->region ? tca_region_free(buffer->region)
            : buffer->heap ? 0
                           : tca_free(job->session, buffer->memory);

    free(buffer->heap);
    return r;
}

static void prepare(struct job *job, struct random *random, struct operation *operation)
{
    const struct coll_world *world = &operation->world;

    choose(job, random, operation);
    bool reduces_there = operation->by_plan && world->shape.operation == COLL_REDUCE;
    reduces_there &= !may_move(operation);
    int r = take_memory(job, world->in_bytes[job->rank] + 1, true, &operation->in);
    if (r >= 0)
        r = take_memory(job, world->out_bytes[job->rank] + 1, !reduces_there, &operation->out);
    if (r >= 0)
        r = make(job, operation);
    if (r < 0)
        wrong(job, operation, "preparing it", r);
}

static void finish(struct job *job, struct operation *operation)
{
    tca_coll_free(operation->coll);
    if (job->victim == UINT32_MAX) { /* otherwise, others may still put there */
        int r = give_memory(job, &operation->in), s = give_memory(job, &operation->out);
        if (r < 0 || s < 0)
            wrong(job, operation, "freeing its memory", r < 0 ? r : s);
    }
    coll_world_deinit(&operation->world);
}

/* ---- starts */

/* Other memory, from the next start on; what it replaces is freed at once. */
static void move(struct job *job, struct operation *operation)
{
    const struct coll_world *world = &operation->world;
    struct buffer in = {0}, out = {0};
    bool from_in;

    coll_world_contribution(world, job->rank, &from_in);
    if (take_any_memory(job, world->in_bytes[job->rank] + 1, &in) < 0 ||
        take_any_memory(job, world->out_bytes[job->rank] + 1, &out) < 0)
        wrong(job, operation, "memory", -ENOMEM);
    int r = tca_coll_rebind(operation->coll, from_in ? in.memory : NULL, out.memory);
    if (r != (may_move(operation) ? 0 : -EINVAL))
        wrong(job, operation, "giving it other memory", r);
    if (r == 0 && (give_memory(job, &operation->in) < 0 || give_memory(job, &operation->out) < 0))
        wrong(job, operation, "freeing the memory it had", 0);
    if (r < 0) {
        give_memory(job, &in);
        give_memory(job, &out);
        return;
    }
    operation->in = in;
    operation->out = out;
}

static void dawdle(struct job *job)
{
    if (random_below(&job->delays, 4) == 0)
        usleep((useconds_t)random_below(&job->delays, 2000));
}

static int start(struct job *job, struct operation *operation)
{
    const struct coll_world *world = &operation->world;
    bool from_in;
    int64_t offset = coll_world_contribution(world, job->rank, &from_in);

    uint8_t *own = from_in ? operation->in.memory : operation->out.memory;
    memset(operation->in.memory, 0xa5, world->in_bytes[job->rank]);
    memset(operation->out.memory, 0x5a, world->out_bytes[job->rank]);
    for (uint64_t i = 0; offset >= 0 && i < world->in_bytes[job->rank]; i++)
        own[offset + (int64_t)i] = coll_world_input(operation->start, job->rank, i);
    dawdle(job);
    return tca_coll_start(operation->coll);
}

static int await(struct job *job, struct operation *operation)
{
    const struct coll_world *world = &operation->world;
    int64_t patience_ns = job->victim == UINT32_MAX ? TIMEOUT_NS : TCA_FOREVER;
    int r = 0;

    dawdle(job);
    if (random_below(&job->delays, 2))
        for (uint64_t round = 0; round < 10000 && (r = tca_coll_test(operation->coll)) == 0;
             round++)
            tca_pause(round);
    if (r >= 0)
        r = tca_coll_wait(operation->coll, patience_ns);
    if (r < 0)
        return r;
    for (uint64_t i = 0; i < world->out_bytes[job->rank]; i++) {
        int byte = coll_world_expected(world, operation->start, job->rank, i);
        if (byte < 0 || byte == operation->out.memory[i])
            continue;
        printf("byte %lu is %02x, not %02x. ", i, operation->out.memory[i], byte);
        wrong(job, operation, "result", 0);
    }
    memset(operation->in.memory, 0x99, world->in_bytes[job->rank]);
    memset(operation->out.memory, 0x66, world->out_bytes[job->rank]);
    operation->start++;
    return 0;
}

/* One start of each, in random orders. */
static int step(struct job *job, const struct operation **ret_operation)
{
    uint64_t first = random_below(&job->delays, OPERATIONS);
    int r = 0;

    for (uint64_t i = 0; i < OPERATIONS; i++) /* while none runs: a thread may */
        if (random_below(&job->delays, 3) == 0)
            move(job, &job->operations[i]);
    if (job->rank == job->late && job->operations[0].start == job->late_start)
        usleep(LATE_US);
    for (uint64_t i = 0; r >= 0 && i < OPERATIONS; i++) {
        *ret_operation = &job->operations[(first + i) % OPERATIONS];
        r = start(job, &job->operations[(first + i) % OPERATIONS]);
    }
    if (job->rank == job->victim && job->operations[0].start == VICTIMS_START)
        raise(SIGKILL);
    first = random_below(&job->delays, OPERATIONS);
    for (uint64_t i = 0; r >= 0 && i < OPERATIONS; i++) {
        *ret_operation = &job->operations[(first + i) % OPERATIONS];
        r = await(job, &job->operations[(first + i) % OPERATIONS]);
    }
    return r;
}

static void run(struct job *job, uint64_t starts)
{
    const struct operation *operation = NULL;
    int r = 0;

    if (job->victim != UINT32_MAX)
        starts = UINT64_MAX;
    for (uint64_t n = 0; r >= 0 && n < starts; n++)
        r = step(job, &operation);
    if (r != (job->victim == UINT32_MAX ? 0 : -EOWNERDEAD))
        wrong(job, operation, "start", r);
    if (r < 0 && tca_coll_start(operation->coll) != r)
        wrong(job, operation, "a start after the failure", r);
}

int main(int argc, char **argv)
{
    static struct job job = {.victim = UINT32_MAX};

    if (argc < 4)
        return 2;
    struct random random = {strtoull(argv[1], NULL, 0)};
    uint64_t rounds = strtoull(argv[2], NULL, 0), starts = strtoull(argv[3], NULL, 0);
    if (argc > 4)
        job.victim = (uint32_t)strtoul(argv[4], NULL, 0);
    int r = tca_open(NULL, &job.session);
    if (r < 0) {
        printf("tca_open(): %s\n", tca_error_text());
        return 1;
    }
    job.rank = tca_rank(job.session);
    job.delays.state = random.state * 64 + job.rank;
    for (; job.round < rounds; job.round++) {
        for (int i = 0; i < OPERATIONS; i++)
            prepare(&job, &random, &job.operations[i]);
        job.late = (uint32_t)random_below(&random, tca_size(job.session));
        job.late_start = (uint32_t)random_below(&random, VICTIMS_START + 1);
        run(&job, starts);
        for (int i = 0; i < OPERATIONS; i++)
            finish(&job, &job.operations[i]);
    }
    tca_close(job.session);
    return 0;
}
