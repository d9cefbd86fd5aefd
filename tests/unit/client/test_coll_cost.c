/* Predicted costs of collective operations, and the choices that follow. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "client/coll/model.h"
#include "tests/unit/client/coll_world.h"

enum { RANKS = 200 };

static uint32_t nodes[RANKS], clusters[RANKS];

static struct coll_shape broadcast(uint32_t size, uint64_t bytes)
{
    return (struct coll_shape){.operation = COLL_BROADCAST,
                               .places = {size, nodes, clusters},
                               .bytes = bytes,
                               .element_bytes = 1,
                               .segment_bytes = UINT64_MAX};
}

static void place(uint32_t ranks_per_node)
{
    for (uint32_t rank = 0; rank < RANKS; rank++)
        clusters[rank] = nodes[rank] = rank / ranks_per_node;
}

static uint64_t predict_by(const struct coll_shape *shape, enum tca_coll_algorithm algorithm,
                           const struct tca_coll_costs *costs)
{
    struct coll_model model;
    uint64_t ns = 0;

    cr_assert_eq(coll_model_init(&model, shape, costs), 0);
    cr_assert_eq(coll_model_ns(&model, algorithm, shape->segment_bytes, &ns), 0);
    coll_model_deinit(&model);
    return ns;
}

static uint64_t predict(const struct coll_shape *shape, enum tca_coll_algorithm algorithm)
{
    return predict_by(shape, algorithm, &coll_costs_typical);
}

/* Computed by hand: two ranks on two nodes. The credit takes an overhead and a latency, then the
 * put with its notification. */
Test(coll_cost, by_hand)
{
    static const struct tca_coll_costs costs = {
        .cluster = {.latency_ns = 1000, .overhead_ns = 10, .small_kib_ns = 7, .large_kib_ns = 70}};
    struct coll_shape shape = broadcast(2, 8192);
    uint64_t ns;

    place(1);
    ns = predict_by(&shape, TCA_COLL_BINOMIAL, &costs);
    cr_assert_eq(ns, (10 + 1000) + (10 + 8 * 7) + 1000);
}

/* Longer puts cost more per KiB, or less: from 64 KiB to 4 MiB by steps. */
Test(coll_cost, by_length)
{
    struct tca_coll_costs costs = {.cluster = {.small_kib_ns = 100, .large_kib_ns = 400}};
    static const uint64_t each[] = {100, 150, 200, 250, 300, 350, 400, 400};
    uint64_t ns;

    place(1);
    for (unsigned i = 0; i < sizeof(each) / sizeof(*each); i++) {
        struct coll_shape shape = broadcast(2, UINT64_C(65536) << i);
        ns = predict_by(&shape, TCA_COLL_BINOMIAL, &costs);
        cr_assert_eq(ns, (UINT64_C(64) << i) * each[i], "%u: %lu", i, ns);
    }
    struct coll_shape endless = broadcast(2, (UINT64_C(1) << 48) - 1);
    costs.cluster.large_kib_ns = UINT32_MAX;
    ns = predict_by(&endless, TCA_COLL_BINOMIAL, &costs);
    cr_assert_gt(ns, UINT64_C(1) << 57);
}

/* ---- measured costs */

static struct reach_costs measured(uint32_t node_ns, uint32_t daemon_ns, uint32_t far_ns)
{
    return (struct reach_costs){.at = {[REACH_NODE] = {node_ns, 10, 40, 80},
                                       [REACH_NODE_DAEMON] = {daemon_ns, 10, 40, 80},
                                       [REACH_CLUSTER] = {far_ns, 100, 50, 60}}};
}

