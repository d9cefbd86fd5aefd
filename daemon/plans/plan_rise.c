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
    return plan->rise.wanted ? plan->rise.wanted : chain->seat;
}

/* ---- falling ---- */

static void begin_waiting(struct plan *plan, const char *why)
{
    struct plan_rise *rise = &plan->rise;
    *rise = (struct plan_rise){.wanted = SEAT_CLIENT, .starts = plan_starts(plan)};
    snprintf(rise->why, sizeof rise->why, "%.255s", why);
}

void plan_note_below(struct plan *plan)
{
    for (uint32_t i = 0; i < plan->chain_count; i++)
        if (!plan->chains[i].direct)
            return;
    if (plan->tries && plan->part_count == 0 && plan->attempt.error != -EOPNOTSUPP)
        begin_waiting(plan, plan->attempt.text);
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
    if (plan->seats != BOTH_SEATS || plan->move.seats != BOTH_SEATS)
        return;
    const bool in_vain = plan->rise.wanted == SEAT_CLIENT;
    unbind(plan);
    plan->seats = plan->move.seats = SEAT_BIT(SEAT_DAEMON);
    if (plan->trial.what == ASKED_PART) /* not yet carried out: it has no other seat any more */
        plan->trial.what = ASKED_RAIL;
    begin_waiting(plan, in_vain ? "the data of its starts took too long to arrive, or the "
                                  "connection of the two processes was "
                                  "given up"
                                : "the connection of the two processes was given up");
    if (in_vain) {
        plan->rise.interval_ns = INTERVAL_MAX_NS;
        plan->rise.due_ns = clock_now_ns() + INTERVAL_MAX_NS;
    }
    plan_explain_seats(plan);
    if (plan->move.state == ROUTE_SETTLED) /* else when it is */
        plan_watch(plan);
}

/* ---- rising ---- */

static bool is_due(const struct plan *plan)
{
    return plan_is_below(plan) && plan_starts(plan) != plan->rise.starts &&
           clock_now_ns() >= plan->rise.due_ns;
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
    plan->rise.starts = plan_starts(plan);
    for (uint32_t i = 0; i < plan->chain_count; i++) {
        plan->chains[i].direct = true;
        plan->chains[i].pair_rail = plan_pair_rail(plan, &plan->chains[i]);
    }
    plan_move_begin(plan, CAUSE_PAIR, ROUTE_BINDING, BOTH_SEATS);
    return true;
}

void plan_unbind_pairs(struct plan *plan)
{
    struct plan_rise *rise = &plan->rise;
    const uint64_t twice_ns = 2 * rise->interval_ns;
    rise->interval_ns = twice_ns < INTERVAL_MIN_NS   ? INTERVAL_MIN_NS
                        : twice_ns < INTERVAL_MAX_NS ? twice_ns
                                                     : INTERVAL_MAX_NS;
    rise->due_ns = clock_now_ns() + rise->interval_ns;
    if (plan->attempt.error == -EOPNOTSUPP) /* which it would always be */
        rise->wanted = SEAT_NONE;
    snprintf(rise->why, sizeof rise->why, "%.255s", plan->attempt.text);
    free(plan->asks);
    plan->asks = NULL;
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

void plan_check_pairs(struct plan *plan)
{
    if (!has_pairs(plan))
        plan_fail(plan, -ENETDOWN, "the connection of the two processes could not be made");
}

void plan_end_rise(struct plan *plan)
{
    free(plan->asks);
    plan->asks = NULL;
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
        plan->rise.due_ns = plan->rise.interval_ns = 0;
}
