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

/* Puts of a chain so far: what may still be under way, and on which links. */
struct puts {
    const struct link *link; /* of the first; NULL: there are none */
    bool several;            /* links */
    bool gathered;           /* some of them */
};

static void note_put(struct puts *puts, const struct plan_unit *unit)
{
    if (!unit->has_target)
        return;
    puts->several |= puts->link && puts->link != unit->link;
    puts->link = puts->link ? puts->link : unit->link;
    puts->gathered |= unit->info.gathered;
}

/* Whether some of them go another way than the unit, or that way keeps no order. */
static bool may_overtake(const struct plan *plan, const struct plan_chain *chain,
                         const struct puts *puts, const struct plan_unit *unit)
{
    return puts->link && (puts->several || puts->link != unit->link ||
                          !engine_driver_caps(plan->tcad->engine, chain->rail)->ordered);
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

/* ---- chains ---- */

/* Puts into memory that its process has attached, which may not be there although they have landed.
 */
struct unsettled {
    uint32_t first;                /* step of the chain */
    const struct plan_unit *put;   /* one of them; NULL: there are none */
    bool several;                  /* owners */
    uint64_t own_address, own_end; /* what of this very process's memory they lie in */
};

struct preparing {
    struct plan *plan;
    const struct plan_chain *from;
    struct chain_step *steps;
    uint32_t count;       /* of them so far */
    uint32_t first_loose; /* of the chain, that a mark may still overtake */
    struct puts puts, loose;
    struct unsettled unsettled;
    uint32_t fetched; /* of the chain: the sources of those before are asked for */
    bool fetching;    /* and no put has waited for them yet */
};

static void prepare_wait(struct preparing *preparing, const struct plan_step *step)
{
    struct session *session = preparing->plan->session;
    struct chain_step *wait = &preparing->steps[preparing->count++];
    wait->kind = CHAIN_WAIT;
    wait->wait.line = notify_line_of(session->notify, step->rank, step->slot);
    wait->wait.taken = notify_taken_of(session->notify, session->sources, step->rank, step->slot);
    wait->wait.count = step->count;
    wait->gone = &step->gone;
}

/* ---- chains: memory that processes have attached (bounce.h) ---- */

static void note_unsettled(struct preparing *preparing, const struct plan_unit *unit)
{
    struct unsettled *unsettled = &preparing->unsettled;
    if (!unit->has_target || !unit->attached)
        return;
    if (!unsettled->put)
        unsettled->put = unit;
    unsettled->several |= !plan_same_owner(unsettled->put, unit);
    if (!unit->region || unit->owner != preparing->plan->session_id)
        return;
    const uint64_t base = unit->region->address + unit->handle.offset_bytes + unit->target_offset;
    const uint64_t address = base + (uint64_t)unit->target_layout->lower_bytes,
                   end = base + (uint64_t)unit->target_layout->upper_bytes;
    const bool first = unsettled->own_end == 0;
    unsettled->own_address =
        first || address < unsettled->own_address ? address : unsettled->own_address;
    unsettled->own_end = end > unsettled->own_end ? end : unsettled->own_end;
}

static bool needs_settling(const struct preparing *preparing, const struct plan_unit *unit)
{
    const struct unsettled *unsettled = &preparing->unsettled;
    return unsettled->put && (unit->notify || is_mark(preparing->plan, unit)) &&
           (unsettled->several || plan_needs_settling(unsettled->put, unit));
}

static void settle(struct preparing *preparing, uint32_t step)
{
    struct plan *plan = preparing->plan;
    const uint32_t first = preparing->unsettled.first;
    preparing->count +=
        add_flushes(plan, preparing->from, first, step, false, preparing->steps + preparing->count);
    preparing->count +=
        plan_settle(plan, preparing->from, first, step, preparing->steps + preparing->count);
    preparing->unsettled = (struct unsettled){.first = step};
    preparing->first_loose = step;
    preparing->loose = (struct puts){0};
}

/* Whether its source, which is attached, may be what the chain has just put there. */
static bool is_fed(const struct preparing *preparing, const struct plan_unit *unit)
{
    const struct unsettled *unsettled = &preparing->unsettled;
    if (unsettled->own_end == 0)
        return false;
    const uint64_t base = unit->source->address + unit->source_offset;
    return base + (uint64_t)unit->source_layout->lower_bytes < unsettled->own_end &&
           base + (uint64_t)unit->source_layout->upper_bytes > unsettled->own_address;
}

/* The sources of as many steps as can be had now are asked for at once, for each takes its time. */
static void fetch(struct preparing *preparing, uint32_t step)
{
    const struct plan_chain *from = preparing->from;
    struct plan_unit *units = preparing->plan->units;
    bool fence = false;
    if (step < preparing->fetched)
        return;
    if (units[from->steps[step].unit].fetch.bounce &&
        is_fed(preparing, &units[from->steps[step].unit])) {
        settle(preparing, step);
        fence = true;
    }
    struct preparing ahead = *preparing; /* as if what is in between were put already */
    uint32_t i = step;
    for (; i < from->step_count && !from->steps[i].is_wait; i++) {
        struct plan_unit *unit = &units[from->steps[i].unit];
        if (unit->fetch.bounce && is_fed(&ahead, unit))
            break;
        note_unsettled(&ahead, unit);
        if (!unit->fetch.bounce)
            continue;
        struct chain_step *call = &preparing->steps[preparing->count++];
        call->kind = CHAIN_CALL;
        call->fence = fence;
        fence = false;
        call->call.post = engine_fetch_post;
        call->call.context = &unit->fetch;
        preparing->fetching = true;
    }
    preparing->fetched = i;
}

/* ---- chains: a step ---- */

/* What has to be over before the put of this step. */
static void prepare_order(struct preparing *preparing, uint32_t step, struct plan_unit *unit)
{
    struct plan *plan = preparing->plan;
    /* A notification must not overtake data that went another way before it. */
    unit->fence = unit->notify && may_overtake(plan, preparing->from, &preparing->puts, unit);
    fetch(preparing, step);
    if (unit->fetch.bounce && preparing->fetching) {
        unit->fence = true;
        preparing->fetching = false;
    }
    if (needs_settling(preparing, unit)) {
        settle(preparing, step);
        unit->fence = true;
    } else if (is_mark(plan, unit) &&
               (preparing->loose.gathered ||
                may_overtake(plan, preparing->from, &preparing->loose, unit))) {
        preparing->count += add_flushes(plan, preparing->from, preparing->first_loose, step, true,
                                        preparing->steps + preparing->count);
        unit->fence = true;
        preparing->first_loose = step;
        preparing->loose = (struct puts){0};
    }
}

static int prepare_step(struct preparing *preparing, uint32_t i)
{
    struct plan *plan = preparing->plan;
    const struct plan_step *step = &preparing->from->steps[i];
    if (step->is_wait) {
        prepare_wait(preparing, step);
        return 0;
    }
    struct plan_unit *unit = &plan->units[step->unit];
    int r = prepare_unit(plan, unit);
    if (r < 0)
        return r;
    prepare_order(preparing, i, unit);
    note_unsettled(preparing, unit);
    note_put(&preparing->puts, unit);
    note_put(&preparing->loose, unit);
    struct chain_step *put = &preparing->steps[preparing->count++];
    put->kind = CHAIN_PUT;
    put->fence = unit->fence;
    put->put.driver = unit->driver;
    put->put.put = unit->put;
    put->gone = &unit->gone;
    return 0;
}

static void prepare_end(struct preparing *preparing)
{
    struct plan *plan = preparing->plan;
    const struct plan_chain *from = preparing->from;
    preparing->count +=
        add_flushes(plan, from, 0, from->step_count, false, preparing->steps + preparing->count);
    preparing->count += plan_settle(plan, from, preparing->unsettled.first, from->step_count,
                                    preparing->steps + preparing->count);
}

static int prepare_chain(struct plan *plan, struct plan_chain *from, struct chain **ret_chain)
{
    /* a put may have a call before it, is asked for once for a mark behind it and, with a call,
     * once for a notification, and all that once more at the end */
    struct chain_step *steps =
        calloc((plan->landed ? 7 : 4) * (size_t)from->step_count, sizeof *steps);
    struct preparing preparing = {.plan = plan, .from = from, .steps = steps};
    int r = 0;
    if (!steps)
        return plan_fail(plan, -ENOMEM, "no memory for a chain of %" PRIu32 " steps",
                         from->step_count);
    for (uint32_t i = 0; i < from->step_count && r == 0; i++)
        r = prepare_step(&preparing, i);
    if (r == 0) {
        if (plan->landed)
            prepare_end(&preparing);
        r = chain_new(steps, preparing.count, ret_chain);
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