Test(coll_cost, measured_by_seat)
{
    const struct reach_costs some = measured(70, 700, 7000), none = {0};
    struct tca_coll_costs costs, typical;

    coll_costs_measured(&some, false, &costs);
    cr_assert_eq(costs.node.latency_ns, 70);
    cr_assert_eq(costs.node.large_kib_ns, 80);
    cr_assert_eq(costs.combine_kib_ns, 60);
    cr_assert_eq(costs.cluster.overhead_ns, 100);
    cr_assert(costs.node.measured && costs.cluster.measured && !costs.subcluster.measured);
    cr_assert_eq(costs.subcluster.latency_ns, coll_costs_typical.subcluster.latency_ns);
    coll_costs_measured(&some, true, &costs);
    cr_assert_eq(costs.node.latency_ns, 700);
    coll_costs_measured(&none, false, &costs);
    tca_coll_costs(NULL, TCA_SEAT_ANY, &typical);
    cr_assert_eq(memcmp(&costs, &typical, sizeof(costs)), 0);
    cr_assert_eq(costs.combine_kib_ns, coll_costs_typical.combine_kib_ns);
}

/* With a slow start and a fast network, few hops win; with a network as near as the node, few puts
 * of each rank. */
Test(coll_cost, choices_follow_what_was_measured)
{
    const struct reach_costs slow = measured(70, 700, 1000000), quick = measured(70, 700, 70);
    struct coll_shape shape = broadcast(64, 8);
    enum tca_coll_algorithm by_slow, by_quick;
    struct tca_coll_costs costs;

    place(1);
    coll_costs_measured(&slow, false, &costs);
    cr_assert_eq(coll_choose(&shape, TCA_COLL_ANY, &costs, &by_slow), 0);
    coll_costs_measured(&quick, false, &costs);
    cr_assert_eq(coll_choose(&shape, TCA_COLL_ANY, &costs, &by_quick), 0);
    cr_assert_eq(by_slow, TCA_COLL_DIRECT);
    cr_assert_neq(by_quick, TCA_COLL_DIRECT);
}

/* Where all nodes are in one sub-cluster, the costs are those of its rails. */
Test(coll_cost, one_subcluster)
{
    const struct tca_coll_costs costs = {.subcluster = {.latency_ns = 5},
                                         .cluster = {.latency_ns = 9}};
    struct coll_shape shape = broadcast(2, 8);
    uint64_t ns;

    place(1);
    ns = predict_by(&shape, TCA_COLL_BINOMIAL, &costs);
    cr_assert_eq(ns, 9);
    shape.places.clusters = nodes;
    ns = predict_by(&shape, TCA_COLL_BINOMIAL, &costs);
    cr_assert_eq(ns, 5);
}

/* ---- simulation */

struct seen {
    uint32_t steps, waits, notifications, copies, reductions;
    uint64_t put_bytes, end_ns;
    uint64_t clocks[8][3]; /* by rank and chain */
};

static void see(void *context, const struct tca_coll_simulated_step *step)
{
    struct seen *seen = context;
    const bool put = step->kind == TCA_COLL_PUT;

    cr_assert_lt(step->rank, 8);
    cr_assert_lt(step->chain, 3);
    cr_assert_geq(step->begin_ns, seen->clocks[step->rank][step->chain], "in order");
    cr_assert_leq(step->begin_ns, step->end_ns);
    seen->clocks[step->rank][step->chain] = step->end_ns;
    seen->steps++;
    seen->waits += step->kind == TCA_COLL_WAIT;
    seen->notifications += step->kind == TCA_COLL_NOTIFY;
    seen->copies += put && step->peer == step->rank;
    seen->reductions += step->kind == TCA_COLL_REDUCE;
    seen->put_bytes += put && step->peer != step->rank ? step->bytes : 0;
    seen->end_ns = step->end_ns > seen->end_ns ? step->end_ns : seen->end_ns;
}

