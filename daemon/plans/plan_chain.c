/* Compiles a chain of a plan for the engine: its puts, its waits, and what must precede them. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/engine/engine.h"
#include "daemon/plans/order.h"
#include "daemon/plans/plan_internal.h"
#include "daemon/plans/plan_preparing.h"
#include "daemon/plans/plan_stripe.h"
#include "daemon/rails/rails.h"
#include "daemon/sessions/region.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"

static int prepare_unit(struct plan_preparing *preparing, struct plan_unit *unit)
{
    struct plan *plan = preparing->plan;
    const unsigned rail = unit->link->rail;
    const struct landing_blob *blob = plan_blob(plan, unit, rail);
    struct driver_put_args args = {
        .peer = unit->link->peer,
        .flow = plan_flow(plan->session_id, plan->channel),
        .region = unit->source ? unit->source->on[rail] : NULL,
        .offset_bytes = unit->source_offset,
        .layout = unit->source_layout,
        .program = preparing->programs ? &preparing->programs[unit - plan->units] : NULL,
        .landing = blob->blob,
        .landing_bytes = blob->bytes,
        .target_layout = unit->target_layout,
        .combine = unit->combine,
        .type = unit->type,
        .parts = unit->parts || unit->part_bytes > 0,
    };
    int r = unit->driver->ops->put_prepare(unit->driver, &args, &unit->put, &unit->info);
    if (r < 0)
        return plan_fail(plan, r, "rail %s cannot carry a put to node %" PRIu32 ": %s",
                         rail_name(plan->tcad, rail), unit->node, strerror(-r));
    if (unit->part_bytes > 0)
        unit->driver->ops->put_part(unit->driver, unit->put,
                                    &(struct driver_part){.source_at_bytes = unit->part_at,
                                                          .target_at_bytes = unit->part_at,
                                                          .bytes = unit->part_bytes});
    plan->run.descriptors += unit->info.descriptors;
    plan->prepared_bytes += unit->info.memory_bytes;
    return 0;
}

/* Room for `count` more; NULL: out of memory. */
static struct chain_step *more_steps(struct plan_preparing *preparing, uint32_t count)
{
    if (preparing->count + count > preparing->room) {
        const uint32_t room = 2 * preparing->room + count;
        struct chain_step *steps = reallocarray(preparing->steps, room, sizeof *steps);
        if (!steps) {
            preparing->error = -ENOMEM;
            return NULL;
        }
        preparing->steps = steps;
        preparing->room = room;
    }
    return preparing->steps + preparing->count;
}

static void add_step(struct plan_preparing *preparing, const struct chain_step *step)
{
    struct chain_step *added = more_steps(preparing, 1);
    if (!added)
        return;
    *added = *step;
    preparing->count++;
}

/* ---- remote completion ---- */

/* Adds a flush of this unit's link after all steps so far. The flushes since `first` run together,
 * one for each link. */
static void add_flush_of(struct plan_preparing *preparing, uint32_t first,
                         const struct plan_unit *unit)
{
    for (uint32_t i = first; i < preparing->count; i++)
        if (preparing->steps[i].flush.peer == unit->link->peer)
            return;
    add_step(preparing, &(struct chain_step){.kind = CHAIN_FLUSH,
                                             .fence = preparing->count == first,
                                             .flush = {unit->driver, unit->link->peer}});
}

/* The same, with the links of its stripes. */
static void add_flush(struct plan_preparing *preparing, uint32_t first,
                      const struct plan_unit *unit)
{
    add_flush_of(preparing, first, unit);
    for (uint32_t k = 0; k < plan_stripe_count(preparing->plan, unit); k++)
        add_flush_of(preparing, first, plan_stripe(preparing->plan, unit, k));
}

/* Flushes the links of steps `from` to `to`: all, or those with puts that an ordered one may overtake, which are
 * scattered by the target's daemon or go over another link. */
static void add_flushes(struct plan_preparing *preparing, uint32_t from, uint32_t to,
                        const struct plan_unit *ordered)
{
    const uint32_t first = preparing->count;
    for (uint32_t i = from; i < to; i++) {
        if (preparing->from->steps[i].is_wait)
            continue;
        const struct plan_unit *unit = &preparing->plan->units[preparing->from->steps[i].unit];
        if (!ordered || (unit->has_target && (unit->link != ordered->link || unit->info.gathered)))
            add_flush(preparing, first, unit);
    }
}

static void note_loose(struct loose *loose, const struct plan_unit *unit)
{
    if (!unit->has_target)
        return;
    loose->several |= (loose->link && loose->link != unit->link) || unit->part_bytes > 0;
    loose->link = unit->link;
    loose->gathered |= unit->info.gathered;
}

static bool may_overtake(const struct plan_preparing *preparing, const struct plan_unit *ordered)
{
    const struct loose *loose = &preparing->loose;
    return loose->link && (loose->several || loose->link != ordered->link || loose->gathered ||
                           !preparing->ordered);
}

static void prepare_wait(struct plan_preparing *preparing, const struct plan_step *step)
{
    struct session *session = preparing->plan->session;
    add_step(preparing,
             &(struct chain_step){
                 .kind = CHAIN_WAIT,
                 .gone = &step->gone,
                 .wait = {.line = notify_line_of(session->notify, step->rank, step->slot),
                          .taken = notify_taken_of(session->notify, session->sources, step->rank,
                                                   step->slot),
                          .count = step->count,
                          .may_take = engine_plan_may_take,
                          .context = &preparing->plan->run}});
}

