#include "daemon/plan.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/binding.h"
#include "daemon/log.h"
#include "daemon/region.h"
#include "daemon/session.h"
#include "daemon/tcad.h"
#include "proto/status.h"

static const char *const state_names[PLAN_STATES] = {
    [PLAN_NEW] = "new",
    [PLAN_BINDING] = "binding",
    [PLAN_REGISTERING] = "registering",
    [PLAN_PREPARING] = "preparing",
    [PLAN_READY] = "ready",
    [PLAN_BROKEN] = "broken",
    [PLAN_RELEASING] = "releasing",
    [PLAN_REBINDING] = "rebinding",
};

/* From (row) to: a bit per state. */
static const unsigned legal[PLAN_STATES] = {
    [PLAN_NEW] = 1u << PLAN_BINDING | 1u << PLAN_RELEASING,
    [PLAN_BINDING] = 1u << PLAN_REGISTERING | 1u << PLAN_READY | 1u << PLAN_RELEASING,
    [PLAN_REGISTERING] = 1u << PLAN_PREPARING | 1u << PLAN_BROKEN | 1u << PLAN_RELEASING,
    [PLAN_PREPARING] = 1u << PLAN_READY | 1u << PLAN_BROKEN | 1u << PLAN_RELEASING,
    [PLAN_READY] = 1u << PLAN_REBINDING | 1u << PLAN_BROKEN | 1u << PLAN_RELEASING,
    [PLAN_REBINDING] = 1u << PLAN_REGISTERING | 1u << PLAN_BROKEN | 1u << PLAN_RELEASING,
    [PLAN_BROKEN] = 1u << PLAN_RELEASING,
    [PLAN_RELEASING] = 0,
};

const char *plan_state_name(enum plan_state state)
{
    return state < PLAN_STATES ? state_names[state] : "?";
}

bool plan_state_legal(enum plan_state from, enum plan_state to)
{
    return from < PLAN_STATES && to < PLAN_STATES && (legal[from] & (1u << to));
}

void plan_set_state(struct plan *plan, enum plan_state state)
{
    assert(plan_state_legal(plan->state, state));
    plan->state = state;
}

int plan_fail(struct plan *plan, int error, const char *format, ...)
{
    if (plan->error == 0) { /* the first one counts */
        va_list arguments;
        plan->error = error;
        va_start(arguments, format);
        vsnprintf(plan->error_text, sizeof plan->error_text, format, arguments);
        va_end(arguments);
    }
    return error;
}

uint64_t plan_starts(const struct plan *plan)
{
    uint64_t daemon = atomic_load_explicit(&plan->run.starts, memory_order_relaxed), client = 0;
    if (plan->client_part)
        client = atomic_load_explicit(&plan->session->segment->client_starts[plan->id],
                                      memory_order_relaxed);
    return daemon > client ? daemon : client; /* one start runs both parts */
}

uint64_t plan_errors(const struct plan *plan)
{
    return atomic_load_explicit(&plan->run.errors, memory_order_relaxed);
}

void plans_each(const struct session *session, void (*each)(void *context, const struct plan *plan),
                void *context)
{
    for (uint32_t i = 0; session->plans && i < PLANS_PER_SESSION_MAX; i++)
        if (session->plans[i])
            each(context, session->plans[i]);
}

void plan_free(struct plan *plan)
{
    for (uint32_t i = 0; i < plan->unit_count; i++) {
        struct plan_unit *unit = &plan->units[i];
        if (unit->source)
            unit->source->puts_from--;
        region_unref(unit->source);
        region_unref(unit->region);
        if (unit->target_layout != unit->source_layout)
            free(unit->target_layout);
        free(unit->source_layout);
    }
    free(plan->chains);
    free(plan->steps);
    free(plan->units);
    free(plan);
}

/* ---- what plans depend on ---- */

static void tell_broken(struct plan *plan)
{
    Tca__Event event = TCA__EVENT__INIT;
    event.kind = TCA__EVENT__KIND__PLAN_BROKEN;
    event.plan = plan->id;
    event.status = status_to_wire(plan->error);
    event.text = plan->error_text;
    session_event(plan->session, &event);
}

static void broken_quiet(void *context)
{
    struct plan *plan = context;
    plan->pending--;
    plan_advance(plan);
}

void plan_break(struct plan *plan, int error, const char *text)
{
    if (plan->state == PLAN_BROKEN || plan->state == PLAN_RELEASING)
        return;
    plan_fail(plan, error, "plan %" PRIu32 " (%s): %s", plan->id,
              plan->name[0] ? plan->name : "unnamed", text);
    if (plan->state != PLAN_READY)
        return; /* its commit fails with this; or it is being re-bound, and breaks when that comes
                   to look */
    plan_end_starts(plan);
}