static struct seen simulate(const char *operation, enum tca_coll_algorithm algorithm,
                            uint64_t bytes, struct tca_coll_simulated *ret_simulated)
{
    const struct tca_coll_simulation simulation = {.operation = operation,
                                                   .algorithm = algorithm,
                                                   .ranks = 8,
                                                   .per_node = 2,
                                                   .per_subcluster = 2,
                                                   .bytes = bytes};
    struct seen seen = {0};

    cr_assert_eq(tca_coll_simulate(&simulation, see, &seen, ret_simulated), 0, "%s",
                 tca_error_text());
    cr_assert_eq(seen.end_ns, ret_simulated->ns, "%s: the last step ends it", operation);
    cr_assert_eq(seen.waits, seen.notifications, "%s", operation);
    return seen;
}

/* What each operation has to move, at least or exactly. */
Test(coll_cost, simulated_bytes)
{
    struct tca_coll_simulated simulated;
    struct seen seen;

    for (int a = TCA_COLL_ANY; a <= TCA_COLL_HIERARCHICAL; a++)
        if (a != TCA_COLL_RING && a != TCA_COLL_DOUBLING) {
            seen = simulate("broadcast", (enum tca_coll_algorithm)a, 64 << 10, &simulated);
            cr_assert_eq(seen.put_bytes, 7 * (64 << 10));
            cr_assert_eq(seen.reductions, 0);
        }
    seen = simulate("alltoall", TCA_COLL_DIRECT, 1000, &simulated);
    cr_assert_eq(seen.put_bytes, 8 * 7 * 1000);
    cr_assert_eq(seen.copies, 8);
    seen = simulate("allgather", TCA_COLL_RING, 1000, &simulated);
    cr_assert_eq(seen.put_bytes, 8 * 7 * 1000);
    seen = simulate("allreduce", TCA_COLL_RING, 64 << 10, &simulated);
    cr_assert_eq(seen.put_bytes, 2 * 7 * (64 << 10));
    cr_assert_gt(seen.reductions, 0);
    seen = simulate("barrier", TCA_COLL_ANY, 0, &simulated);
    cr_assert_eq(seen.put_bytes, 0);
    cr_assert_gt(seen.notifications, 0);
    seen = simulate("reduce", TCA_COLL_BINOMIAL, 800, &simulated);
    cr_assert_eq(seen.put_bytes, 7 * 800);
    seen = simulate("reduce-scatter", TCA_COLL_DIRECT, 800, &simulated);
    cr_assert_eq(seen.put_bytes, 8 * 7 * 800);
}

Test(coll_cost, simulated_as_a_real_operation_chooses)
{
    struct coll_shape shape = broadcast(8, 1 << 20);
    enum tca_coll_algorithm algorithm;
    struct tca_coll_simulated simulated;

    place(2);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        clusters[rank] = rank / 4;
    shape.segment_bytes = 0;
    cr_assert_eq(coll_choose(&shape, TCA_COLL_ANY, &coll_costs_typical, &algorithm), 0);
    simulate("broadcast", TCA_COLL_ANY, 1 << 20, &simulated);
    cr_assert_eq(simulated.algorithm, algorithm);
    cr_assert_eq(simulated.segment_bytes, shape.segment_bytes);
    cr_assert_eq(simulated.ns, predict(&shape, algorithm));
}

/* More than can be carried out: by the structure of algorithms, in steps of the same size. */
Test(coll_cost, simulated_large)
{
    struct tca_coll_simulation simulation = {.operation = "broadcast", .per_node = 64, .bytes = 8};
    struct tca_coll_simulated few, many;

    simulation.algorithm = TCA_COLL_BINOMIAL;
    simulation.ranks = TCA_COLL_SIMULATED_RANKS;
    cr_assert_eq(tca_coll_simulate(&simulation, NULL, NULL, &few), 0);
    simulation.ranks *= 256;
    cr_assert_eq(tca_coll_simulate(&simulation, NULL, NULL, &many), 0, "%s", tca_error_text());
    cr_assert(many.ns > few.ns && many.ns < 5 * few.ns, "%lu, %lu", few.ns, many.ns);
    simulation.algorithm = TCA_COLL_ANY;
    cr_assert_eq(tca_coll_simulate(&simulation, NULL, NULL, &few), 0);
    cr_assert(few.ns <= many.ns);
}

