/* Every rank puts to every other one. What each does is known, so that few ranks tell when the last
 * one is done. */
#include "client/coll/model.h"

/* What puts to a set of ranks take, by where they come from. The set grows along the ring. */
struct set {
    const struct coll_model *model;
    uint64_t *within, *near_node; /* of a node's ranks: from the node, from its cluster */
    uint64_t *near, *far_cluster; /* of a cluster's ranks: from the cluster, from others */
    uint64_t far;                 /* of all, from other clusters */
    uint64_t bytes, each[COLL_LEVELS];
};

static struct set begin(const struct coll_model *model)
{
    struct set set = {model,
                      model->clocks[0],
                      model->clocks[1],
                      model->clocks[2],
                      model->clocks[3],
                      0,
                      UINT64_MAX,
                      {0}};

    for (uint32_t rank = 0; rank < model->size; rank++)
        set.within[rank] = set.near_node[rank] = set.near[rank] = set.far_cluster[rank] = 0;
    return set;
}

static void add(struct set *set, uint32_t rank, uint64_t bytes)
{
    const struct coll_model *model = set->model;
    uint32_t node = model->node_leaders[rank], cluster = model->cluster_leaders[rank];

    for (int level = 0; bytes != set->bytes && level < COLL_LEVELS; level++)
        set->each[level] = coll_model_put(model->links[level], bytes);
    set->bytes = bytes;
    set->within[node] += set->each[COLL_NODE];
    set->near_node[node] += set->each[COLL_SUBCLUSTER];
    set->near[cluster] += set->each[COLL_SUBCLUSTER];
    set->far_cluster[cluster] += set->each[COLL_CLUSTER];
    set->far += set->each[COLL_CLUSTER];
}

/* All puts of a rank to those of the set. */
static uint64_t from(const struct set *set, uint32_t rank)
{
    uint32_t node = set->model->node_leaders[rank], cluster = set->model->cluster_leaders[rank];

    return set->within[node] + set->near[cluster] - set->near_node[node] + set->far -
           set->far_cluster[cluster];
}

/* The rank whose puts to all others take longest. */
static uint32_t slowest(const struct coll_model *model)
{
    struct set all = begin(model);
    uint32_t found = 0;

    for (uint32_t rank = 0; rank < model->size; rank++)
        add(&all, rank, model->blocks[rank]);
    for (uint32_t rank = 1; rank < model->size; rank++)
        if (from(&all, rank) > from(&all, found))
            found = rank;
    return found;
}

/* The last rank with a block as long as any. */
static uint32_t longest(const struct coll_model *model)
{
    uint32_t found = 0;

    for (uint32_t rank = 1; rank < model->size; rank++)
        if (model->blocks[rank] >= model->blocks[found])
            found = rank;
    return found;
}

/* Allgather and alltoall: a rank tells all others that it has started, from the one before it on,
 * copies its own block, and puts from the one after it on. The credit of the i-th of these is that
 * one's i-th. */
static uint64_t exchange(const struct coll_model *model, uint32_t me)
{
    const uint32_t size = model->size;
    const bool copies = model->shape->operation == COLL_ALLTOALL || !model->shape->in_place;
    const uint64_t bytes = model->blocks[me];
    uint64_t put[COLL_LEVELS], clock = copies ? coll_model_copy(model, bytes) : 0, ns = 0;
    struct set told = begin(model);

    for (uint32_t peer = 0; peer < size; peer++)
        clock += peer == me ? 0 : coll_model_link(model, me, peer)->overhead_ns;
    for (int level = 0; level < COLL_LEVELS; level++)
        put[level] = coll_model_put(model->links[level], bytes);
    add(&told, me, 0);
    for (uint32_t i = 1, peer = me; i < size; i++) {
        peer = peer + 1 < size ? peer + 1 : 0;
        enum coll_level level = coll_model_level(model, me, peer);
        uint64_t latency = model->links[level]->latency_ns;
        clock = coll_model_later(clock, from(&told, peer) + latency) + put[level];
        ns = coll_model_later(ns, clock + latency);
        add(&told, peer, 0);
    }
    return ns;
}

/* Reduce-scatter: a rank puts from the one after it on, and combines in the order of ranks. Returns
 * when it is done. */
static uint64_t scatter(const struct coll_model *model, uint32_t me)
{
    const uint32_t size = model->size;
    const uint64_t bytes = model->blocks[me], combine = coll_model_combine(model, bytes);
    uint64_t *arrivals = model->clocks[4], clock = 0;
    struct set between = begin(model);

    add(&between, me, bytes);
    for (uint32_t i = 1, peer = me; i < size; i++) {
        peer = peer ? peer - 1 : size - 1;
        uint64_t block = model->blocks[peer];
        enum coll_level level = coll_model_level(model, peer, me);
        arrivals[peer] = from(&between, peer) + model->links[level]->latency_ns;
        add(&between, peer, block);
        clock += between.each[level];
    }
    arrivals[me] = 0;
    clock = coll_model_later(clock, arrivals[0]) + (me == 0 ? coll_model_copy(model, bytes) : 0);
    for (uint32_t rank = 1; rank < size; rank++)
        clock = coll_model_later(clock, arrivals[rank]) + combine;
    return clock;
}

/* The second half of an allreduce. */
static uint64_t spread(const struct coll_model *model, uint32_t me, uint64_t clock)
{
    const uint64_t bytes = model->blocks[me];
    uint64_t put[COLL_LEVELS], ns = 0;

    for (int level = 0; level < COLL_LEVELS; level++)
        put[level] = coll_model_put(model->links[level], bytes);
    for (uint32_t i = 1, peer = me; i < model->size; i++) {
        peer = peer + 1 < model->size ? peer + 1 : 0;
        enum coll_level level = coll_model_level(model, me, peer);
        clock += put[level];
        ns = coll_model_later(ns, clock + model->links[level]->latency_ns);
    }
    return coll_model_later(ns, clock + coll_model_copy(model, bytes));
}

static uint64_t done(const struct coll_model *model, uint32_t me)
{
    switch (model->shape->operation) {
    case COLL_ALLREDUCE:
        return spread(model, me, scatter(model, me));
    case COLL_REDUCE_SCATTER:
        return scatter(model, me) + coll_model_copy(model, model->blocks[me]);
    default:
        return exchange(model, me);
    }
}

/* Those that work longest, and those at the beginning of a node in the middle; among few ranks,
 * where a latency is much, also the first ones, the last ones and the one before that node. */
uint64_t coll_model_direct(const struct coll_model *model)
{
    enum { FEW = 256, OF_MANY = 5, OF_FEW = 10 };
    const uint32_t size = model->size, middle = model->node_leaders[size / 2];
    const uint32_t late = slowest(model);
    const uint32_t asked[OF_FEW] = {
        late, late + size - 1, longest(model), middle,           middle + 1, 0,
        1,    size - 1,        size - 2,       middle + size - 1};
    uint64_t ns = 0;

    for (uint32_t i = 0; i < (size > FEW ? OF_MANY : OF_FEW); i++) {
        uint32_t rank = asked[i] % size, before = 0;
        while (before < i && asked[before] % size != rank)
            before++;
        if (before == i)
            ns = coll_model_later(ns, done(model, rank));
    }
    return ns;
}
