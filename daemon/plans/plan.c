#include "daemon/plans/plan_internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/log.h"
#include "daemon/bindings/binding.h"
#include "daemon/rails/rails.h"
#include "daemon/sessions/client_request.h"
#include "daemon/sessions/region.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"
#include "proto/list.h"
#include "proto/status.h"

int plan_fail(struct plan *plan, int error, const char *format, ...)
{
    struct plan_attempt *attempt = &plan->attempt;
    int none = 0;
    /* The first one counts. relaxed: the loop reads the text when nothing is pending on another
     * thread. */
    if (atomic_compare_exchange_strong_explicit(&attempt->error, &none, error, memory_order_relaxed,
                                                memory_order_relaxed)) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(attempt->text, sizeof(attempt->text), format, arguments);
        va_end(arguments);
    }
    return error;
}

void plan_begin_attempt(struct plan *plan)
{
    plan->attempt.error = 0;
    plan->attempt.text[0] = '\0';
}

/* The first one counts. */
static void end_with(struct plan *plan, int error, const char *text)
{
    if (plan->error < 0)
        return;
    snprintf(plan->error_text, sizeof(plan->error_text), "%s", text);
    plan->error = error;
}

void plan_end_with_attempt(struct plan *plan)
{
    end_with(plan, plan->attempt.error, plan->attempt.text);
}

int plan_fail_transfer(struct plan *plan, const struct plan_transfer *transfer, int error,
                       const char *text)
{
    if (plan->chain_count > 1)
        return plan_fail(plan, error, "chain %" PRIu32 ", step %" PRIu32 ": %s", transfer->chain,
                         transfer->step, text);
    return plan_fail(plan, error, "step %" PRIu32 ": %s", transfer->step, text);
}

/* Some chain is in the client's seat, or there is none. */
static bool has_client_part(const struct plan *plan)
{
    return plan->chain_count == 0 || plan->seats & SEAT_BIT(SEAT_CLIENT) ||
           plan->run.chain_count < plan->chain_count;
}

uint64_t plan_starts(const struct plan *plan)
{
    uint64_t daemon = atomic_load_explicit(&plan->run.starts, memory_order_relaxed), client = 0;
    if (plan->state >= PLAN_READY && has_client_part(plan))
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
    for (const struct plan *plan = session->plan_list; plan; plan = plan->next_of_session)
        each(context, plan);
}

struct landing_blob *plan_blob(const struct plan *plan, const struct plan_transfer *transfer,
                               unsigned rail)
{
    const struct plan_transfer *bound = transfer->of ? transfer->of : transfer;
    return &plan->blobs[(size_t)(bound - plan->transfers) * plan->tcad->rails->last + rail - 1];
}

void plan_transfer_free(struct plan_transfer *transfer)
{
    if (transfer->source)
        transfer->source->puts_from--;
    region_unref(transfer->source);
    region_unref(transfer->region);
    if (!transfer->of) {
        if (transfer->target_layout != transfer->source_layout)
            free(transfer->target_layout);
        free(transfer->source_layout);
    }
    transfer->has_target = false;
    transfer->source = transfer->region = NULL;
    transfer->source_layout = transfer->target_layout = NULL;
}

void plan_free(struct plan *plan)
{
    plan_use_less(plan, UINT32_MAX);
    for (uint32_t i = 0; i < plan->transfer_count; i++)
        plan_transfer_free(&plan->transfers[i]);
    for (uint32_t i = 0; i < plan->step_count; i++)
        if (plan->steps[i].counter)
            plan->steps[i].counter->puts_from--;
    for (uint32_t i = 0; i < plan->step_count; i++)
        region_unref(plan->steps[i].counter);
    free(plan->chains);
    free(plan->steps);
    free(plan->transfers);
    free(plan->blobs);
    free(plan->collective);
    free(plan->asks);
    plan_reply_free(plan);
    if (plan->request)
        client_request_free(plan->request);
    charge_drop(&plan->charge);
    free(plan);
}

/* ---- what plans depend on ---- */

static void tell_now(struct plan *plan)
{
    Tca__Event event = BODY_OF(event, .kind = TCA__EVENT__KIND__PLAN_BROKEN, .plan = plan->id,
                               .status = status_to_wire(plan->error), .text = plan->error_text,
                               .lost = plan->lossy);
    session_event(plan->session, &event);
}

void plan_reported(struct plan *plan)
{
    if (!plan->unreported_link)
        return;
    LIST_REMOVE(plan, next_unreported, unreported_link);
}

/* The client has read what was queued for it, or has ended. */
static void report_broken(void *context)
{
    struct session *session = context;
    while (session->unreported_plans && session_backlog(session) == 0) {
        struct plan *plan = session->unreported_plans;
        plan_reported(plan);
        tell_now(plan);
    }
    if (!session->unreported_plans || !session_await_reader(session, &session->unreported_wait)) {
        session->telling_plans = false;
        session_unnotified(session);
    }
}

/* As fast as the client reads: thousands of plans may break at once, while it computes. */
static void tell_broken(struct plan *plan)
{
    struct session *session = plan->session;
    if (session_backlog(session) == 0) {
        tell_now(plan);
        return;
    }
    LIST_ADD(&session->unreported_plans, plan, next_unreported, unreported_link);
    if (session->telling_plans)
        return;
    session->telling_plans = true;
    session->notified_by++; /* dropped by report_broken() */
    session->unreported_wait = (struct client_wait){.drained = report_broken, .context = session};
    session_await_reader(session, &session->unreported_wait);
}

void plan_do_break(struct plan *plan)
{
    log_debug(NULL, "plan %" PRIu64 ".%" PRIu32 " (%s): %s", plan->session_id, plan->id,
              plan->name[0] ? plan->name : "unnamed", plan->error_text);
    tell_broken(plan);
    if (!plan_attached(plan))
        return;
    plan->pending++;
    engine_plan_break(plan->session->engine, &plan->run, plan->error, plan_done, plan);
}

struct engine *plan_engine(const struct plan *plan)
{
    return engine_of_session(plan->session->engine);
}

void plan_break(struct plan *plan, int error, const char *text)
{
    if (plan->state == PLAN_BREAKING)
        engine_plan_lose(plan->session->engine, &plan->run, error);
    if (plan->state >= PLAN_BREAKING)
        return;
    end_with(plan, error, text);
    plan_advance(plan);
}