static void refused(struct tca_coll_simulation simulation, const char *text)
{
    struct tca_coll_simulated simulated;

    cr_assert_eq(tca_coll_simulate(&simulation, NULL, NULL, &simulated), -EINVAL, "%s", text);
    cr_assert(strstr(tca_error_text(), text), "%s", tca_error_text());
}

Test(coll_cost, simulations_are_refused)
{
    const struct tca_coll_simulation good = {.operation = "reduce", .ranks = 8, .bytes = 80};
    struct tca_coll_simulation bad = good;
    struct tca_coll_simulated simulated;

    cr_assert_eq(tca_coll_simulate(&good, NULL, NULL, &simulated), 0);
    bad.operation = "scan";
    refused(bad, "\"scan\"");
    bad.operation = NULL;
    refused(bad, "can be simulated");
    bad = good;
    bad.ranks = TCA_COLL_PREDICTED_RANKS + 1;
    refused(bad, "1048577 ranks");
    bad.ranks = TCA_COLL_SIMULATED_RANKS + 1;
    cr_assert_eq(tca_coll_simulate(&bad, see, NULL, &simulated), -EINVAL);
    cr_assert(strstr(tca_error_text(), "513 ranks"), "%s", tca_error_text());
    bad.ranks = 0;
    refused(bad, "0 ranks");
    bad = good;
    bad.root = 8;
    refused(bad, "root 8");
    bad = good;
    bad.bytes = 81;
    refused(bad, "multiple of 8");
    bad.bytes = 1ull << 48;
    refused(bad, "2^48");
    bad = good;
    bad.algorithm = TCA_COLL_RING;
    refused(bad, "\"ring\" does not suit");
}

Test(coll_cost, links_within_a_cluster_are_quicker)
{
    struct coll_shape shape = broadcast(8, 1);

    place(1);
    uint64_t far_ns = predict(&shape, TCA_COLL_BINOMIAL);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        clusters[rank] = 0;
    cr_assert_lt(predict(&shape, TCA_COLL_BINOMIAL), far_ns);
}

Test(coll_cost, segments_make_a_long_chain_faster)
{
    struct coll_shape whole = broadcast(16, 1 << 22), cut = whole;

    place(1);
    cut.segment_bytes = 1 << 16;
    cr_assert_lt(predict(&cut, TCA_COLL_CHAIN), predict(&whole, TCA_COLL_CHAIN) / 4);
}

Test(coll_cost, nodes_count)
{
    struct coll_shape shape = broadcast(32, 8);

    place(8);
    cr_assert_lt(predict(&shape, TCA_COLL_HIERARCHICAL), predict(&shape, TCA_COLL_CHAIN));
    uint64_t spread = predict(&shape, TCA_COLL_CHAIN);
    place(32);
    cr_assert_lt(predict(&shape, TCA_COLL_CHAIN), spread);
}

/* Short ones take few hops, long ones segments; no other algorithm is cheaper. */
Test(coll_cost, choice)
{
    place(1);
    for (uint64_t bytes = 1; bytes <= 1 << 24; bytes *= 16) {
        struct coll_shape shape = broadcast(16, bytes);
        enum tca_coll_algorithm algorithm;
        shape.segment_bytes = 0;
        cr_assert_eq(coll_choose(&shape, TCA_COLL_ANY, &coll_costs_typical, &algorithm), 0);
        uint64_t chosen = predict(&shape, algorithm);
        for (int a = TCA_COLL_DIRECT; a <= TCA_COLL_HIERARCHICAL; a++)
            if (coll_schedule_suits(&shape, (enum tca_coll_algorithm)a))
                cr_assert_leq(chosen, predict(&shape, (enum tca_coll_algorithm)a));
        if (bytes == 1)
            cr_assert_neq(algorithm, TCA_COLL_CHAIN);
        if (bytes == 1 << 24)
            cr_assert_lt(shape.segment_bytes, bytes);
    }
}

