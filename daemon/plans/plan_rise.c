/*
 * Plans that are in tcad's seat only for want of a pair: there could be none when they were committed, as one of the
 * processes had as many as it may have, or did not answer; or the pair was given up. They are *below* the seat that they
 * want. While such a plan is started, tcad tries from time to time to bind it over a pair, beside its own bindings, and
 * takes starts meanwhile. When it is bound, its client gets what it needs to put by itself (PLAN_PAIRED), and moves up
 * between two starts, when all data of earlier ones has arrived: as in a trial of both seats (plan_seat.c), which may
 * follow.
 *
 * Only plans for which any seat will do, all of whose chains lead to pairs; not those that a trial has found to be faster
 * in tcad's seat.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/log.h"
#include "daemon/plans/pairs.h"
#include "daemon/plans/plan_internal.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"
#include "proto/wait.h"

/* Between attempts that fail. A pair that this node sees made or ended makes the next one due at once; others, it does not
 * hear of. */
#define INTERVAL_MIN_NS UINT64_C(100000000)
#define INTERVAL_MAX_NS UINT64_C(3200000000)

enum seat plan_wanted_seat(const struct plan *plan, const struct plan_chain *chain)
{
    return plan->below || plan->moves_up ? SEAT_CLIENT : chain->seat;
}

/* ---- falling ---- */

static void begin_waiting(struct plan *plan, const char *why)
{
    plan->below = true;
    plan->rise_ns = plan->rise_interval_ns = 0;
    plan->rise_starts = plan_starts(plan);
    snprintf(plan->below_why, sizeof plan->below_why, "%.255s", why);
}

void plan_note_below(struct plan *plan)
{
    for (uint32_t i = 0; i < plan->chain_count; i++)
        if (!plan->chains[i].direct)
            return;
    if (plan->tries && plan->part_count == 0 && plan->error != -EOPNOTSUPP)
        begin_waiting(plan, plan->error_text);
}

static void unbind(struct plan *plan)
{
    plan_unbind_direct(plan);
    for (uint32_t i = 0; i < plan->chain_count; i++) {
        plan->chains[i].direct = false;
        plan->chains[i].pair = 0;
    }
}

void plan_fall_below(struct plan *plan)
{
    if (!plan->both || plan->joining || plan->parting)
        return;
    const bool in_vain = plan->moves_up;
    unbind(plan);
    plan->both = plan->moves_up = false;
    begin_waiting(plan, in_vain ? "the data of its starts took too long to arrive, or the "
                                  "connection of the two processes was "
                                  "given up"
                                : "the connection of the two processes was given up");
    if (in_vain) {
        plan->rise_interval_ns = INTERVAL_MAX_NS;
        plan->rise_ns = clock_now_ns() + INTERVAL_MAX_NS;
    }
    plan_explain_seats(plan);
    if (plan->state == PLAN_READY) /* else when it is */
        plan_watch(plan);
}

/* ---- rising ---- */

static bool is_due(const struct plan *plan)
{
    return plan->below && plan_starts(plan) != plan->rise_starts && clock_now_ns() >= plan->rise_ns;
}

/* What this node can know. */
static bool has_room(const struct plan *plan)
{
    const uint32_t limit = plan->tcad->conf->limits.pairs_per_session;
    if (plan->session->pair_count < limit)
        return true;
    for (uint32_t i = 0; i < plan->unit_count; i++) {
        const struct plan_unit *unit = &plan->units[i];
        if (!pairs_exist(plan->tcad, plan->session_id, unit->node,
                         unit->owner ? unit->owner : unit->notify_session))
            return false;
    }
    return true;
}

bool plan_rise(struct plan *plan)
{
    if (!is_due(plan) || !has_room(plan))
        return false;
    for (uint32_t i = 0; i < plan->chain_count; i++)
        if (!plan_pair_rail(plan, &plan->chains[i]))
            return false;
    plan->rising = true;
    plan_enter(plan, PLAN_MOVE_BINDING);
    return true;
}

void plan_do_rise(struct plan *plan)
{
    plan->rise_starts = plan_starts(plan);
    for (uint32_t i = 0; i < plan->chain_count; i++) {
        plan->chains[i].direct = true;
        plan->chains[i].pair_rail = plan_pair_rail(plan, &plan->chains[i]);
    }
    plan_bind_both(plan);
}

bool plan_stays_below(const struct plan *plan)
{
    return plan->rising && plan->error < 0 && !plan->doomed;
}

static void stay(struct plan *plan)
{
    const uint64_t twice_ns = 2 * plan->rise_interval_ns;
    plan->rise_interval_ns = twice_ns < INTERVAL_MIN_NS   ? INTERVAL_MIN_NS
                             : twice_ns < INTERVAL_MAX_NS ? twice_ns
                                                          : INTERVAL_MAX_NS;
    plan->rise_ns = clock_now_ns() + plan->rise_interval_ns;
    plan->below = plan->error != -EOPNOTSUPP; /* which it would always be */
    snprintf(plan->below_why, sizeof plan->below_why, "%.255s", plan->error_text);
    log_debug(NULL, "plan %" PRIu64 ".%" PRIu32 " stays in tcad's seat: %s", plan->session_id,
              plan->id, plan->error_text);
    plan->error = 0;
    unbind(plan);
    plan_reply_free(plan);
}

/* They may have ended meanwhile. */
static bool has_pairs(const struct plan *plan)
{
    for (uint32_t i = 0; i < plan->chain_count; i++)
        if (!pair_find(plan->tcad, plan->chains[i].pair))
            return false;
    return true;
}

void plan_end_rise(struct plan *plan)
{
    free(plan->asks);
    plan->asks = NULL;
    if (plan->error == 0 && !has_pairs(plan))
        plan_fail(plan, -ENETDOWN, "the connection of the two processes could not be made");
    if (plan->error < 0) {
        stay(plan);
        return;
    }
    plan->below = false;
    plan->both = plan->moves_up = true;
    plan->tcad->risen++;
    log_debug(NULL, "plan %" PRIu64 ".%" PRIu32 " can move up to its client's seat",
              plan->session_id, plan->id);
    plan_reply(plan);
}

void plans_pairs_changed(struct tcad *tcad, uint64_t session_id)
{
    const struct session *session = session_find(tcad, session_id);
    for (struct plan *plan = session ? session->plan_list : NULL; plan;
         plan = plan->next_of_session)
        plan->rise_ns = plan->rise_interval_ns = 0;
}
