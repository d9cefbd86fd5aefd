/* Running the programs of all ranks against a clock. */
#include <errno.h>
#include <stdlib.h>

#include "client/coll/cost.h"

struct rank {
    struct coll_program program;
    uint32_t next[COLL_CHAINS_MAX];
    uint64_t clocks[COLL_CHAINS_MAX];
    uint64_t busy_ns; /* when its last put is over: chains share what moves data */
};

/* A chain that can go on, not before a time. */
struct turn {
    uint64_t ns;
    uint32_t rank, chain;
};

/* Notifications from one rank to another, taken in the order in which they were sent. */
struct mail {
    uint64_t *arrivals;
    uint32_t sent, taken, room;
    bool awaited; /* by the chain that the slot belongs to */
};

struct run {
    const struct coll_shape *shape;
    const struct tca_coll_costs *costs;
    const struct coll_watch *watch; /* NULL: none */
    struct rank *ranks;
    struct mail *mails; /* [receiver][sender][slot] */
    uint32_t slots;
    struct turn *turns; /* [size * COLL_CHAINS_MAX]: a heap, the first one on top */
    uint32_t turn_count;
};

static struct mail *mail_of(const struct run *run, uint32_t to, uint32_t from, uint32_t slot)
{
    return &run->mails[((size_t)to * run->shape->places.size + from) * run->slots + slot];
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

/* ---- the chains that can go on, by time */

static bool earlier(const struct turn *a, const struct turn *b)
{
    if (a->ns != b->ns)
        return a->ns < b->ns;
    return a->rank != b->rank ? a->rank < b->rank : a->chain < b->chain;
}

static void add_turn(struct run *run, uint64_t ns, uint32_t rank, uint32_t chain)
{
    const struct turn turn = {ns, rank, chain};
    uint32_t i = run->turn_count++;

    for (; i > 0 && earlier(&turn, &run->turns[(i - 1) / 2]); i = (i - 1) / 2)
        run->turns[i] = run->turns[(i - 1) / 2];
    run->turns[i] = turn;
}

static struct turn take_turn(struct run *run)
{
    const struct turn first = run->turns[0], last = run->turns[--run->turn_count];
    uint32_t i = 0;

    for (uint32_t below; (below = 2 * i + 1) < run->turn_count; i = below) {
        if (below + 1 < run->turn_count && earlier(&run->turns[below + 1], &run->turns[below]))
            below++;
        if (!earlier(&run->turns[below], &last))
            break;
        run->turns[i] = run->turns[below];
    }
    run->turns[i] = last;
    return first;
}

/* ---- steps */

static int notify(struct run *run, uint32_t me, const struct coll_step *step, uint64_t arrival_ns)
{
    struct mail *mail = mail_of(run, step->peer, me, step->slot);

    if (!post(mail, arrival_ns))
        return -ENOMEM;
    if (mail->awaited)
        add_turn(run, arrival_ns, step->peer, step->slot / COLL_SLOTS);
    mail->awaited = false;
    return 1;
}

/* 1: done; 0: waits for a notification, or for another chain's put, and has its turn later;
 * -ENOMEM. */
static int take_step(struct run *run, const struct turn *turn)
{
    struct rank *rank = &run->ranks[turn->rank];
    const struct coll_chain *chain = &rank->program.chains[turn->chain];
    const uint32_t next = rank->next[turn->chain];
    const struct coll_step *step = &chain->steps[next];
    const struct tca_coll_link *link = link_to(run, turn->rank, step->peer);
    uint64_t *clock = &rank->clocks[turn->chain], begin_ns = *clock;

    if (step->seldom) { /* of starts that do not have to wait */
        rank->next[turn->chain]++;
        return 1;
    }
    if (step->kind == COLL_WAIT) {
        struct mail *mail = mail_of(run, turn->rank, step->peer, step->slot);
        mail->awaited = mail->taken == mail->sent;
        if (mail->awaited)
            return 0;
        uint64_t arrival = mail->arrivals[mail->taken++];
        *clock = arrival > *clock ? arrival : *clock;
    } else if (step->kind == COLL_NOTIFY) {
        if (!goes_with_put(chain, next))
            *clock += link->overhead_ns;
        if (notify(run, turn->rank, step, *clock + link->latency_ns) < 0)
            return -ENOMEM;
    } else {
        begin_ns = *clock > rank->busy_ns ? *clock : rank->busy_ns;
        if (begin_ns > turn->ns && rank->program.chain_count > 1) {
            add_turn(run, begin_ns, turn->rank, turn->chain);
            return 0;
        }
        *clock = begin_ns + link->overhead_ns +
                 (step->kind == COLL_PUT ? coll_transfer_ns(link, step->bytes)
                                         : coll_bytes_ns(step->bytes, run->costs->combine_kib_ns));
        rank->busy_ns = *clock;
    }
    show(run, turn->rank, turn->chain, begin_ns);
    rank->next[turn->chain]++;
    return 1;
}

/* In the order of time where it matters: between the chains of a rank. */
static int play(struct run *run, uint64_t *ret_ns)
{
    for (uint32_t me = 0; me < run->shape->places.size; me++)
        for (uint32_t c = 0; c < run->ranks[me].program.chain_count; c++)
            add_turn(run, 0, me, c);
    *ret_ns = 0;
    while (run->turn_count > 0) {
        const struct turn turn = take_turn(run);
        const struct rank *rank = &run->ranks[turn.rank];
        int r = 1;
        while (r > 0 && rank->next[turn.chain] < rank->program.chains[turn.chain].count)
            r = take_step(run, &turn);
        if (r < 0)
            return r;
        if (rank->clocks[turn.chain] > *ret_ns)
            *ret_ns = rank->clocks[turn.chain];
    }
    return 0;
}

static void run_deinit(struct run *run)
{
    size_t mails = (size_t)run->shape->places.size * run->shape->places.size * run->slots;

    for (uint32_t rank = 0; run->ranks && rank < run->shape->places.size; rank++)
        coll_program_deinit(&run->ranks[rank].program);
    for (size_t i = 0; run->mails && i < mails; i++)
        free(run->mails[i].arrivals);
    free(run->ranks);
    free(run->mails);
    free(run->turns);
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
    run.turns = calloc((size_t)size * COLL_CHAINS_MAX, sizeof(*run.turns));
    if (!run.ranks || !run.turns)
        r = -ENOMEM;
    for (uint32_t rank = 0; r >= 0 && rank < size; rank++)
        r = coll_schedule(shape, algorithm, rank, &run.ranks[rank].program);
    if (r >= 0) {
        run.slots = run.ranks[0].program.chain_count * COLL_SLOTS;
        run.mails = calloc((size_t)size * size * run.slots, sizeof(*run.mails));
        r = run.mails ? 0 : -ENOMEM;
    }
    if (r >= 0)
        r = play(&run, ret_ns);
    run_deinit(&run);
    return r;
}
