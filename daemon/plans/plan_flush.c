/* FLUSHING: the plan's puts complete remotely before their targets are released. The message that
 * releases these goes from daemon to daemon, and could overtake the data. So do those of the plans that had its bindings
 * before (plan_inherit.c). */
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
    for (uint32_t i = 0; i < plan->unit_count; i++) {
        struct plan_unit *unit = &plan->units[i];
        if (!unit->flushes)
            continue;
        unit->flush = (struct driver_op){.done = link_flushed, .owner = plan};
        plan->flushing++;
        if (unit->driver->ops->peer_flush(unit->driver, unit->link->peer, &unit->flush) < 0)
            plan->flushing--;
    }
    one_less(plan);
}

/* Picks a unit for each link to another node; whether there are any. */
static bool pick_units(struct plan *plan)
{
    const uint64_t mark = ++plan->tcad->last_mark;
    bool any = false;
    for (uint32_t i = 0; i < plan->unit_count; i++) {
        struct plan_unit *unit = &plan->units[i];
        struct link *link = unit->link;
        unit->flushes = link && link->was_connected && link->mark != mark &&
                        engine_driver_caps(plan->tcad->engine, link->rail)->other_nodes;
        if (unit->flushes)
            link->mark = mark;
        any |= unit->flushes;
    }
    return any;
}

void plan_do_flush(struct plan *plan)
{
    plan->flush_ns = 0;
    const bool puts =
        plan->inherits || atomic_load_explicit(&plan->run.starts, memory_order_relaxed) > 0;
    if (!puts || !pick_units(plan))
        return;
    plan->pending++;
    engine_call(plan->tcad->engine, &plan->call, flush_work, NULL, plan);
}
