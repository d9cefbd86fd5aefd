#include "tests/unit/client/coll_world.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES_MAX = 1500, PENDING_MAX = 2048, SLOTS = COLL_CHAINS_MAX * COLL_SLOTS };

struct pending {
    const struct coll_step *step;
    uint8_t *from, *to;
};

struct chain_state {
    uint32_t next;
    struct pending pending[PENDING_MAX];
    uint32_t pending_count;
};

struct coll_rank {
    uint8_t *in, *out, *scratch; /* scratch: program.sets times */
    uint32_t start;              /* number of the current one, or of the last */
    bool running;
    struct chain_state chains[COLL_CHAINS_MAX];
    uint64_t counters[COLL_WORLD_RANKS][SLOTS]; /* by sender */
};

static char said[256];

static __attribute__((format(printf, 1, 2))) const char *wrong(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(said, sizeof(said), format, arguments);
    va_end(arguments);
    return said;
}

/* ---- a random operation */

static void cut(struct random *random, struct coll_world *world, bool regular, uint32_t rows)
{
    struct coll_shape *shape = &world->shape;
    uint64_t unit = shape->element_bytes;

    shape->regular = regular;
    shape->bytes = random_below(random, 40) * unit;
    for (uint32_t row = 0; row < rows; row++) {
        uint64_t offset = 0;
        for (uint32_t i = 0; i < shape->places.size; i++) {
            uint64_t bytes = regular ? shape->bytes : random_below(random, 12) * unit;
            uint64_t gap = regular || shape->operation == COLL_REDUCE_SCATTER
                               ? 0
                               : random_below(random, 3) * unit;
            world->spans[row][i] = (struct coll_span){offset + gap, bytes};
            offset += gap + bytes;
        }
        world->in_bytes[row] = offset;
    }
}

static void choose_alltoall(struct random *random, struct coll_world *world)
{
    uint32_t size = world->shape.places.size;

    cut(random, world, random_below(random, 2), size);
    for (uint32_t to = 0; to < size; to++) {
        uint64_t offset = 0;
        for (uint32_t from = 0; from < size; from++) {
            world->targets[from][to] = offset;
            offset += world->spans[from][to].bytes;
        }
        world->out_bytes[to] = offset;
    }
}

static void choose_blocks(struct random *random, struct coll_world *world)
{
    bool gathers = world->shape.operation == COLL_ALLGATHER;

    cut(random, world, random_below(random, 2), 1);
    uint64_t whole = world->in_bytes[0];
    for (uint32_t rank = 0; rank < world->shape.places.size; rank++) {
        world->in_bytes[rank] = gathers ? world->spans[0][rank].bytes : whole;
        world->out_bytes[rank] = gathers ? whole : world->spans[0][rank].bytes;
    }
}

static void choose_vector(struct random *random, struct coll_world *world)
{
    struct coll_shape *shape = &world->shape;
    uint64_t longest = shape->operation == COLL_BROADCAST && random_below(random, 2)
                           ? 2 * COLL_SHORT_BYTES
                           : BYTES_MAX;
    uint64_t limit = longest / shape->element_bytes;

    shape->bytes = random_below(random, random_below(random, 2) ? limit : 4) * shape->element_bytes;
    for (uint32_t rank = 0; rank < shape->places.size; rank++)
        world->in_bytes[rank] = world->out_bytes[rank] = shape->bytes;
}

void coll_world_init(struct coll_world *world, struct random *random, enum coll_operation operation,
                     uint32_t size)
{
    bool reduces =
        operation == COLL_REDUCE || operation == COLL_ALLREDUCE || operation == COLL_REDUCE_SCATTER;
    uint32_t nodes = 1 + (uint32_t)random_below(random, 8);
    uint32_t clusters = 1 + (uint32_t)random_below(random, nodes);

    memset(world, 0, sizeof(*world));
    world->random = random;
    struct coll_shape *shape = &world->shape;
    *shape = (struct coll_shape){.operation = operation,
                                 .places = {size, world->nodes, world->clusters},
                                 .root = (uint32_t)random_below(random, size),
                                 .element_bytes = reduces ? 8 : 1 + random_below(random, 8),
                                 .segment_bytes = 1 + random_below(random, 600),
                                 .in_place = random_below(random, 3) == 0 &&
                                             operation != COLL_REDUCE_SCATTER &&
                                             operation != COLL_ALLTOALL,
                                 .ordered = reduces && random_below(random, 2)};
    world->reduction = shape->ordered            ? COLL_WORLD_COMPOSE
                       : random_below(random, 2) ? COLL_WORLD_MIN_LOC
                                                 : COLL_WORLD_SUM;
    for (uint32_t rank = 0; rank < size; rank++)
        world->nodes[rank] = (uint32_t)random_below(random, nodes);
    for (uint32_t rank = 0; rank < size; rank++)
        world->clusters[rank] = world->nodes[rank] % clusters;
    if (operation == COLL_ALLTOALL)
        choose_alltoall(random, world);
    else if (operation == COLL_ALLGATHER || operation == COLL_REDUCE_SCATTER)
        choose_blocks(random, world);
    else if (operation != COLL_BARRIER)
        choose_vector(random, world);
}