void plan_end_starts(struct plan *plan)
{
    plan_set_state(plan, PLAN_BROKEN);
    log_debug(NULL, "session %" PRIu64 ": %s", plan->session_id, plan->error_text);
    if (plan->session)
        tell_broken(plan);
    if (plan->attached) {
        plan->pending++;
        engine_plan_break(plan->session->engine, &plan->run, plan->error, broken_quiet, plan);
    }
}

static void each_plan(struct tcad *tcad, void (*each)(struct plan *plan, const void *what),
                      const void *what)
{
    for (struct session *session = tcad->sessions; session; session = session->next) {
        if (!session->plans || session->plan_count == 0)
            continue;
        for (uint32_t i = 0; i < PLANS_PER_SESSION_MAX; i++)
            if (session->plans[i])
                each(session->plans[i], what);
    }
}

struct loss {
    uint32_t node;
    uint64_t id;
    enum rail rail;
    int error;
};

static void lose_region(struct plan *plan, const void *what)
{
    const struct loss *loss = what;
    char text[128];
    for (uint32_t i = 0; i < plan->unit_count; i++) {
        const struct plan_unit *unit = &plan->units[i];
        if (!unit->has_target || unit->node != loss->node || unit->handle.region != loss->id)
            continue;
        snprintf(text, sizeof text,
                 "region %" PRIu64 " of node %" PRIu32 ", which it puts into, was freed", loss->id,
                 loss->node);
        plan_break(plan, -ESTALE, text);
        return;
    }
}

static bool waits_for(const struct plan *plan, uint32_t node, uint64_t session)
{
    const struct session_member *members = plan->session ? plan->session->members : NULL;
    for (uint32_t i = 0; members && i < plan->step_count; i++)
        if (plan->steps[i].is_wait && members[plan->steps[i].rank].node == node &&
            (session == 0 || members[plan->steps[i].rank].session == session))
            return true;
    return false;
}

static void lose_session(struct plan *plan, const void *what)
{
    const struct loss *loss = what;
    char text[128];
    bool needed = waits_for(plan, loss->node, loss->id);
    for (uint32_t i = 0; i < plan->unit_count && !needed; i++) {
        const struct plan_unit *unit = &plan->units[i];
        needed = unit->node == loss->node &&
                 (unit->notify_session == loss->id || unit->owner == loss->id);
    }
    if (!needed)
        return;
    snprintf(text, sizeof text,
             "session %" PRIu64 " of node %" PRIu32 ", which it needs, has ended", loss->id,
             loss->node);
    plan_break(plan, -EOWNERDEAD, text);
}

static void lose_node(struct plan *plan, const void *what)
{
    const struct loss *loss = what;
    char text[128];
    bool needed = waits_for(plan, loss->node, 0);
    for (uint32_t i = 0; i < plan->unit_count && !needed; i++)
        needed = plan->units[i].node == loss->node;
    if (!needed)
        return;
    snprintf(text, sizeof text, "node %" PRIu32 ", which it needs, is down", loss->node);
    plan_break(plan, -EHOSTDOWN, text);
}

static void lose_link(struct plan *plan, const void *what)
{
    const struct loss *loss = what;
    char text[128];
    bool used = false;
    for (uint32_t i = 0; i < plan->unit_count; i++) {
        struct plan_unit *unit = &plan->units[i];
        if (unit->node != loss->node || !unit->link || unit->link->rail != loss->rail)
            continue;
        unit->lost |= 1u << loss->rail;
        unit->back &= ~(1u << loss->rail);
        used = true;
    }
    if (!used || plan->state == PLAN_REBINDING || (plan->committed && plan->state < PLAN_READY))
        return; /* it will see for itself */
    if (plan->state == PLAN_READY) {
        plan_rebind(plan, loss->error);
        return;
    }
    snprintf(text, sizeof text, "rail %s to node %" PRIu32 " was lost", rail_name(loss->rail),
             loss->node);
    plan_break(plan, loss->error, text);
}

void plans_region_gone(struct region *region)
{
    each_plan(region->tcad, lose_region,
              &(struct loss){.node = region->tcad->node, .id = region->id});
    bindings_region_gone(region->tcad, region);
}

void plans_remote_region_gone(struct tcad *tcad, uint32_t node, uint64_t region)
{
    each_plan(tcad, lose_region, &(struct loss){.node = node, .id = region});
}

void plans_session_gone(struct tcad *tcad, uint32_t node, uint64_t session)
{
    each_plan(tcad, lose_session, &(struct loss){.node = node, .id = session});
}

void plans_node_gone(struct tcad *tcad, uint32_t node)
{
    each_plan(tcad, lose_node, &(struct loss){.node = node});
}

void plans_link_gone(struct tcad *tcad, uint32_t node, enum rail rail, int error)
{
    each_plan(tcad, lose_link, &(struct loss){.node = node, .rail = rail, .error = error});
}
