/* PREPARING: compiles the puts, makes the chains, and attaches the plan to the engine, in slices on its thread, because a
 * plan can have 65,536 puts. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "daemon/plans/parts.h"
#include "daemon/plans/plan_preparing.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"

/* ---- on the engine ---- */

static void begin_chain(struct plan_preparing *preparing, const struct plan_chain *from)
{
    free(preparing->steps);
    *preparing = (struct plan_preparing){
        .plan = preparing->plan,
        .programs = preparing->programs,
        .chain = preparing->chain,
        .made = preparing->made,
        .from = from,
        .ordered = engine_driver_caps(preparing->plan->tcad->engine, from->bound.rail)->ordered};
}

/* Returns false if the slice is over. */
static bool compile(struct engine *engine, struct plan_preparing *preparing)
{
    while (preparing->next < preparing->from->step_count) {
        if (plan_prepare_step(preparing, preparing->next++) < 0)
            return true;
        if (engine_slice_over(engine))
            return false;
    }
    plan_prepare_end(preparing);
    return true;
}

enum { COPY_STEPS = 256 }; /* between two checks of the clock */

/* Returns false if the slice is over. */
static bool copy_steps(struct engine *engine, struct plan_preparing *preparing)
{
    while (preparing->copied < preparing->count) {
        const uint32_t left = preparing->count - preparing->copied;
        const uint32_t count = left < COPY_STEPS ? left : COPY_STEPS;
        chain_set(preparing->new_chain, preparing->copied, &preparing->steps[preparing->copied],
                  count);
        preparing->copied += count;
        if (engine_slice_over(engine))
            return false;
    }
    return true;
}

/* Returns false if the slice is over. A failure is in plan->attempt. */
static bool prepare_chain(struct engine *engine, struct plan_preparing *preparing)
{
    struct plan *plan = preparing->plan;
    if (!preparing->new_chain) {
        if (!compile(engine, preparing))
            return false;
        int r = preparing->error;
        if (r == 0 && plan_works(plan))
            r = chain_new_empty(preparing->count, &preparing->new_chain);
        if (r < 0)
            plan_fail(plan, r, "out of memory for a chain of %" PRIu32 " steps",
                      preparing->from->step_count);
        if (!plan_works(plan))
            return true;
    }
    if (!copy_steps(engine, preparing))
        return false;
    plan->run.chains[preparing->made] = preparing->new_chain;
    preparing->new_chain = NULL;
    return true;
}

/* The next chain that the daemon runs and that is not there yet; NULL: none. */
static const struct plan_chain *next_chain(struct plan_preparing *preparing)
{
    struct plan *plan = preparing->plan;
    for (; preparing->chain < plan->chain_count; preparing->chain++) {
        if (plan->chains[preparing->chain].bound.seat == SEAT_CLIENT)
            continue;
        if (!plan->run.chains[preparing->made])
            return &plan->chains[preparing->chain];
        preparing->made++;
    }
    return NULL;
}

static enum encryption find_encryption(const struct plan *plan)
{
    enum encryption highest = ENCRYPTION_LOCAL;
    for (uint32_t i = 0; i < plan->unit_count; i++) {
        const struct link *link = plan->units[i].link;
        if (link && link_encryption(link) > highest)
            highest = link_encryption(link);
    }
    return highest;
}

static void prepare_run(struct plan *plan)
{
    struct engine_plan *run = &plan->run;
    bool first = true;
    run->id = plan->id;
    run->channel = plan->channel;
    run->repeat = plan->repeat;
    run->bytes = 0;
    run->encryption = find_encryption(plan);
    for (uint32_t i = 0; i < plan->chain_count; i++) {
        if (plan->chains[i].bound.seat == SEAT_CLIENT)
            continue;
        if (first)
            run->rail = plan->chains[i].bound.rail;
        first = false;
        run->bytes += plan->chains[i].bytes;
    }
}

static bool prepare_some(struct engine *engine, void *context)
{
    struct plan_preparing *preparing = context;
    struct plan *plan = preparing->plan;
    const struct plan_chain *from;
    while (plan_works(plan) && (from = next_chain(preparing))) {
        if (preparing->from != from)
            begin_chain(preparing, from);
        if (!prepare_chain(engine, preparing))
            return true;
    }
    if (!plan_works(plan))
        return false;
    prepare_run(plan);
    if (parts_prepare(plan) < 0)
        return false;
    if (!plan_attached(plan))
        engine_plan_attach(plan->session->engine, &plan->run);
    return false;
}

/* ---- on the loop ---- */

/* Charges the memory that drivers hold for its puts, which is known only after they are prepared. */
int plan_charge_puts(struct plan *plan)
{
    char text[512];
    const uint64_t bytes = plan->prepared_bytes;
    int r = 0;
    if (bytes > plan->put_bytes)
        r = charge_take(plan->tcad, &plan->charge, plan->session->uid, USER_PLANS,
                        bytes - plan->put_bytes, "a plan", text, sizeof text);
    else
        charge_lower(&plan->charge, plan->put_bytes - bytes);
    if (r < 0)
        return plan_fail(plan, r, "%s", text);
    plan->put_bytes = bytes;
    return 0;
}

static void prepared(void *context)
{
    struct plan_preparing *preparing = context;
    struct plan *plan = preparing->plan;
    chain_free(preparing->new_chain);
    free(preparing->steps);
    plan_compile_free(preparing);
    free(preparing);
    if (plan_works(plan))
        plan_charge_puts(plan);
    plan->pending--;
    plan_advance(plan);
}

static void prepare(struct plan_preparing *preparing)
{
    engine_job_quiet(preparing->plan->tcad->engine, &preparing->plan->call, prepare_some, prepared,
                     preparing);
}

void plan_do_prepare(struct plan *plan)
{
    struct plan_preparing *preparing = calloc(1, sizeof(*preparing));
    if (!preparing) {
        plan_fail(plan, -ENOMEM, "out of memory for %" PRIu32 " chains", plan->chain_count);
        return;
    }
    preparing->plan = plan;
    plan->pending++;
    if (!plan_compile(preparing, prepare))
        prepare(preparing);
}