static void release_ranks(struct coll_world *world)
{
    for (uint32_t rank = 0; world->ranks && rank < world->shape.places.size; rank++) {
        free(world->ranks[rank].in);
        free(world->ranks[rank].out);
        free(world->ranks[rank].scratch);
    }
    free(world->ranks);
    world->ranks = NULL;
}

void coll_world_deinit(struct coll_world *world)
{
    release_ranks(world);
    for (uint32_t rank = 0; rank < world->shape.places.size; rank++)
        coll_program_deinit(&world->programs[rank]);
}

int coll_world_schedule(struct coll_world *world, enum tca_coll_algorithm algorithm)
{
    int r = 0;

    world->algorithm = algorithm;
    for (uint32_t rank = 0; r >= 0 && rank < world->shape.places.size; rank++) {
        struct coll_shape shape = world->shape;
        bool row = shape.operation == COLL_ALLTOALL;
        shape.spans = world->spans[row ? rank : 0];
        shape.targets = world->targets[rank];
        coll_program_deinit(&world->programs[rank]);
        r = coll_schedule(&shape, algorithm, rank, &world->programs[rank]);
    }
    return r;
}

/* ---- contents, and the definitions of the operations */

/* Maps x -> a x + b, modulo 2^32: their composition is associative, and does not commute. */
struct map {
    uint32_t a, b;
};

static void compose(const uint8_t *left, const uint8_t *right, uint8_t *result)
{
    struct map l, r;

    memcpy(&l, left, sizeof(l));
    memcpy(&r, right, sizeof(r));
    struct map composed = {l.a * r.a, l.a * r.b + l.b};
    memcpy(result, &composed, sizeof(composed));
}

static void add(const uint8_t *left, const uint8_t *right, uint8_t *result)
{
    uint64_t l, r;

    memcpy(&l, left, sizeof(l));
    memcpy(&r, right, sizeof(r));
    l += r;
    memcpy(result, &l, sizeof(l));
}

static void min_loc(const uint8_t *left, const uint8_t *right, uint8_t *result)
{
    struct {
        int8_t value;
        int32_t index;
    } l, r;

    memcpy(&l, left, sizeof(l));
    memcpy(&r, right, sizeof(r));
    bool is_left = l.value < r.value || (l.value == r.value && l.index <= r.index);
    memmove(result, is_left ? left : right, sizeof(l));
}

void coll_world_combine(enum coll_world_operator reduction, const uint8_t *left,
                        const uint8_t *right, uint8_t *result)
{
    static void (*const all[])(const uint8_t *, const uint8_t *, uint8_t *) = {
        [COLL_WORLD_SUM] = add, [COLL_WORLD_COMPOSE] = compose, [COLL_WORLD_MIN_LOC] = min_loc};

    all[reduction](left, right, result);
}

/* Byte `index` of what a rank contributes to a start. Values of pairs are often equal. */
uint8_t coll_world_input(uint32_t start, uint32_t rank, uint64_t index)
{
    struct random random = {(uint64_t)start << 40 | (uint64_t)rank << 20 | index};

    return (uint8_t)random_next(&random) & (index % 8 == 0 ? 3 : 255);
}

static uint8_t reduced(const struct coll_world *world, uint32_t start, uint64_t index)
{
    uint64_t first = index / 8 * 8;
    uint8_t sum[8], next[8];

    for (uint32_t rank = 0; rank < world->shape.places.size; rank++) {
        for (uint64_t i = 0; i < 8; i++)
            next[i] = coll_world_input(start, rank, first + i);
        if (rank == 0)
            memcpy(sum, next, sizeof(sum));
        else
            coll_world_combine(world->reduction, sum, next, sum);
    }
    return sum[index - first];
}

