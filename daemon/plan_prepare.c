/* PREPARING, on the engine: puts are compiled, chains made of them, and the engine told of the
 * plan. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/engine.h"
#include "daemon/plan.h"
#include "daemon/region.h"
#include "daemon/session.h"
#include "daemon/tcad.h"
#include "proto/notify.h"

enum { MARK_BYTES_MAX = 64 };

static int prepare_unit(struct plan *plan, struct plan_unit *unit)
{
    enum rail rail = unit->driver->ops->rail;
    struct driver_put_args args = {
        .peer = unit->link->peer,
        .flow = plan->session_id * CHANNELS + plan->channel,
        .region = unit->source ? unit->source->on[rail] : NULL,
        .offset_bytes = unit->source_offset,
        .layout = unit->source_layout,
        .landing = unit->blob[rail],
        .landing_bytes = unit->blob_bytes[rail],
        .target_layout = unit->target_layout,
    };
    int r = unit->driver->ops->put_prepare(unit->driver, &args, &unit->put, &unit->info);
    if (r < 0)
        return plan_fail(plan, r, "rail %s cannot carry a put to node %" PRIu32 ": %s",
                         rail_name(rail), unit->node, strerror(-r));
    return 0;
}

/* A notification must not overtake data that went another way before it. */
static bool needs_fence(const struct plan *plan, const struct plan_chain *chain, uint32_t step)
{
    const struct plan_unit *unit = &plan->units[chain->steps[step].unit];
    if (!unit->notify)
        return false;
    bool ordered = engine_driver_caps(plan->tcad->engine, chain->rail)->ordered;
    for (uint32_t i = 0; i < step; i++) {
        const struct plan_unit *before =
            chain->steps[i].is_wait ? NULL : &plan->units[chain->steps[i].unit];
        if (before && before->has_target && (before->link != unit->link || !ordered))
            return true;
    }
    return false;
}

/* ---- what has landed ---- */

/* Asks the links of steps `from` to `to`, once all that is before them is done here, whether it has
 * landed: all links, or those on which puts are gathered and taken apart there, for others overtake
 * these. Returns how many steps these are. */
static uint32_t add_flushes(const struct plan *plan, const struct plan_chain *chain, uint32_t from,
                            uint32_t to, bool gathered, struct chain_step *flushes)
{
    uint32_t count = 0;
    for (uint32_t i = from; i < to; i++) {
        if (chain->steps[i].is_wait)
            continue;
        const struct plan_unit *unit = &plan->units[chain->steps[i].unit];
        uint32_t j = 0;
        while (j < count && flushes[j].flush.peer != unit->link->peer)
            j++;
        if (j < count || (gathered && !unit->info.gathered))
            continue;
        flushes[count] =
            (struct chain_step){.kind = CHAIN_FLUSH,
                                .fence = count == 0,
                                .flush = {.driver = unit->driver, .peer = unit->link->peer}};
        count++;
    }
    return count;
}

/* A few bytes that nobody is notified of: somebody may look at them to see that what was put before
 * is there. */
static bool is_mark(const struct plan *plan, const struct plan_unit *unit)
{
    return plan->landed && unit->has_target && !unit->notify &&
           unit->source_layout->size_bytes <= MARK_BYTES_MAX;
}

/* Whether anything from step `from` on may land after the mark of step `to`. */
static bool mark_may_overtake(const struct plan *plan, const struct plan_chain *chain,
                              uint32_t from, uint32_t to)
{
    const struct plan_unit *mark = &plan->units[chain->steps[to].unit];
    bool ordered = engine_driver_caps(plan->tcad->engine, chain->rail)->ordered;
    for (uint32_t i = from; i < to; i++) {
        const struct plan_unit *before =
            chain->steps[i].is_wait ? NULL : &plan->units[chain->steps[i].unit];
        if (before && before->has_target &&
            (before->link != mark->link || !ordered || before->info.gathered))
            return true;
    }
    return false;
}

