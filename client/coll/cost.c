#include "client/coll/cost.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS_MAX = 64 };

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
static uint64_t transfer_ns(uint64_t bytes, uint64_t each_kib_ns)
{
    enum { SLOWEST_KIB_NS = 1 << 20 };
    const uint64_t each_ns = each_kib_ns < SLOWEST_KIB_NS ? each_kib_ns : SLOWEST_KIB_NS;

    return bytes / 1024 * each_ns + bytes % 1024 * each_ns / 1024;
}

/* ---- running the programs of all ranks against a clock */

struct rank {
    struct coll_program program;
    uint32_t next[COLL_CHAINS_MAX];
    uint64_t clocks[COLL_CHAINS_MAX];
    uint64_t busy_ns; /* when its last put is over: chains share what moves data */
};

/* Notifications from one rank to another, taken in the order in which they were sent. */
struct mail {
    uint64_t *arrivals;
    uint32_t sent, taken, room;
};

struct run {
    const struct coll_shape *shape;
    const struct tca_coll_costs *costs;
    const struct coll_watch *watch; /* NULL: none */
    struct rank *ranks;
    struct mail *mails; /* [receiver][sender][slot] */
};

static struct mail *mail_of(const struct run *run, uint32_t to, uint32_t from, uint32_t slot)
{
    return &run->mails[((size_t)to * run->shape->places.size + from) * COLL_CHAINS_MAX *
                           COLL_SLOTS +
                       slot];
}

static bool post(struct mail *mail, uint64_t arrival_ns)
{
    if (mail->sent == mail->room) {
        uint32_t room = mail->room ? 2 * mail->room : 4;
        uint64_t *arrivals = realloc(mail->arrivals, room * sizeof(*arrivals));
        if (!arrivals)
            return false;
        mail->arrivals = arrivals;
        mail->room = room;
    }
    mail->arrivals[mail->sent++] = arrival_ns;
    return true;
}

static const struct tca_coll_link *link_to(const struct run *run, uint32_t me, uint32_t peer)
{
    const struct coll_places *places = &run->shape->places;

    if (places->nodes[me] == places->nodes[peer])
        return &run->costs->node;
    return coll_one_cluster(places) || places->clusters[me] == places->clusters[peer]
               ? &run->costs->subcluster
               : &run->costs->cluster;
}

static void show(const struct run *run, uint32_t me, uint32_t index, uint64_t begin_ns)
{
    const struct rank *rank = &run->ranks[me];

    if (run->watch)
        run->watch->step(run->watch->context, me, index,
                         &rank->program.chains[index].steps[rank->next[index]], begin_ns,
                         rank->clocks[index]);
}

/* A notification right after a put to the same rank is one operation with it. */
static bool goes_with_put(const struct coll_chain *chain, uint32_t index)
{
    const struct coll_step *step = &chain->steps[index];

    return index > 0 && step[-1].kind == COLL_PUT && step[-1].peer == step->peer;
}

/* 1: done, 0: has to wait, -ENOMEM. */
static int take_step(const struct run *run, uint32_t me, uint32_t index)
{
    struct rank *rank = &run->ranks[me];
    const struct coll_step *step = &rank->program.chains[index].steps[rank->next[index]];
    const struct tca_coll_link *link = link_to(run, me, step->peer);
    uint64_t *clock = &rank->clocks[index], begin_ns = *clock;

    if (step->seldom) { /* of starts that do not have to wait */
        rank->next[index]++;
        return 1;
    }
    if (step->kind == COLL_WAIT) {
        struct mail *mail = mail_of(run, me, step->peer, step->slot);
        if (mail->taken == mail->sent)
            return 0;
        uint64_t arrival = mail->arrivals[mail->taken++];
        *clock = arrival > *clock ? arrival : *clock;
    } else if (step->kind == COLL_NOTIFY) {
        if (!goes_with_put(&rank->program.chains[index], rank->next[index]))
            *clock += link->overhead_ns;
        if (!post(mail_of(run, step->peer, me, step->slot), *clock + link->latency_ns))
            return -ENOMEM;
    } else {
        uint64_t each =
            step->kind == COLL_PUT ? kib_ns(link, step->bytes) : run->costs->combine_kib_ns;
        begin_ns = *clock > rank->busy_ns ? *clock : rank->busy_ns;
        *clock = begin_ns + link->overhead_ns + transfer_ns(step->bytes, each);
        rank->busy_ns = *clock;
    }
    show(run, me, index, begin_ns);
    rank->next[index]++;
    return 1;
}

