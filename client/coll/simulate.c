/* Operations of ranks that do not exist, for tools. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/coll/coll.h"
#include "client/core/error.h"

static_assert((int)TCA_COLL_PUT == COLL_PUT && (int)TCA_COLL_NOTIFY == COLL_NOTIFY &&
                  (int)TCA_COLL_WAIT == COLL_WAIT && (int)TCA_COLL_REDUCE == COLL_COMBINE,
              "kinds of steps are the same");

/* What a shape points to, of each rank. */
struct world {
    uint32_t *nodes, *clusters;
    struct coll_span *spans;
    uint64_t *targets;
};

static int find_operation(const char *name, enum coll_operation *ret_operation)
{
    for (int o = 0; name && o < COLL_OPERATIONS; o++)
        if (strcmp(coll_operation_name((enum coll_operation)o), name) == 0) {
            *ret_operation = (enum coll_operation)o;
            return 0;
        }
    return error_set(-EINVAL,
                     "operation \"%s\": barrier, broadcast, allgather, reduce, allreduce, "
                     "reduce-scatter and alltoall can be simulated",
                     name ? name : "");
}

static bool reduces(enum coll_operation operation)
{
    return operation == COLL_REDUCE || operation == COLL_ALLREDUCE ||
           operation == COLL_REDUCE_SCATTER;
}

static int check(const struct tca_coll_simulation *simulation, enum coll_operation operation,
                 bool with_steps)
{
    const uint32_t ranks = simulation->ranks;

    if (ranks < 1 || ranks > TCA_COLL_PREDICTED_RANKS)
        return error_set(-EINVAL, "%u ranks: 1 to %d are possible", ranks,
                         TCA_COLL_PREDICTED_RANKS);
    if (with_steps && ranks > TCA_COLL_SIMULATED_RANKS)
        return error_set(-EINVAL, "%u ranks: the steps of at most %d can be shown", ranks,
                         TCA_COLL_SIMULATED_RANKS);
    if (simulation->root >= ranks)
        return error_set(-EINVAL, "root %u: the ranks are 0 to %u", simulation->root, ranks - 1);
    if (simulation->bytes >= (uint64_t)1 << 48)
        return error_set(-EINVAL, "%llu bytes: less than 2^48 are possible",
                         (unsigned long long)simulation->bytes);
    if (reduces(operation) && simulation->bytes % sizeof(double) != 0)
        return error_set(-EINVAL, "%llu bytes are reduced: they must be a multiple of %zu",
                         (unsigned long long)simulation->bytes, sizeof(double));
    return 0;
}

static int world_init(struct world *world, uint32_t ranks)
{
    world->nodes = calloc(ranks, sizeof(*world->nodes));
    world->clusters = calloc(ranks, sizeof(*world->clusters));
    world->spans = calloc(ranks, sizeof(*world->spans));
    world->targets = calloc(ranks, sizeof(*world->targets));
    return world->nodes && world->clusters && world->spans && world->targets
               ? 0
               : error_static(-ENOMEM, "out of memory");
}

static void world_deinit(struct world *world)
{
    free(world->nodes);
    free(world->clusters);
    free(world->spans);
    free(world->targets);
}

static struct coll_shape make(const struct world *world,
                              const struct tca_coll_simulation *simulation,
                              enum coll_operation operation)
{
    const uint32_t ranks = simulation->ranks;
    const uint32_t per_node = simulation->per_node ? simulation->per_node : ranks;
    const uint32_t per_cluster = simulation->per_subcluster ? simulation->per_subcluster : ranks;
    const bool several = (ranks - 1) / per_node / per_cluster > 0;

    for (uint32_t rank = 0; rank < ranks; rank++) {
        world->nodes[rank] = rank / per_node;
        world->clusters[rank] = rank / per_node / per_cluster;
        world->spans[rank] = (struct coll_span){rank * simulation->bytes, simulation->bytes};
    }
    return (struct coll_shape){
        .operation = operation,
        .places = {ranks, world->nodes, several ? world->clusters : world->nodes},
        .root = simulation->root,
        .bytes = simulation->bytes,
        .element_bytes = reduces(operation) ? sizeof(double) : 1,
        .segment_bytes = simulation->segment_bytes,
        .spans = world->spans,
        .targets = world->targets,
        .regular = true,
    };
}

/* ---- steps */

struct caller {
    void (*step)(void *context, const struct tca_coll_simulated_step *step);
    void *context;
};

static void pass_on(void *context, uint32_t rank, uint32_t chain, const struct coll_step *step,
                    uint64_t begin_ns, uint64_t end_ns)
{
    const struct caller *caller = context;

    caller->step(caller->context,
                 &(struct tca_coll_simulated_step){.rank = rank,
                                                   .chain = chain,
                                                   .kind = (enum tca_coll_step_kind)step->kind,
                                                   .peer = step->peer,
                                                   .bytes = step->bytes,
                                                   .begin_ns = begin_ns,
                                                   .end_ns = end_ns});
}

/* The time of an algorithm that suits. */
static int find_time(const struct coll_shape *shape, enum tca_coll_algorithm algorithm,
                     const struct tca_coll_costs *costs, const struct coll_watch *watch,
                     uint64_t *ret_ns)
{
    struct coll_candidate candidates[COLLECTIVE_CANDIDATES_MAX];
    uint32_t count;

    if (shape->places.size <= TCA_COLL_SIMULATED_RANKS)
        return coll_simulate(shape, algorithm, costs, watch, ret_ns);
    int r = coll_candidates(shape, algorithm, costs, candidates, &count);
    if (r >= 0)
        *ret_ns = candidates[0].ns;
    return r;
}

static int run(struct coll_shape *shape, enum tca_coll_algorithm wanted,
               const struct tca_coll_costs *costs, struct caller *caller,
               struct tca_coll_simulated *ret_simulated)
{
    const struct coll_watch watch = {.step = pass_on, .context = caller};
    struct tca_coll_simulated simulated;
    int r = coll_choose(shape, wanted, costs, &simulated.algorithm);

    if (r == -EINVAL)
        return error_set(r, "the algorithm \"%s\" does not suit this operation: see tca-coll(3)",
                         tca_coll_algorithm_name(wanted));
    if (r >= 0)
        r = find_time(shape, simulated.algorithm, costs, caller->step ? &watch : NULL,
                      &simulated.ns);
    if (r < 0)
        return error_static(r, "out of memory");
    simulated.segment_bytes = shape->segment_bytes;
    *ret_simulated = simulated;
    return 0;
}

int tca_coll_simulate(const struct tca_coll_simulation *simulation,
                      void (*step)(void *context, const struct tca_coll_simulated_step *step),
                      void *context, struct tca_coll_simulated *ret_simulated)
{
    struct caller caller = {step, context};
    enum coll_operation operation = COLL_BARRIER;
    struct world world;
    int r = find_operation(simulation->operation, &operation);

    if (r >= 0)
        r = check(simulation, operation, step != NULL);
    if (r < 0)
        return r;
    r = world_init(&world, simulation->ranks);
    if (r >= 0) {
        struct coll_shape shape = make(&world, simulation, operation);
        r = run(&shape, simulation->algorithm,
                simulation->costs ? simulation->costs : &coll_costs_typical, &caller,
                ret_simulated);
    }
    world_deinit(&world);
    return r;
}