/* ---- chains ---- */

/* Step i of `from`, and the flushes and the call before it, into `steps`: how many these are, or a
 * negative errno. *first_loose is the first step that a mark may still overtake. */
static int prepare_step(struct plan *plan, const struct plan_chain *from, uint32_t i,
                        uint32_t *first_loose, struct chain_step *steps)
{
    const struct plan_step *step = &from->steps[i];
    struct session *session = plan->session;
    if (step->is_wait) {
        steps[0].kind = CHAIN_WAIT;
        steps[0].wait.line = notify_line_of(session->notify, step->rank, step->slot);
        steps[0].wait.taken =
            notify_taken_of(session->notify, session->sources, step->rank, step->slot);
        steps[0].wait.count = step->count;
        return 1;
    }
    struct plan_unit *unit = &plan->units[step->unit];
    uint32_t count = 0;
    int r = prepare_unit(plan, unit);
    if (r < 0)
        return r;
    unit->fence = needs_fence(plan, from, i);
    if (is_mark(plan, unit) && mark_may_overtake(plan, from, *first_loose, i)) {
        count = add_flushes(plan, from, *first_loose, i, true, steps);
        unit->fence = true;
        *first_loose = i;
    }
    if (unit->fetch
            .bounce) { /* its source was attached: its process copies that first (bounce.h) */
        steps[count].kind = CHAIN_CALL;
        steps[count].call.post = engine_fetch_post;
        steps[count++].call.context = &unit->fetch;
        unit->fence = true;
    }
    steps[count].kind = CHAIN_PUT;
    steps[count].fence = unit->fence;
    steps[count].put.driver = unit->driver;
    steps[count].put.put = unit->put;
    return (int)count + 1;
}

static int prepare_chain(struct plan *plan, struct plan_chain *from, struct chain **ret_chain)
{
    /* a put may have a call before it, and is flushed once for a mark behind it, and once at the
     * end */
    struct chain_step *steps =
        calloc((plan->landed ? 4 : 2) * (size_t)from->step_count, sizeof *steps);
    uint32_t count = 0, first_loose = 0;
    int r = 0;
    if (!steps)
        return plan_fail(plan, -ENOMEM, "no memory for a chain of %" PRIu32 " steps",
                         from->step_count);
    for (uint32_t i = 0; i < from->step_count && r >= 0; i++) {
        r = prepare_step(plan, from, i, &first_loose, steps + count);
        count += r > 0 ? (uint32_t)r : 0;
    }
    if (r >= 0) {
        if (plan->landed)
            count += add_flushes(plan, from, 0, from->step_count, false, steps + count);
        r = chain_new(steps, count, ret_chain);
        if (r < 0)
            plan_fail(plan, r, "no memory for a chain of %" PRIu32 " steps", from->step_count);
    }
    free(steps);
    return r;
}

static void count_descriptors(struct plan *plan)
{
    plan->run.descriptors = 0;
    for (uint32_t i = 0; i < plan->unit_count; i++)
        if (plan->units[i].put)
            plan->run.descriptors += plan->units[i].info.descriptors;
}

void plan_prepare(struct engine *engine, void *context)
{
    struct plan *plan = context;
    struct engine_plan *run = &plan->run;
    uint32_t made = 0;

    run->id = plan->id;
    run->channel = plan->channel;
    run->bytes = 0;
    for (uint32_t i = 0; i < plan->chain_count; i++) {
        if (plan->chains[i].seat == SEAT_CLIENT)
            continue;
        if (made == 0)
            run->rail = plan->chains[i].rail;
        run->bytes += plan->chains[i].bytes;
        if (!run->chains[made] && prepare_chain(plan, &plan->chains[i], &run->chains[made]) < 0)
            return;
        made++;
    }
    count_descriptors(plan);
    if (!plan->attached)
        engine_plan_attach(plan->session->engine, run);
    plan->attached = true;
}
