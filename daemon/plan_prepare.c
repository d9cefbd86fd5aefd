/* PREPARING, on the engine: puts are compiled, chains made of them, and the engine told of the plan. */
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
        return plan_fail(plan, r, "rail %s cannot carry a put to node %" PRIu32 ": %s", rail_name(rail), unit->node,
                         strerror(-r));
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
        const struct plan_unit *before = chain->steps[i].is_wait ? NULL : &plan->units[chain->steps[i].unit];
        if (before && before->has_target && (before->link != unit->link || !ordered))
            return true;
    }
    return false;
}

/* Asks every link of the chain, at its end and once all is done here, whether it has landed. Returns how many steps these are. */
static uint32_t add_flushes(const struct plan *plan, const struct plan_chain *chain, struct chain_step *flushes)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < chain->step_count; i++) {
        if (chain->steps[i].is_wait)
            continue;
        const struct plan_unit *unit = &plan->units[chain->steps[i].unit];
        uint32_t j = 0;
        while (j < count && flushes[j].flush.peer != unit->link->peer)
            j++;
        if (j < count)
            continue;
        flushes[count] = (struct chain_step){
            .kind = CHAIN_FLUSH, .fence = count == 0, .flush = {.driver = unit->driver, .peer = unit->link->peer}};
        count++;
    }
    return count;
}

static int prepare_chain(struct plan *plan, struct plan_chain *from, struct chain **ret_chain)
{
    struct session *session = plan->session;
    uint32_t count = from->step_count;
    struct chain_step *steps = calloc(plan->landed ? 2 * count : count, sizeof *steps);
    if (!steps)
        return plan_fail(plan, -ENOMEM, "no memory for a chain of %" PRIu32 " steps", from->step_count);
    int r = 0;
    for (uint32_t i = 0; i < from->step_count && r == 0; i++) {
        const struct plan_step *step = &from->steps[i];
        if (step->is_wait) {
            steps[i].kind = CHAIN_WAIT;
            steps[i].wait.line = notify_line_of(session->notify, step->rank, step->slot);
            steps[i].wait.taken = notify_taken_of(session->notify, session->sources, step->rank, step->slot);
            steps[i].wait.count = step->count;
            continue;
        }
        struct plan_unit *unit = &plan->units[step->unit];
        r = prepare_unit(plan, unit);
        steps[i].kind = CHAIN_PUT;
        steps[i].fence = unit->fence = needs_fence(plan, from, i);
        steps[i].put.driver = unit->driver;
        steps[i].put.put = unit->put;
    }
    if (r == 0) {
        if (plan->landed)
            count += add_flushes(plan, from, steps + count);
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