static int play(const struct run *run, uint64_t *ret_ns)
{
    bool any = true;

    while (any) {
        any = false;
        for (uint32_t me = 0; me < run->shape->places.size; me++)
            for (uint32_t c = 0; c < run->ranks[me].program.chain_count; c++)
                while (run->ranks[me].next[c] < run->ranks[me].program.chains[c].count) {
                    int r = take_step(run, me, c);
                    if (r < 0)
                        return r;
                    if (r == 0)
                        break;
                    any = true;
                }
    }
    *ret_ns = 0;
    for (uint32_t me = 0; me < run->shape->places.size; me++)
        for (uint32_t c = 0; c < run->ranks[me].program.chain_count; c++)
            if (run->ranks[me].clocks[c] > *ret_ns)
                *ret_ns = run->ranks[me].clocks[c];
    return 0;
}

static void run_deinit(struct run *run)
{
    size_t mails =
        (size_t)run->shape->places.size * run->shape->places.size * COLL_CHAINS_MAX * COLL_SLOTS;

    for (uint32_t rank = 0; run->ranks && rank < run->shape->places.size; rank++)
        coll_program_deinit(&run->ranks[rank].program);
    for (size_t i = 0; run->mails && i < mails; i++)
        free(run->mails[i].arrivals);
    free(run->ranks);
    free(run->mails);
}

int coll_simulate(const struct coll_shape *shape, enum tca_coll_algorithm algorithm,
                  const struct tca_coll_costs *costs, const struct coll_watch *watch,
                  uint64_t *ret_ns)
{
    const uint32_t size = shape->places.size;
    struct run run = {.shape = shape, .costs = costs, .watch = watch};
    int r = 0;

    if (shape->operation == COLL_ALLTOALL && !shape->regular)
        return -EINVAL;
    run.ranks = calloc(size, sizeof(*run.ranks));
    run.mails = calloc((size_t)size * size * COLL_CHAINS_MAX * COLL_SLOTS, sizeof(*run.mails));
    if (!run.ranks || !run.mails)
        r = -ENOMEM;
    for (uint32_t rank = 0; r >= 0 && rank < size; rank++)
        r = coll_schedule(shape, algorithm, rank, &run.ranks[rank].program);
    if (r >= 0)
        r = play(&run, ret_ns);
    run_deinit(&run);
    return r;
}

int coll_predict(const struct coll_shape *shape, enum tca_coll_algorithm algorithm,
                 const struct tca_coll_costs *costs, uint64_t *ret_ns)
{
    struct coll_shape part = *shape;

    if (part.places.size > RANKS_MAX) {
        part.places.size = RANKS_MAX;
        part.root = 0;
    }
    return coll_simulate(&part, algorithm, costs, NULL, ret_ns);
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

/* Of an algorithm, with every length of segments. */
static int consider(const struct coll_shape *shape, enum tca_coll_algorithm algorithm,
                    const struct tca_coll_costs *costs, struct coll_candidate *ret_best)
{
    static const uint64_t lengths[] = {UINT64_MAX, 262144, 65536, 16384};
    struct coll_candidate best = {.ns = UINT64_MAX};

    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        struct coll_shape tried = *shape;
        uint64_t ns;
        bool fixed = shape->segment_bytes > 0 || !in_segments(shape);
        tried.segment_bytes = shape->segment_bytes ? shape->segment_bytes : lengths[i];
        if (i > 0 && (fixed || lengths[i] >= shape->bytes))
            continue;
        int r = coll_predict(&tried, algorithm, costs, &ns);
        if (r < 0)
            return r;
        if (i == 0 || ns < best.ns)
            best = (struct coll_candidate){algorithm, tried.segment_bytes, ns};
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
    uint32_t count = 0;
    int r = 0;

    for (int a = TCA_COLL_DIRECT; r >= 0 && a <= TCA_COLL_HIERARCHICAL; a++)
        if (is_predictable(shape) &&
            (wanted == TCA_COLL_ANY || wanted == (enum tca_coll_algorithm)a) &&
            coll_schedule_suits(shape, (enum tca_coll_algorithm)a))
            r = consider(shape, (enum tca_coll_algorithm)a, costs, &ret_candidates[count++]);
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
