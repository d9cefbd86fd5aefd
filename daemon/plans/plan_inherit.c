/*
 * BINDING: a commit like one that the same session has just released, such as that of a plan for
 * each message. The new plan takes over the bindings at other nodes, so that these need not be
 * asked for new ones, and asked to end the old ones.
 *
 * Puts of the former plan may not have completed remotely yet. When the new one releases a binding,
 * it flushes the link that they took (plan_flush.c): so it must be on the same rails.
 */
#include <string.h>

#include "daemon/plans/parts.h"
#include "daemon/plans/plan_stripe.h"
#include "daemon/plans/releases.h"
#include "daemon/rails/link.h"
#include "daemon/rails/rails.h"
#include "daemon/tcad.h"

/* What is compared on the loop's thread; longer plans gain little. */
enum { ASKS_MAX = 64, LAYOUT_BYTES_MAX = 4096 };

static bool same_layout(const struct layout *a, const struct layout *b)
{
    const size_t bytes = layout_bytes(a);
    return bytes <= LAYOUT_BYTES_MAX && bytes == layout_bytes(b) && memcmp(a, b, bytes) == 0;
}

/* Whether their requests would be the same: plan_ask.c. */
static bool same_target(const struct plan_transfer *a, const struct plan_transfer *b)
{
    if (a->node != b->node || a->has_target != b->has_target || a->notify != b->notify ||
        a->signal != b->signal)
        return false;
    if (a->notify && (a->notify_session != b->notify_session || a->slot != b->slot))
        return false;
    return !a->has_target || (memcmp(a->handle_bytes, b->handle_bytes, HANDLE_BYTES) == 0 &&
                              a->target_offset == b->target_offset &&
                              same_layout(a->target_layout, b->target_layout));
}

static bool transfer_fits(const struct plan *plan, const struct plan *former,
                          const struct plan_ask *ask)
{
    if (ask->seat == SEAT_CLIENT || ask->node == plan->tcad->node ||
        ask->transfer >= former->transfer_count)
        return false;
    const struct plan_transfer *transfer = &plan->transfers[ask->transfer],
                               *other = &former->transfers[ask->transfer];
    return other->bindings[SEAT_DAEMON] && !other->pair && !other->lost && !other->of &&
           plan_stripe_count(former, other) == 0 && same_target(transfer, other) && other->link &&
           other->link->rail == plan_best_rail(plan, &plan->chains[transfer->chain]);
}

static bool plan_fits(const struct plan *plan, const struct plan *former)
{
    if (former->session != plan->session || former->state != PLAN_READY ||
        former->move.state != ROUTE_SETTLED || former->pending > 0 || former->error < 0 ||
        former->wanted_rails != plan->wanted_rails || former->together != plan->together ||
        plan_has_dead_link(former))
        return false;
    for (uint32_t i = 0; i < plan->ask_count; i++)
        if (!transfer_fits(plan, former, &plan->asks[i]))
            return false;
    return true;
}

static void take_transfer(struct plan *plan, const struct plan *former,
                          struct plan_transfer *transfer, struct plan_transfer *other)
{
    transfer->bindings[SEAT_DAEMON] = other->bindings[SEAT_DAEMON];
    transfer->owner = other->owner;
    transfer->address = other->address;
    transfer->rails = other->rails;
    other->bindings[SEAT_DAEMON] = 0;
    for (unsigned rail = 1; rail <= plan->tcad->rails->last; rail++)
        if (transfer->rails & 1u << rail)
            *plan_blob(plan, transfer, rail) = *plan_blob(former, other, rail);
    plan_use_owner(plan, transfer);
}

bool plan_inherit(struct plan *plan)
{
    struct plan *former = releases_newest(plan->tcad->releases);
    if (plan->ask_count == 0 || plan->ask_count > ASKS_MAX)
        return false;
    while (former && !plan_fits(plan, former))
        former = former->next_released;
    if (!former)
        return false;
    for (uint32_t i = 0; i < plan->ask_count; i++) {
        const uint32_t transfer = plan->asks[i].transfer;
        take_transfer(plan, former, &plan->transfers[transfer], &former->transfers[transfer]);
    }
    plan->inherits = true;
    plan->tcad->inherited++;
    return true;
}