/* ---- chains: what precedes a step ---- */

/* Everything before this step becomes complete remotely. */
static void flush(struct plan_preparing *preparing, uint32_t step)
{
    const uint32_t before = preparing->count;
    add_flushes(preparing, preparing->flushed, step, NULL);
    preparing->loose = (struct loose){.first = step};
    preparing->own = NULL;
    preparing->flushed = step;
    preparing->flushing |= preparing->count > before;
}

/* Makes the step wait until the data that it reads or overwrites is complete at the target. Stripes of one put may be
 * on other rails than those of another, which it overwrites as well. */
static void follow(struct plan_preparing *preparing, uint32_t step, const struct plan_unit *unit)
{
    const struct plan *plan = preparing->plan;
    const uint32_t first = preparing->count;
    for (int i = 0; i < 2; i++) {
        const uint32_t landed = unit->order.landed[i];
        if (landed == ORDER_NOTHING || landed < preparing->flushed)
            continue;
        const struct plan_unit *other = &plan->units[preparing->from->steps[landed].unit];
        if (plan_stripe_count(plan, other) > 0)
            flush(preparing, step);
        else
            add_flush(preparing, first, other);
    }
}

/* Adds what must precede the put of this step. */
static void prepare_order(struct plan_preparing *preparing, uint32_t step, struct plan_unit *unit)
{
    follow(preparing, step, unit);
    if (unit->ordered && may_overtake(preparing, unit)) {
        add_flushes(preparing, preparing->loose.first, step, unit);
        unit->fence = true;
        preparing->loose = (struct loose){.first = step};
    }
    unit->fence |= preparing->flushing;
    preparing->flushing = false;
}

/* Whether it puts into memory of its own session. */
static bool is_own(const struct plan_preparing *preparing, const struct plan_unit *unit)
{
    return unit->has_target && unit->owner == preparing->plan->session_id &&
           unit->node == preparing->plan->tcad->node;
}

static void note_own(struct plan_preparing *preparing, const struct plan_unit *unit)
{
    if (is_own(preparing, unit) && !unit->combine)
        preparing->own = unit;
}

/* ---- chains: stripes ---- */

/* What a notification or an ordered put makes visible may be on several rails. */
static bool needs_stripes(const struct plan_preparing *preparing, const struct plan_unit *unit)
{
    return (preparing->striped || unit->part_bytes > 0) && (unit->notify || unit->ordered);
}

static int prepare_stripes(struct plan_preparing *preparing, const struct plan_unit *unit)
{
    struct plan *plan = preparing->plan;
    int r = 0;
    for (uint32_t k = 0; r == 0 && k < plan_stripe_count(plan, unit); k++)
        r = prepare_unit(preparing, plan_stripe(plan, unit, k));
    preparing->striped |= unit->part_bytes > 0;
    return r;
}

static void add_put(struct plan_preparing *preparing, const struct plan_unit *unit, bool fence)
{
    add_step(preparing, &(struct chain_step){.kind = CHAIN_PUT,
                                             .fence = fence,
                                             .gone = &unit->gone,
                                             .put = {unit->driver, unit->put}});
}

static void add_puts(struct plan_preparing *preparing, const struct plan_unit *unit)
{
    const struct plan *plan = preparing->plan;
    add_put(preparing, unit, unit->fence);
    for (uint32_t k = 0; k < plan_stripe_count(plan, unit); k++)
        add_put(preparing, plan_stripe(plan, unit, k), false);
}

/* Later starts of the channel are posted behind the last step, whose fence waits until the flushes
 * are complete: their notifications do not overtake a stripe. */
static void settle_stripes(struct plan_preparing *preparing)
{
    flush(preparing, preparing->from->step_count);
    add_step(preparing, &(struct chain_step){.kind = CHAIN_FENCE, .fence = true});
}

/* ---- chains: a step, and the end ---- */

int plan_prepare_step(struct plan_preparing *preparing, uint32_t i)
{
    struct plan *plan = preparing->plan;
    const struct plan_step *step = &preparing->from->steps[i];
    if (step->is_wait) {
        prepare_wait(preparing, step);
        if (step->flush)
            flush(preparing, i + 1);
        return 0;
    }
    struct plan_unit *unit = &plan->units[step->unit];
    int r = prepare_unit(preparing, unit);
    if (r < 0)
        return r;
    if (needs_stripes(preparing, unit))
        flush(preparing, i);
    r = prepare_stripes(preparing, unit);
    if (r < 0)
        return r;
    prepare_order(preparing, i, unit);
    note_loose(&preparing->loose, unit);
    note_own(preparing, unit);
    add_puts(preparing, unit);
    if (step->flush)
        flush(preparing, i + 1);
    return 0;
}

void plan_prepare_end(struct plan_preparing *preparing)
{
    if (preparing->striped)
        settle_stripes(preparing);
    if (preparing->own && preparing->from->bound.rail != RAIL_SHM)
        add_flush(preparing, preparing->count, preparing->own);
}
