/* Costs of algorithms by their structure, without running programs: as coll_simulate(), within a
 * tenth. Time and memory in proportion to the ranks, or to their number times its logarithm. Pure
 * functions, in integers: the same at all ranks. */
#pragma once

#include "client/coll/cost.h"

/* How far a put goes. */
enum coll_level { COLL_NODE, COLL_SUBCLUSTER, COLL_CLUSTER, COLL_LEVELS };

enum { COLL_CLOCKS = 5 };

struct coll_model {
    const struct coll_shape *shape;
    const struct tca_coll_link *links[COLL_LEVELS];
    uint64_t combine_kib_ns;
    uint32_t size;
    /* Of each rank. If all are in one cluster, that is led by rank 0. */
    uint32_t *node_leaders, *cluster_leaders;
    /* Every so many ranks, the places repeat themselves: what all ranks do alike takes the rank
     * that many further on as long. */
    uint32_t period;
    uint64_t *blocks; /* bytes of each rank: of its part of an allreduce, or of its block */
    uint64_t *clocks[COLL_CLOCKS];            /* [size]: of one algorithm at a time */
    struct coll_edges edges[COLL_CHAINS_MAX]; /* of the last algorithm along trees */
    enum tca_coll_algorithm edges_of;
};

/* The shape and the costs must remain valid. -ENOMEM. */
int coll_model_init(struct coll_model *model, const struct coll_shape *shape,
                    const struct tca_coll_costs *costs);
void coll_model_deinit(struct coll_model *model);

/* Time from the start of all ranks to the last one's completion, of an algorithm that suits.
 * segment_bytes: instead of that of the shape. -ENOMEM. Alltoalls of irregular blocks, which each
 * rank knows in part, have no common cost: -EINVAL. */
int coll_model_ns(struct coll_model *model, enum tca_coll_algorithm algorithm,
                  uint64_t segment_bytes, uint64_t *ret_ns);

/* ---- by kind of algorithm */

uint64_t coll_model_rounds(const struct coll_model *model);
uint64_t coll_model_ring(const struct coll_model *model);
uint64_t coll_model_direct(const struct coll_model *model);
int coll_model_tree(struct coll_model *model, enum tca_coll_algorithm algorithm,
                    uint64_t segment_bytes, uint64_t *ret_ns);
/* Those of one of the trees of an algorithm: valid until those of another algorithm are asked for.
 * NULL: no memory. */
const struct coll_edges *coll_model_edges(struct coll_model *model,
                                          enum tca_coll_algorithm algorithm, uint32_t turn);
/* An allreduce in rounds between all ranks, or between the leaders of clusters. */
uint64_t coll_model_doubling(const struct coll_model *model);
uint64_t coll_model_by_places(const struct coll_model *model);

/* ---- single steps */

static inline enum coll_level coll_model_level(const struct coll_model *model, uint32_t a,
                                               uint32_t b)
{
    if (model->node_leaders[a] == model->node_leaders[b])
        return COLL_NODE;
    return model->cluster_leaders[a] == model->cluster_leaders[b] ? COLL_SUBCLUSTER : COLL_CLUSTER;
}

static inline const struct tca_coll_link *coll_model_link(const struct coll_model *model,
                                                          uint32_t a, uint32_t b)
{
    return model->links[coll_model_level(model, a, b)];
}

static inline uint64_t coll_model_put(const struct tca_coll_link *link, uint64_t bytes)
{
    return link->overhead_ns + coll_transfer_ns(link, bytes);
}

static inline uint64_t coll_model_copy(const struct coll_model *model, uint64_t bytes)
{
    return bytes ? coll_model_put(model->links[COLL_NODE], bytes) : 0;
}

static inline uint64_t coll_model_combine(const struct coll_model *model, uint64_t bytes)
{
    return bytes
               ? model->links[COLL_NODE]->overhead_ns + coll_bytes_ns(bytes, model->combine_kib_ns)
               : 0;
}

static inline uint64_t coll_model_later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}
