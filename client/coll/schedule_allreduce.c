#include "client/coll/schedule.h"

#include <errno.h>
#include <stdlib.h>

/* ---- doubling: pairs exchange what they have, and both combine it, in the order of ranks */

/* Receives a vector of the peer in scratch memory; `mine` is sent if it is not NULL. */
static struct coll_place swap(struct coll_program *program, uint64_t bytes, uint32_t peer,
                              const struct coll_place *mine, bool receive)
{
    struct coll_place slot = coll_scratch(program, bytes);

    if (mine) {
        coll_put(program, 0, peer, *mine, slot, bytes);
        coll_notify(program, 0, peer);
    }
    if (receive)
        coll_wait(program, 0, peer);
    return slot;
}

/* The ranks of a team that take part in the rounds are a power of two: each of the first 2 * more
 * ranks with an odd position hands its vector to the one before it, and gets the result from it.
 * Every rank reserves the same scratch memory. `sum`: the own vector; returns where the result
 * is. */
static struct coll_place double_up(struct coll_program *program, uint64_t bytes,
                                   const uint32_t *team, uint32_t count, struct coll_place sum)
{
    uint32_t power = 1, me = 0;

    while (power <= count / 2)
        power *= 2;
    while (team[me] != program->rank)
        me++;
    uint32_t more = count - power;
    bool helps = me < 2 * more && me % 2 == 0, waits = me < 2 * more && me % 2 == 1;
    struct coll_place slot =
        swap(program, bytes, team[waits ? me - 1 : me + helps], waits ? &sum : NULL, helps);
    if (helps) {
        coll_reduce(program, 0, sum, slot, bytes, true);
        sum = slot;
    }
    uint32_t position = me < 2 * more ? me / 2 : me - more;
    for (uint32_t distance = 1; distance < power; distance *= 2) {
        uint32_t other = position ^ distance;
        uint32_t peer = team[other < more ? 2 * other : other + more];
        slot = swap(program, bytes, peer, waits ? NULL : &sum, !waits);
        if (waits)
            continue;
        coll_reduce(program, 0, sum, slot, bytes, position < other);
        sum = slot;
    }
    slot = swap(program, bytes, team[waits ? me - 1 : me + helps], helps ? &sum : NULL, waits);
    return waits ? slot : sum;
}

/* ---- inside each node to its leader, inside each cluster to its leader, between these, and
 * back */

/* Leaders, and a list of ranks. [size] each */
struct levels {
    uint32_t *nodes, *clusters, *team;
};

/* Ranks that report to a rank: of its node, and for the leader of a cluster those that lead the
 * other nodes. Returns their number. */
static uint32_t find_below(uint32_t me, uint32_t size, const struct levels *levels)
{
    const uint32_t *nodes = levels->nodes, *clusters = levels->clusters;
    uint32_t count = 0;

    if (nodes[me] != me)
        return 0;
    for (uint32_t rank = 0; rank < size; rank++)
        if (rank != me && (nodes[rank] == me || (clusters[rank] == me && nodes[rank] == rank)))
            levels->team[count++] = rank;
    return count;
}

/* The leaders of clusters. Returns their number. */
static uint32_t find_top(uint32_t size, const struct levels *levels)
{
    uint32_t count = 0;

    for (uint32_t rank = 0; rank < size; rank++)
        if (levels->clusters[rank] == rank)
            levels->team[count++] = rank;
    return count;
}

static void by_places(struct coll_program *program, const struct coll_shape *shape,
                      const struct levels *levels, struct coll_place in, struct coll_place out)
{
    const uint32_t me = program->rank, size = shape->places.size, *team = levels->team;
    const uint32_t above = levels->nodes[me] == me ? levels->clusters[me] : levels->nodes[me];
    uint64_t each = (shape->bytes + 63) / 64 * 64;
    /* at the same place in all ranks, although only leaders have ranks below */
    struct coll_place slots = coll_scratch(program, each * size);
    struct coll_place result = coll_scratch(program, shape->bytes), sum = in;
    uint32_t below = find_below(me, size, levels);

    if (below > 0) {
        sum = coll_at(COLL_SCRATCH, slots.offset + me * each);
        coll_copy(program, 0, in, sum, shape->bytes);
    }
    for (uint32_t i = 0; i < below; i++) {
        coll_wait(program, 0, team[i]);
        coll_reduce(program, 0, coll_at(COLL_SCRATCH, slots.offset + team[i] * each), sum,
                    shape->bytes, false);
    }
    if (above != me) {
        coll_put(program, 0, above, sum, coll_at(COLL_SCRATCH, slots.offset + me * each),
                 shape->bytes);
        coll_notify(program, 0, above);
        coll_wait(program, 0, above);
        sum = result;
    } else {
        sum = double_up(program, shape->bytes, team, find_top(size, levels), sum);
        below = find_below(me, size, levels);
    }
    for (uint32_t i = 0; i < below; i++) {
        coll_put(program, 0, team[i], sum, result, shape->bytes);
        coll_notify(program, 0, team[i]);
    }
    coll_copy(program, 0, sum, out, shape->bytes);
}