/* Byte of OUT after a start; -1: not written. */
int coll_world_expected(const struct coll_world *world, uint32_t start, uint32_t rank,
                        uint64_t index)
{
    const struct coll_shape *shape = &world->shape;

    switch (shape->operation) {
    case COLL_BROADCAST:
        return coll_world_input(start, shape->root, index);
    case COLL_REDUCE:
        return rank == shape->root ? reduced(world, start, index) : -1;
    case COLL_ALLREDUCE:
        return reduced(world, start, index);
    case COLL_REDUCE_SCATTER:
        return reduced(world, start, world->spans[0][rank].offset + index);
    default:
        break;
    }
    for (uint32_t from = 0; from < shape->places.size; from++) {
        bool all = shape->operation == COLL_ALLTOALL;
        struct coll_span span = world->spans[all ? from : 0][all ? rank : from];
        uint64_t offset = all ? world->targets[from][rank] : span.offset;
        if (index >= offset && index < offset + span.bytes)
            return coll_world_input(start, from,
                                    all ? span.offset + index - offset : index - offset);
    }
    return -1;
}

int64_t coll_world_contribution(const struct coll_world *world, uint32_t rank, bool *ret_in)
{
    const struct coll_shape *shape = &world->shape;

    *ret_in = shape->operation != COLL_BROADCAST && !shape->in_place;
    if (shape->operation == COLL_REDUCE && rank != shape->root)
        *ret_in = true;
    if (shape->operation == COLL_BROADCAST && rank != shape->root)
        return -1;
    return !*ret_in && shape->operation == COLL_ALLGATHER ? (int64_t)world->spans[0][rank].offset
                                                          : 0;
}

static uint64_t alternating(const struct coll_world *world, uint32_t rank, uint32_t start)
{
    const struct coll_program *program = &world->programs[rank];

    return start % program->sets * program->scratch_bytes;
}

static const char *begin(struct coll_world *world, uint32_t rank)
{
    struct coll_rank *state = &world->ranks[rank];
    bool in;
    int64_t offset = coll_world_contribution(world, rank, &in);
    uint8_t *own = in ? state->in : state->out;

    memset(state->in, 0xa5, world->in_bytes[rank]);
    memset(state->out, 0x5a, world->out_bytes[rank]);
    for (uint64_t i = 0; offset >= 0 && i < world->in_bytes[rank]; i++)
        own[offset + (int64_t)i] = coll_world_input(state->start, rank, i);
    memset(state->chains, 0, sizeof(state->chains));
    state->running = true;
    return NULL;
}

static const char *finish(struct coll_world *world, uint32_t rank)
{
    struct coll_rank *state = &world->ranks[rank];

    for (uint64_t i = 0; i < world->out_bytes[rank]; i++) {
        int byte = coll_world_expected(world, state->start, rank, i);
        if (byte >= 0 ? state->out[i] != byte : 0)
            return wrong("start %u, rank %u: byte %lu of %lu is %02x, not %02x", state->start, rank,
                         i, world->out_bytes[rank], state->out[i], byte);
    }
    memset(state->in, 0x99, world->in_bytes[rank]);
    memset(state->out, 0x66, world->out_bytes[rank]);
    state->running = false;
    state->start++;
    return NULL;
}

/* ---- steps */

static uint8_t *locate(struct coll_world *world, uint32_t rank, uint32_t start,
                       struct coll_place place, uint64_t bytes)
{
    struct coll_rank *state = &world->ranks[rank];
    uint64_t room[] = {world->in_bytes[rank], world->out_bytes[rank],
                       world->programs[rank].scratch_bytes};
    uint8_t *memory[] = {state->in, state->out, state->scratch};

    if (place.offset > room[place.buffer] || bytes > room[place.buffer] - place.offset)
        return NULL;
    return memory[place.buffer] + place.offset +
           (place.buffer == COLL_SCRATCH ? alternating(world, rank, start) : 0);
}

static bool overlap(const uint8_t *a, uint64_t a_bytes, const uint8_t *b, uint64_t b_bytes)
{
    return a < b + b_bytes && b < a + a_bytes;
}

