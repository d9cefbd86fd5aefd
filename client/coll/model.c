/* Rounds and rings, in which all ranks do the same. */
#include "client/coll/model.h"

#include <errno.h>
#include <stdlib.h>

/* ---- places */

/* The number of ranks in each group, if every so many ranks in turn are one; else 0. */
static uint32_t run_length(const uint32_t *leaders, uint32_t size)
{
    uint32_t length = 1;

    while (length < size && leaders[length] == 0)
        length++;
    if (size % length != 0)
        return 0;
    for (uint32_t first = 0; first < size; first += length)
        for (uint32_t i = 0; i < length; i++)
            if (leaders[first + i] != first)
                return 0;
    return length;
}

static uint32_t find_period(const struct coll_model *model)
{
    uint32_t node = run_length(model->node_leaders, model->size);
    uint32_t cluster = run_length(model->cluster_leaders, model->size);

    if (node == 0 || cluster == 0)
        return model->size;
    return cluster < model->size ? cluster : node;
}

static void find_blocks(const struct coll_model *model)
{
    const struct coll_shape *shape = model->shape;

    for (uint32_t rank = 0; rank < model->size; rank++)
        if (shape->operation == COLL_ALLREDUCE)
            model->blocks[rank] =
                coll_part(shape->bytes, shape->element_bytes, model->size, rank).bytes;
        else if (shape->operation == COLL_REDUCE_SCATTER || !shape->regular)
            model->blocks[rank] = shape->spans ? shape->spans[rank].bytes : 0;
        else
            model->blocks[rank] = shape->bytes;
}

int coll_model_init(struct coll_model *model, const struct coll_shape *shape,
                    const struct tca_coll_costs *costs)
{
    const struct coll_places *places = &shape->places;
    const uint32_t size = places->size;
    uint64_t *memory = calloc(size, (COLL_CLOCKS + 2) * sizeof(*memory));

    if (!memory)
        return -ENOMEM;
    uint32_t *leaders = (uint32_t *)(memory + (size_t)(COLL_CLOCKS + 1) * size);
    *model = (struct coll_model){
        .shape = shape,
        .links = {&costs->node, &costs->subcluster, &costs->cluster},
        .combine_kib_ns = costs->combine_kib_ns,
        .size = size,
        .node_leaders = leaders,
        .cluster_leaders = leaders + size,
        .blocks = memory + (size_t)COLL_CLOCKS * size,
    };
    for (int i = 0; i < COLL_CLOCKS; i++)
        model->clocks[i] = memory + (size_t)i * size;
    int r = coll_leaders(places->nodes, size, 0, model->node_leaders);
    if (r >= 0 && !coll_one_cluster(places)) /* zero otherwise */
        r = coll_leaders(places->clusters, size, 0, model->cluster_leaders);
    if (r < 0)
        coll_model_deinit(model);
    else
        model->period = find_period(model);
    if (r >= 0)
        find_blocks(model);
    return r;
}

void coll_model_deinit(struct coll_model *model)
{
    free(model->clocks[0]);
    for (uint32_t turn = 0; turn < COLL_CHAINS_MAX; turn++)
        coll_edges_deinit(&model->edges[turn]);
    *model = (struct coll_model){0};
}

/* ---- rounds: in each, a rank puts to the one `distance` further on, and waits for the one as far
 * behind */

static uint64_t *take_round(const struct coll_model *model, uint32_t distance, uint64_t bytes,
                            uint64_t *clocks, uint64_t *next)
{
    uint64_t put[COLL_LEVELS], latency[COLL_LEVELS];

    for (int level = 0; level < COLL_LEVELS; level++) {
        put[level] = coll_model_put(model->links[level], bytes);
        latency[level] = model->links[level]->latency_ns;
    }
    for (uint32_t me = 0; me < model->period; me++)
        next[me] = 0;
    uint32_t to = distance, there = distance % model->period;
    for (uint32_t me = 0; me < model->period; me++) {
        enum coll_level level = coll_model_level(model, me, to);
        uint64_t done = clocks[me] + put[level], arrival = done + latency[level];
        next[me] = coll_model_later(next[me], done);
        next[there] = coll_model_later(next[there], arrival);
        to = to + 1 < model->size ? to + 1 : 0;
        there = there + 1 < model->period ? there + 1 : 0;
    }
    return next;
}