/* Each algorithm that suits, with the segments that suit it best: what tcactl plan explain
 * shows. */
Test(coll_cost, candidates)
{
    struct coll_candidate candidates[COLLECTIVE_CANDIDATES_MAX];
    struct coll_shape shape = broadcast(16, 1 << 22), chosen;
    enum tca_coll_algorithm algorithm;
    uint32_t count;

    place(1);
    shape.segment_bytes = 0;
    chosen = shape;
    cr_assert_eq(coll_choose(&chosen, TCA_COLL_ANY, &coll_costs_typical, &algorithm), 0);
    cr_assert_eq(coll_candidates(&shape, TCA_COLL_ANY, &coll_costs_typical, candidates, &count), 0);
    cr_assert_eq(count, 5);
    for (uint32_t i = 0; i < count; i++) {
        struct coll_shape one = shape;
        one.segment_bytes = candidates[i].segment_bytes;
        cr_assert(coll_schedule_suits(&shape, candidates[i].algorithm));
        cr_assert_eq(candidates[i].ns, predict(&one, candidates[i].algorithm));
        cr_assert_geq(candidates[i].ns, predict(&chosen, algorithm));
        if (candidates[i].algorithm == algorithm)
            cr_assert_eq(candidates[i].segment_bytes, chosen.segment_bytes);
        one.segment_bytes = 65536;
        cr_assert_leq(candidates[i].ns, predict(&one, candidates[i].algorithm));
    }
    cr_assert_eq(coll_candidates(&shape, TCA_COLL_CHAIN, &coll_costs_typical, candidates, &count),
                 0);
    cr_assert(count == 1 && candidates[0].algorithm == TCA_COLL_CHAIN);
    shape.operation = COLL_ALLTOALL; /* of blocks that only one rank knows */
    cr_assert_eq(coll_candidates(&shape, TCA_COLL_ANY, &coll_costs_typical, candidates, &count), 0);
    cr_assert_eq(count, 0);
}

/* All ranks of a random operation choose the same, also in large groups. */
Test(coll_cost, all_ranks_agree)
{
    struct coll_world *world = calloc(1, sizeof(*world));
    struct random random = {random_seed()};

    cr_assert(world);
    for (int round = 0; round < 60; round++) {
        enum coll_operation operation = (enum coll_operation)random_below(&random, COLL_OPERATIONS);
        enum tca_coll_algorithm first = TCA_COLL_ANY, algorithm;
        coll_world_init(world, &random, operation, 1 + (uint32_t)random_below(&random, 12));
        for (uint32_t rank = 0; rank < world->shape.places.size; rank++) {
            struct coll_shape shape = world->shape;
            shape.spans = world->spans[operation == COLL_ALLTOALL ? rank : 0];
            shape.targets = world->targets[rank];
            shape.segment_bytes = 0;
            cr_assert_eq(coll_choose(&shape, TCA_COLL_ANY, &coll_costs_typical, &algorithm), 0);
            if (rank == 0)
                first = algorithm;
            cr_assert_eq(algorithm, first, "operation %d, rank %u", operation, rank);
        }
        coll_world_deinit(world);
    }
    free(world);
    struct coll_shape large = broadcast(RANKS, 1000);
    enum tca_coll_algorithm algorithm;
    place(10);
    large.root = RANKS - 1;
    cr_assert_eq(coll_choose(&large, TCA_COLL_ANY, &coll_costs_typical, &algorithm), 0);
}

Test(coll_cost, unsuitable)
{
    struct coll_shape shape = broadcast(4, 100);
    enum tca_coll_algorithm algorithm;

    cr_assert_eq(coll_choose(&shape, TCA_COLL_RING, &coll_costs_typical, &algorithm), -EINVAL);
    cr_assert_eq(coll_choose(&shape, TCA_COLL_CHAIN, &coll_costs_typical, &algorithm), 0);
    cr_assert_eq(algorithm, TCA_COLL_CHAIN);
}