/* ---- reduce-scatter and allgather. A rank that has combined a block has received data of all
 * ranks, so that these have started and their OUT may be written. */

static void around(struct coll_program *program, const struct coll_span *spans, uint32_t size,
                   struct coll_place in)
{
    uint32_t me = program->rank;
    struct coll_place sum = coll_scatter_ring(program, spans, size, in);

    coll_copy(program, 0, sum, coll_at(COLL_OUT, spans[me].offset), spans[me].bytes);
    for (uint32_t i = 0; i + 1 < size; i++) {
        uint32_t block = (me + size - i) % size;
        struct coll_place place = coll_at(COLL_OUT, spans[block].offset);
        coll_put(program, 0, (me + 1) % size, i == 0 ? sum : place, place, spans[block].bytes);
        coll_notify(program, 0, (me + 1) % size);
        coll_wait(program, 0, (me + size - 1) % size);
    }
}

static void everybody(struct coll_program *program, const struct coll_span *spans, uint32_t size,
                      struct coll_place in)
{
    uint32_t me = program->rank;
    struct coll_place sum = coll_scatter_direct(program, spans, size, in);
    struct coll_place own = coll_at(COLL_OUT, spans[me].offset);

    for (uint32_t i = 1; i < size; i++) {
        coll_put(program, 0, (me + i) % size, sum, own, spans[me].bytes);
        coll_notify(program, 0, (me + i) % size);
    }
    coll_copy(program, 0, sum, own, spans[me].bytes);
    for (uint32_t i = 1; i < size; i++)
        coll_wait(program, 0, (me + size - i) % size);
}

static void in_parts(struct coll_program *program, const struct coll_shape *shape,
                     enum tca_coll_algorithm algorithm, struct coll_place in)
{
    struct coll_span *spans = calloc(shape->places.size, sizeof(*spans));

    if (!spans) {
        program->out_of_memory = true;
        return;
    }
    for (uint32_t rank = 0; rank < shape->places.size; rank++)
        spans[rank] = coll_part(shape->bytes, shape->element_bytes, shape->places.size, rank);
    if (algorithm == TCA_COLL_RING)
        around(program, spans, shape->places.size, in);
    else
        everybody(program, spans, shape->places.size, in);
    free(spans);
}

static int whole(struct coll_program *program, const struct coll_shape *shape,
                 enum tca_coll_algorithm algorithm, struct coll_place in)
{
    const struct coll_places *places = &shape->places;
    const uint32_t size = places->size;
    struct coll_place out = coll_at(COLL_OUT, 0);
    uint32_t *memory = calloc(size, 3 * sizeof(*memory));
    int r = 0;

    if (!memory)
        return -ENOMEM;
    const struct levels levels = {memory, memory + size, memory + 2 * (size_t)size};
    if (algorithm == TCA_COLL_HIERARCHICAL) {
        r = coll_leaders(places->nodes, size, 0, levels.nodes);
        if (r >= 0)
            r = coll_leaders(places->clusters, size, 0, levels.clusters);
        if (r >= 0)
            by_places(program, shape, &levels, in, out);
    } else {
        for (uint32_t rank = 0; rank < size; rank++)
            levels.team[rank] = rank;
        coll_copy(program, 0, double_up(program, shape->bytes, levels.team, size, in), out,
                  shape->bytes);
    }
    free(memory);
    return r;
}

int coll_schedule_allreduce(struct coll_program *program, const struct coll_shape *shape,
                            enum tca_coll_algorithm algorithm)
{
    struct coll_place in = coll_at(shape->in_place ? COLL_OUT : COLL_IN, 0);

    program->sets = 2;
    if (algorithm == TCA_COLL_RING || algorithm == TCA_COLL_DIRECT)
        in_parts(program, shape, algorithm, in);
    else
        return whole(program, shape, algorithm, in);
    return 0;
}
