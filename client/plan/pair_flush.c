/* When all that was put over pairs has landed. */
#include "client/core/session.h"
#include "client/plan/pair_internal.h"
#include "client/plan/plan.h"

/* Either thread. A pair that has ended has nothing in flight. */
static void flushed(struct driver_op *op, int status)
{
    struct pair *pair = op->owner;
    (void)status;
    pair->flushed = pair->flushing;
}

static void begin(struct pair *pair)
{
    pair->flushing = pair->flush_wanted;
    pair->flush = (struct driver_op){.done = flushed, .owner = pair};
    if (pair->error ||
        pair->via->driver->ops->peer_flush(pair->via->driver, pair->peer, &pair->flush) < 0)
        pair->flushed = pair->flushing;
}

void pairs_flush(struct tca_plan *plan)
{
    struct tca *session = plan->session;
    const struct pair *last = NULL;
    standby_enter(session->standby);
    for (uint32_t i = 0; i < plan->unit_count; i++) {
        struct pair *pair = plan->units[i].pair;
        if (pair != last) {
            pair->flush_wanted++;
            if (pair->flushed == pair->flushing)
                begin(pair);
        }
        plan->units[i].flush = pair->flush_wanted;
        last = pair;
    }
    pairs_push(session);
    standby_leave(session->standby);
}

bool pairs_flushed(struct tca_plan *plan)
{
    struct tca *session = plan->session;
    bool all = true;
    standby_enter(session->standby);
    for (uint32_t i = 0; i < plan->unit_count; i++) {
        struct pair *pair = plan->units[i].pair;
        if (pair->flushed == pair->flushing && pair->flushed < plan->units[i].flush)
            begin(pair);
        all &= pair->flushed >= plan->units[i].flush;
    }
    standby_leave(session->standby);
    return all;
}
