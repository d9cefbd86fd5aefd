#include "client/coll/cost.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/coll/model.h"

/* ---- costs */

#define TYPICAL(latency, overhead)                                                                 \
    {                                                                                              \
        .latency_ns = (latency), .overhead_ns = (overhead), .small_kib_ns = 100,                   \
        .large_kib_ns = 100                                                                        \
    }

/* Between processes of a node, and between nodes by networks of about 10 GiB/s, of which those of
 * sub-clusters are quick. */
const struct tca_coll_costs coll_costs_typical = {
    .node = TYPICAL(300, 100),
    .subcluster = TYPICAL(2000, 400),
    .cluster = TYPICAL(4000, 400),
    .combine_kib_ns = 150,
};

static void take(struct tca_coll_link *link, const struct reach_cost *measured)
{
    if (reach_is_measured(measured))
        *link = (struct tca_coll_link){.latency_ns = measured->latency_ns,
                                       .overhead_ns = measured->overhead_ns,
                                       .small_kib_ns = measured->small_kib_ns,
                                       .large_kib_ns = measured->large_kib_ns,
                                       .measured = 1};
}

void coll_costs_measured(const struct reach_costs *measured, bool daemon,
                         struct tca_coll_costs *ret_costs)
{
    *ret_costs = coll_costs_typical;
    take(&ret_costs->node, &measured->at[daemon ? REACH_NODE_DAEMON : REACH_NODE]);
    take(&ret_costs->subcluster, &measured->at[REACH_SUBCLUSTER]);
    take(&ret_costs->cluster, &measured->at[REACH_CLUSTER]);
    /* It loads two and stores one where a copy loads one and stores one. */
    if (ret_costs->node.measured)
        ret_costs->combine_kib_ns = ret_costs->node.small_kib_ns * 3 / 2;
}

/* Integers, so that all ranks choose the same on different processors. Between the two sizes, one
 * KiB costs more with each doubling. */
static uint64_t kib_ns(const struct tca_coll_link *link, uint64_t bytes)
{
    enum { SMALL_SHIFT = 16, LARGE_SHIFT = 22, SHIFTS = LARGE_SHIFT - SMALL_SHIFT };

    if (bytes >> SMALL_SHIFT == 0)
        return link->small_kib_ns;
    const unsigned shift = 63 - (unsigned)__builtin_clzll(bytes);
    if (shift >= LARGE_SHIFT)
        return link->large_kib_ns;
    const unsigned beyond = shift - SMALL_SHIFT;
    return (link->small_kib_ns * (SHIFTS - beyond) + link->large_kib_ns * beyond) / SHIFTS;
}

/* Bytes are less than 2^48, and no link counts as slower than 1 MiB/s: so this does not
 * overflow. */
uint64_t coll_bytes_ns(uint64_t bytes, uint64_t each_kib_ns)
{
    enum { SLOWEST_KIB_NS = 1 << 20 };
    const uint64_t each_ns = each_kib_ns < SLOWEST_KIB_NS ? each_kib_ns : SLOWEST_KIB_NS;

    return bytes / 1024 * each_ns + bytes % 1024 * each_ns / 1024;
}

uint64_t coll_transfer_ns(const struct tca_coll_link *link, uint64_t bytes)
{
    return coll_bytes_ns(bytes, kib_ns(link, bytes));
}

/* ---- choosing */

static bool in_segments(const struct coll_shape *shape)
{
    return shape->operation == COLL_BROADCAST || shape->operation == COLL_REDUCE;
}

static bool is_predictable(const struct coll_shape *shape)
{
    return shape->operation != COLL_ALLTOALL || shape->regular;
}

/* An algorithm, with every length of segments. */
static int consider(struct coll_model *model, enum tca_coll_algorithm algorithm,
                    struct coll_candidate *ret_best)
{
    static const uint64_t lengths[] = {UINT64_MAX, 262144, 65536, 16384};
    const struct coll_shape *shape = model->shape;
    const bool fixed = shape->segment_bytes > 0 || !in_segments(shape);
    struct coll_candidate best = {.ns = UINT64_MAX};

    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        uint64_t segment_bytes = shape->segment_bytes ? shape->segment_bytes : lengths[i], ns;
        if (i > 0 && (fixed || lengths[i] >= shape->bytes))
            continue;
        int r = coll_model_ns(model, algorithm, segment_bytes, &ns);
        if (r < 0)
            return r;
        if (i == 0 || ns < best.ns)
            best = (struct coll_candidate){algorithm, segment_bytes, ns};
    }
    *ret_best = best;
    return 0;
}

static_assert((int)TCA_COLL_HIERARCHICAL <= (int)COLLECTIVE_CANDIDATES_MAX, "all fit");

int coll_candidates(const struct coll_shape *shape, enum tca_coll_algorithm wanted,
                    const struct tca_coll_costs *costs,
                    struct coll_candidate ret_candidates[COLLECTIVE_CANDIDATES_MAX],
                    uint32_t *ret_count)
{
    struct coll_model model;
    uint32_t count = 0;

    *ret_count = 0;
    if (!is_predictable(shape))
        return 0;
    int r = coll_model_init(&model, shape, costs);
    if (r < 0)
        return r;
    for (int a = TCA_COLL_DIRECT; r >= 0 && a <= TCA_COLL_HIERARCHICAL; a++)
        if ((wanted == TCA_COLL_ANY || wanted == (enum tca_coll_algorithm)a) &&
            coll_schedule_suits(shape, (enum tca_coll_algorithm)a))
            r = consider(&model, (enum tca_coll_algorithm)a, &ret_candidates[count++]);
    coll_model_deinit(&model);
    *ret_count = count;
    return r;
}

int coll_pick(struct coll_shape *shape, enum tca_coll_algorithm wanted,
              const struct coll_candidate *candidates, uint32_t count,
              enum tca_coll_algorithm *ret_algorithm)
{
    static const struct coll_candidate direct = {TCA_COLL_DIRECT, UINT64_MAX, 0};
    const struct coll_candidate *best = NULL;

    for (uint32_t i = 0; i < count; i++)
        if (!best || candidates[i].ns < best->ns)
            best = &candidates[i];
    if (!is_predictable(shape) && (wanted == TCA_COLL_ANY || wanted == TCA_COLL_DIRECT))
        best = &direct;
    if (!best)
        return -EINVAL;
    shape->segment_bytes = best->segment_bytes;
    *ret_algorithm = best->algorithm;
    return 0;
}

int coll_choose(struct coll_shape *shape, enum tca_coll_algorithm wanted,
                const struct tca_coll_costs *costs, enum tca_coll_algorithm *ret_algorithm)
{
    struct coll_candidate candidates[COLLECTIVE_CANDIDATES_MAX];
    uint32_t count;
    int r = coll_candidates(shape, wanted, costs, candidates, &count);

    return r < 0 ? r : coll_pick(shape, wanted, candidates, count, ret_algorithm);
}