static const char *arrive(struct coll_world *world, uint32_t rank, struct chain_state *chain,
                          uint32_t index)
{
    struct pending put = chain->pending[index];
    const struct coll_rank *state = &world->ranks[rank];
    const struct coll_rank *peer = &world->ranks[put.step->peer];

    chain->pending[index] = chain->pending[--chain->pending_count];
    if (put.step->to.buffer == COLL_IN)
        return wrong("rank %u puts into the input of rank %u", rank, put.step->peer);
    if (put.step->to.buffer == COLL_OUT && (!peer->running || peer->start != state->start))
        return wrong("start %u: rank %u puts into OUT of rank %u, which is at %u", state->start,
                     rank, put.step->peer, peer->start);
    memcpy(put.to, put.from, put.step->bytes);
    return NULL;
}

/* Completes the puts that a step must not overtake: all to a peer (or to any), or those that touch
 * the same bytes. */
static const char *flush(struct coll_world *world, uint32_t rank, struct chain_state *chain,
                         uint32_t peer, const uint8_t *read, const uint8_t *written, uint64_t bytes)
{
    const char *problem = NULL;

    for (uint32_t i = chain->pending_count; !problem && i-- > 0;) {
        const struct pending *put = &chain->pending[i];
        uint64_t length = put->step->bytes;
        if (peer == UINT32_MAX || put->step->peer == peer ||
            (read && overlap(put->to, length, read, bytes)) ||
            (written && (overlap(put->to, length, written, bytes) ||
                         overlap(put->from, length, written, bytes))))
            problem = arrive(world, rank, chain, i);
    }
    return problem;
}

enum { NOBODY = UINT32_MAX - 1 };

static const char *move(struct coll_world *world, uint32_t rank, struct chain_state *chain,
                        const struct coll_step *step)
{
    uint32_t start = world->ranks[rank].start;
    uint8_t *from = locate(world, rank, start, step->from, step->bytes);
    uint8_t *to = locate(world, step->peer, start, step->to, step->bytes);

    if (!from || !to || step->peer >= world->shape.places.size)
        return wrong("rank %u: a step outside of its buffers", rank);
    if (step->bytes > 0 && overlap(from, step->bytes, to, step->bytes))
        return wrong("rank %u: a step whose ends overlap", rank);
    const char *problem = flush(world, rank, chain, NOBODY, from, to, step->bytes);
    if (problem)
        return problem;
    if (step->kind == COLL_PUT) {
        if (chain->pending_count == PENDING_MAX)
            return wrong("too many puts");
        chain->pending[chain->pending_count++] = (struct pending){step, from, to};
        return NULL;
    }
    if (step->to.buffer == COLL_IN || step->bytes % 8 != 0)
        return wrong("rank %u: a reduction of %lu bytes to buffer %d", rank, step->bytes,
                     step->to.buffer);
    /* what it reads may be the target of a pending put, too */
    problem = flush(world, rank, chain, NOBODY, to, NULL, step->bytes);
    for (uint64_t i = 0; i < step->bytes; i += 8)
        coll_world_combine(world->reduction, (step->from_left ? from : to) + i,
                           (step->from_left ? to : from) + i, to + i);
    return problem;
}

static const char *execute(struct coll_world *world, uint32_t rank, uint32_t index, bool *ret_done)
{
    struct coll_rank *state = &world->ranks[rank];
    struct chain_state *chain = &state->chains[index];
    const struct coll_step *step = &world->programs[rank].chains[index].steps[chain->next];
    const char *problem = NULL;

    *ret_done = true;
    if (step->seldom && state->start % COLL_LEAD != 0) {
        chain->next++;
        return NULL;
    }
    if (step->kind == COLL_WAIT) {
        *ret_done = state->counters[step->peer][step->slot] > 0;
        state->counters[step->peer][step->slot] -= *ret_done;
    } else if (step->kind == COLL_NOTIFY) {
        problem = flush(world, rank, chain, step->peer, NULL, NULL, 0);
        world->ranks[step->peer].counters[rank][step->slot]++;
    } else {
        problem = move(world, rank, chain, step);
    }
    chain->next += *ret_done;
    return problem;
}

