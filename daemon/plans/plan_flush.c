/* FLUSHING: the plan's puts complete remotely before their targets are released. The message that
 * releases these goes from daemon to daemon, and could overtake the data. So do those of the plans
 * that had its bindings before (plan_inherit.c). */
#include "daemon/base/loop.h"
#include "daemon/plans/plan_internal.h"
#include "daemon/tcad.h"
#include "proto/wait.h"

static void one_less(struct plan *plan)
{
    if (--plan->flushing > 0)
        return;
    plan->flush_ns = clock_now_ns() - plan->flush_from_ns;
    loop_post_own(plan->tcad->loop, &plan->post, plan_done, plan);
}

/* A link that has failed has nothing in flight. */
static void link_flushed(struct driver_op *op, int status)
{
    one_less(op->owner);
}

static void flush_work(struct engine *engine, void *context)
{
    struct plan *plan = context;
    plan->flush_from_ns = clock_now_ns();
    plan->flushing = 1; /* until all are begun */
    for (uint32_t i = 0; i < plan->transfer_count; i++) {
        struct plan_transfer *transfer = &plan->transfers[i];
        if (!transfer->flushes)
            continue;
        transfer->flush = (struct driver_op){.done = link_flushed, .owner = plan};
        plan->flushing++;
        if (transfer->driver->ops->peer_flush(transfer->driver, transfer->link->peer,
                                              &transfer->flush) < 0)
            plan->flushing--;
    }
    one_less(plan);
}

/* Picks a transfer for each link to another node; whether there are any. */
static bool pick_transfers(struct plan *plan)
{
    const uint64_t mark = ++plan->tcad->last_mark;
    bool any = false;
    for (uint32_t i = 0; i < plan->transfer_count; i++) {
        struct plan_transfer *transfer = &plan->transfers[i];
        struct link *link = transfer->link;
        transfer->flushes = link && link->was_connected && link->mark != mark &&
                            engine_driver_caps(plan->tcad->engine, link->rail)->other_nodes;
        if (transfer->flushes)
            link->mark = mark;
        any |= transfer->flushes;
    }
    return any;
}

void plan_do_flush(struct plan *plan)
{
    plan->flush_ns = 0;
    const bool puts =
        plan->inherits || atomic_load_explicit(&plan->run.starts, memory_order_relaxed) > 0;
    if (!puts || !pick_transfers(plan))
        return;
    plan->pending++;
    engine_call(plan_engine(plan), &plan->call, flush_work, NULL, plan);
}
