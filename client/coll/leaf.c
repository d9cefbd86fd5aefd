#include "client/coll/leaf.h"

#include "client/coll/coll.h"
#include "client/core/seats.h"

enum { LOOKS = 32 };

/* The step for the data, if all that the program does is to give a credit and wait: the process
 * copies what arrives itself. */
static const struct coll_step *find_wait(const struct tca_coll *coll)
{
    const struct coll_chain *chain = &coll->program.chains[0];
    const uint32_t *nodes = coll->shape.places.nodes;
    const struct coll_step *steps = chain->steps;

    if (coll->by_thread || coll->program.sets != COLL_SETS || coll->program.chain_count != 1 ||
        chain->count != 2 || coll->copies.take_turn == 0)
        return NULL;
    bool waits = steps[0].kind == COLL_NOTIFY && steps[0].seldom && steps[1].kind == COLL_WAIT;
    return waits && nodes[steps[1].peer] == nodes[coll->program.rank] ? &steps[1] : NULL;
}

/* Keeps the plan for credits, if this process runs it. */
static int make_credit(struct tca_coll *coll, const struct coll_step *credit,
                       const struct gathered *met, const struct tca_plan_args *args)
{
    struct tca_plan *plan;
    int r = coll_plan_new(coll, args, &plan);

    if (r < 0)
        return r;
    r = tca_plan_notify(plan, credit->peer, coll_met_of(met, credit->peer)->slot + credit->slot);
    if (r >= 0)
        r = tca_plan_commit(plan, TCA_DEFAULT);
    if (r >= 0 && plan_copies_here(plan))
        coll->leaf.credit = plan;
    else
        tca_plan_free(plan);
    return r;
}

int coll_leaf_make(struct tca_coll *coll, const struct gathered *met,
                   const struct tca_plan_args *args)
{
    const struct coll_step *wait = find_wait(coll);
    struct coll_leaf *leaf = &coll->leaf;

    if (!wait)
        return 0;
    leaf->parent = group_to_session(coll->group, wait->peer);
    leaf->slot = coll->slot + wait->slot;
    int r = session_slot_find(coll->session, leaf->parent, leaf->slot, &leaf->arrival);
    return r < 0 ? r : make_credit(coll, wait - 1, met, args);
}

/* ---- a start */

int coll_leaf_begin(struct coll_leaf *leaf, uint32_t set)
{
    leaf->arrived = false;
    if (set % COLL_LEAD != 0)
        return 0;
    int r = plan_start_and_test(leaf->credit);
    leaf->lending = r == 0;
    return r < 0 ? r : 0;
}

int coll_leaf_test(struct coll_leaf *leaf, struct tca *session)
{
    int r = leaf->lending ? tca_test(leaf->credit) : 1;

    if (r <= 0)
        return r;
    leaf->lending = false;
    return leaf->arrived ? 1 : tca_notified(session, leaf->parent, leaf->slot);
}

int coll_leaf_wait(struct coll_leaf *leaf, struct tca *session, int64_t timeout_ns)
{
    if (leaf->lending)
        return tca_wait(leaf->credit, timeout_ns);
    int r = tca_notified_wait(session, leaf->parent, leaf->slot, timeout_ns);

    leaf->arrived = r == 0;
    return r;
}

bool coll_leaf_take(struct coll_leaf *leaf, struct tca *session, const void *data)
{
    for (int i = 0; i < LOOKS && !leaf->lending; i++) {
        int r = session_take(session, &leaf->arrival);
        if (r != 0)
            return r > 0;
        __builtin_prefetch(data); /* moves it between the cores with the counter */
    }
    return false;
}