/* Advances a rank a little; *ret_done: something happened. */
static const char *advance(struct coll_world *world, uint32_t rank, uint32_t starts, bool *ret_done)
{
    struct coll_rank *state = &world->ranks[rank];
    const struct coll_program *program = &world->programs[rank];
    const char *problem = NULL;
    bool complete = true;

    *ret_done = state->running || state->start < starts;
    if (!*ret_done)
        return NULL;
    if (!state->running)
        return begin(world, rank);
    *ret_done = false;
    uint32_t first = (uint32_t)random_below(world->random, program->chain_count);
    for (uint32_t i = 0; !problem && i < program->chain_count; i++) {
        uint32_t index = (first + i) % program->chain_count;
        struct chain_state *chain = &state->chains[index];
        if (chain->pending_count > 0 && random_below(world->random, 4) == 0) {
            *ret_done = true;
            return arrive(world, rank, chain,
                          (uint32_t)random_below(world->random, chain->pending_count));
        }
        if (chain->next == program->chains[index].count)
            continue;
        complete = false;
        problem = execute(world, rank, index, ret_done);
        if (*ret_done)
            return problem;
    }
    if (!complete || problem)
        return problem;
    *ret_done = true;
    for (uint32_t index = 0; !problem && index < program->chain_count; index++)
        problem = flush(world, rank, &state->chains[index], UINT32_MAX, NULL, NULL, 0);
    return problem ? problem : finish(world, rank);
}

/* ---- all ranks */

static int make_ranks(struct coll_world *world)
{
    release_ranks(world);
    world->ranks = calloc(world->shape.places.size, sizeof(*world->ranks));
    if (!world->ranks)
        return -ENOMEM;
    for (uint32_t rank = 0; rank < world->shape.places.size; rank++) {
        struct coll_rank *state = &world->ranks[rank];
        state->in = calloc(1, world->in_bytes[rank] + 1);
        state->out = calloc(1, world->out_bytes[rank] + 1);
        state->scratch =
            calloc(world->programs[rank].sets, world->programs[rank].scratch_bytes + 1);
        if (!state->in || !state->out || !state->scratch)
            return -ENOMEM;
    }
    return 0;
}

/* Adds to the counters of credits that are given in advance, one each; or takes these. */
static void lend(struct coll_world *world, uint64_t count)
{
    for (uint32_t rank = 0; rank < world->shape.places.size; rank++) {
        const struct coll_program *program = &world->programs[rank];
        for (uint32_t c = 0; c < program->chain_count; c++)
            for (uint32_t i = 0; i < program->chains[c].count; i++) {
                const struct coll_step *step = &program->chains[c].steps[i];
                if (step->seldom && step->kind == COLL_NOTIFY)
                    world->ranks[step->peer].counters[rank][step->slot] += count;
            }
    }
}

/* A rank is preferred for a while, so that some run far ahead. */
static const char *run(struct coll_world *world, uint32_t starts)
{
    uint32_t size = world->shape.places.size, idle = 0;

    for (;;) {
        uint32_t rank = (uint32_t)random_below(world->random, size);
        uint64_t turns = 1 + random_below(world->random, 20);
        bool done = true;
        for (uint64_t turn = 0; done && turn < turns; turn++) {
            const char *problem = advance(world, rank, starts, &done);
            if (problem)
                return problem;
        }
        idle = done ? 0 : idle + 1;
        if (idle < 4 * size)
            continue;
        bool any = false; /* no progress for long: look at every rank */
        for (rank = 0; rank < size; rank++) {
            const char *problem = advance(world, rank, starts, &done);
            if (problem)
                return problem;
            any |= done;
        }
        if (!any)
            return NULL;
        idle = 0;
    }
}

const char *coll_world_run(struct coll_world *world, uint32_t starts)
{
    if (make_ranks(world) < 0)
        return wrong("out of memory");
    lend(world, 1);
    const char *problem = run(world, starts);
    lend(world, (uint64_t)-1);

    for (uint32_t rank = 0; !problem && rank < world->shape.places.size; rank++) {
        if (world->ranks[rank].start != starts)
            return wrong("rank %u hangs in start %u", rank, world->ranks[rank].start);
        for (uint32_t from = 0; from < world->shape.places.size; from++)
            for (uint32_t slot = 0; slot < SLOTS; slot++)
                if (world->ranks[rank].counters[from][slot] > 0)
                    return wrong("rank %u: a notification of rank %u is left in slot %u", rank,
                                 from, slot);
    }
    return problem;
}