/* The number of the first `count` numbers that have this bit. */
static uint64_t with_bit(uint64_t count, uint64_t bit)
{
    uint64_t rest = count % (2 * bit);

    return count / (2 * bit) * bit + (rest > bit ? rest - bit : 0);
}

uint64_t coll_model_rounds(const struct coll_model *model)
{
    const enum coll_operation operation = model->shape->operation;
    const uint64_t bytes = model->shape->bytes, copy = coll_model_copy(model, bytes);
    const uint32_t size = model->size;
    uint64_t *clocks = model->clocks[0], *next = model->clocks[1], copies = 0, ns = 0;

    for (uint32_t rank = 0; rank < model->period; rank++)
        clocks[rank] = 0;
    for (uint32_t distance = 1; distance < size; distance *= 2) {
        uint32_t back = size - distance;
        uint64_t blocks = 0;
        if (operation == COLL_ALLGATHER) {
            blocks = distance < back ? distance : back;
        } else if (operation == COLL_ALLTOALL) {
            blocks = with_bit(size, distance);
            copies += blocks * copy;
        }
        uint64_t *after = take_round(model, operation == COLL_ALLGATHER ? back : distance,
                                     blocks * bytes, clocks, next);
        next = clocks;
        clocks = after;
    }
    for (uint32_t me = 0, there = 0; me < size; me++) {
        uint64_t done = clocks[there];
        if (operation == COLL_ALLGATHER) /* turned to its place */
            done +=
                coll_model_copy(model, (size - me) * bytes) + coll_model_copy(model, me * bytes);
        ns = coll_model_later(ns, done);
        there = there + 1 < model->period ? there + 1 : 0;
    }
    if (operation == COLL_ALLGATHER)
        return ns + copy;
    return operation == COLL_ALLTOALL ? ns + copies + size * copy : ns;
}

/* ---- rings */

/* The greatest sum of numbers in turn around a circle: not of all, so of all but the least arc, or
 * of one that does not cross the beginning. */
struct arcs {
    int64_t total, greatest, least, up, down;
};

static void extend(struct arcs *arcs, int64_t gain)
{
    arcs->total += gain;
    arcs->up = (arcs->up > 0 ? arcs->up : 0) + gain;
    arcs->down = (arcs->down < 0 ? arcs->down : 0) + gain;
    arcs->greatest = arcs->up > arcs->greatest ? arcs->up : arcs->greatest;
    arcs->least = arcs->down < arcs->least ? arcs->down : arcs->least;
}

static enum coll_level level_after(const struct coll_model *model, uint32_t rank)
{
    return coll_model_level(model, rank, rank + 1 < model->size ? rank + 1 : 0);
}

/* What is done with a block, by how far it goes. */
struct hop {
    uint64_t staying[COLL_LEVELS]; /* until the next round of the same rank */
    uint64_t moving[COLL_LEVELS];  /* of the rank after it */
};

static struct hop hop_of(const struct coll_model *model, uint64_t bytes, bool combines)
{
    const uint64_t combine = combines ? coll_model_combine(model, bytes) : 0;
    struct hop hop;

    for (int level = 0; level < COLL_LEVELS; level++) {
        hop.staying[level] = coll_model_put(model->links[level], bytes) + combine;
        hop.moving[level] = hop.staying[level] + model->links[level]->latency_ns;
    }
    return hop;
}

/* What takes longest in size - 1 rounds moves around with a block for a while, and stays for the
 * others where a put takes longest: of blocks of the mean length. */
static uint64_t longest(const struct coll_model *model, const struct hop *mean)
{
    struct arcs arcs[COLL_LEVELS];
    uint64_t ns = 0;

    for (int level = 0; level < COLL_LEVELS; level++)
        arcs[level] = (struct arcs){.least = INT64_MAX};
    for (uint32_t me = 0; me < model->size; me++) {
        uint64_t moving = mean->moving[level_after(model, me)];
        for (int level = 0; level < COLL_LEVELS; level++)
            extend(&arcs[level], (int64_t)(moving - mean->staying[level]));
    }
    for (uint32_t me = 0; me < model->size; me++) {
        enum coll_level level = level_after(model, me);
        const struct arcs *a = &arcs[level];
        int64_t most = a->total - a->least;
        if (a->greatest != a->total && a->greatest > most)
            most = a->greatest;
        ns = coll_model_later(ns, (model->size - 1) * mean->staying[level] + (uint64_t)most);
    }
    return ns;
}

/* What a ring takes once each rank has its own block: to combine all blocks, to gather them, or to
 * do one after the other. That is at least what the way of each block around takes: of which it
 * does not go to its owner, when it has been combined, or from there, when it is gathered. */
static uint64_t around(const struct coll_model *model, bool combines, bool gathers)
{
    struct hop up = {0}, on = {0}, mean_up = {0}, mean_on = {0};
    uint32_t counts[COLL_LEVELS] = {0};
    uint64_t ns = 0, bytes = UINT64_MAX;

    for (uint32_t rank = 0; rank < model->size; rank++)
        counts[level_after(model, rank)]++;
    for (uint32_t rank = 0; rank < model->size; rank++) {
        uint64_t block = model->blocks[rank], way = 0;
        if (block != bytes) {
            up = hop_of(model, block, true);
            on = hop_of(model, block, false);
        }
        bytes = block;
        for (int level = 0; level < COLL_LEVELS; level++) {
            way += counts[level] *
                   ((combines ? up.moving[level] : 0) + (gathers ? on.moving[level] : 0));
            mean_up.staying[level] += up.staying[level];
            mean_on.staying[level] += on.staying[level];
        }
        uint32_t before = rank ? rank - 1 : model->size - 1;
        way -= combines ? up.moving[level_after(model, rank)] : 0;
        way -= gathers ? on.moving[level_after(model, before)] : 0;
        ns = coll_model_later(ns, way);
    }
    for (int level = 0; level < COLL_LEVELS; level++) {
        mean_up.staying[level] /= model->size;
        mean_on.staying[level] /= model->size;
        mean_up.moving[level] = mean_up.staying[level] + model->links[level]->latency_ns;
        mean_on.moving[level] = mean_on.staying[level] + model->links[level]->latency_ns;
    }
    return coll_model_later(ns, (combines ? longest(model, &mean_up) : 0) +
                                    (gathers ? longest(model, &mean_on) : 0));
}

uint64_t coll_model_ring(const struct coll_model *model)
{
    const struct coll_shape *shape = model->shape;
    uint64_t greatest = 0, credit = 0, overhead = 0;

    for (uint32_t rank = 0; rank < model->size; rank++) {
        const struct tca_coll_link *link = model->links[level_after(model, rank)];
        greatest = coll_model_later(greatest, model->blocks[rank]);
        overhead = coll_model_later(overhead, link->overhead_ns);
        credit = coll_model_later(credit, link->overhead_ns + link->latency_ns);
    }
    uint64_t copy = coll_model_copy(model, greatest);
    if (shape->operation != COLL_ALLGATHER)
        return around(model, true, shape->operation == COLL_ALLREDUCE) + copy;
    /* the credits come while a rank copies its own block */
    return coll_model_later(credit, overhead + (shape->in_place ? 0 : copy)) +
           around(model, false, true);
}

/* ---- all */

int coll_model_ns(struct coll_model *model, enum tca_coll_algorithm algorithm,
                  uint64_t segment_bytes, uint64_t *ret_ns)
{
    const struct coll_shape *shape = model->shape;
    const bool along_tree = shape->operation == COLL_BROADCAST || shape->operation == COLL_REDUCE;

    if (shape->operation == COLL_ALLTOALL && !shape->regular)
        return -EINVAL;
    if (model->size == 1)
        *ret_ns = shape->in_place ? 0 : coll_model_copy(model, shape->bytes);
    else if (along_tree || (shape->operation == COLL_BARRIER && algorithm == TCA_COLL_HIERARCHICAL))
        return coll_model_tree(model, algorithm, segment_bytes, ret_ns);
    else if (algorithm == TCA_COLL_HIERARCHICAL)
        *ret_ns = coll_model_by_places(model);
    else if (algorithm == TCA_COLL_RING)
        *ret_ns = coll_model_ring(model);
    else if (algorithm == TCA_COLL_DIRECT)
        *ret_ns = coll_model_direct(model);
    else if (shape->operation == COLL_ALLREDUCE)
        *ret_ns = coll_model_doubling(model);
    else
        *ret_ns = coll_model_rounds(model);
    return 0;
}
