#include "client/plan/trial_seat.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/core/clock.h"
#include "client/core/session.h"
#include "client/core/wisdom.h"
#include "client/layout/layout.h"
#include "client/plan/pair.h"
#include "client/plan/plan.h"
#include "client/plan/trial.h"
#include "client/plan/trial_lines.h"
#include "client/plan/trial_rails.h"
#include "client/plan/trial_seat_internal.h"
#include "proto/handle.h"

enum {
    FIRST_STARTS = 32, /* a plan that is started less often is not worth a second binding */
};

/* ---- beginning of a commit ---- */

static bool leads_to_another_node(const struct tca_plan *plan)
{
    struct handle handle;
    for (uint32_t i = 0; i < plan->step_count; i++)
        if (plan->steps[i].kind == STEP_PUT)
            return handle_decode(plan->steps[i].put.handle, &handle) == 0 &&
                   handle.node != plan->session->node;
    return false;
}

static bool may_move(const struct tca_plan *plan, enum tca_seat seat)
{
    return seat == TCA_SEAT_ANY && !plan->parts &&
           !(plan->flags & (TCA_PLAN_REPEAT | TCA_PLAN_PREFER)) && leads_to_another_node(plan);
}

/* Made when it is needed: most plans have nothing to try. */
static const uint64_t *key_of(const struct tca_plan *plan)
{
    struct seat_trial *trial = plan->seat_trial;
    uint64_t chain[2];
    if (trial->keyed)
        return trial->key;
    trial->keyed = true;
    wisdom_seed(trial->key);
    trial_mix(trial->key, "seat", 4);
    for (uint32_t i = 0; i < plan->chain_count; i++) {
        rail_trial_key(plan, i, chain);
        trial_mix(trial->key, chain, sizeof chain);
    }
    return trial->key;
}

/* NULL: no earlier trial has found its seat. */
static const struct wisdom_entry *look_up(const struct tca_plan *plan)
{
    const struct wisdom *wisdom = plan->session->wisdom;
    struct wisdom_entry puts = {.rail = "?", .seat = SEAT_CLIENT};
    trial_describe_puts(plan, 0, plan->step_count, &puts);
    return wisdom_may_know(wisdom, &puts) ? wisdom_find(wisdom, key_of(plan), 0) : NULL;
}

bool trial_seat_known(struct tca_plan *plan, enum tca_seat seat, enum seat *ret_found)
{
    const bool tunes = plan->session->settings.tune != TUNE_OFF;
    trial_seat_end(plan); /* of an earlier commit that has failed */
    *ret_found = SEAT_NONE;
    if (!may_move(plan, seat) || (tunes && !trial_wisdom(plan->session)) ||
        !(plan->seat_trial = calloc(1, sizeof *plan->seat_trial)))
        return false;
    const struct wisdom_entry *entry = tunes ? look_up(plan) : NULL;
    *ret_found = entry ? (enum seat)entry->seat : SEAT_NONE;
    return true;
}

/* ---- results ---- */

static unsigned candidate_of(enum seat seat)
{
    return seat == SEAT_DAEMON ? TCAD : HERE;
}

static void note(struct tca_plan *plan)
{
    const struct seat_trial *trial = plan->seat_trial;
    const unsigned choice = candidate_of(trial->next);
    const uint64_t *key = key_of(plan);
    struct wisdom_entry entry = {.key = {key[0], key[1]},
                                 .ns = tune_quartile_ns(&trial->choose.tune, choice),
                                 .seat = (uint8_t)trial->next,
                                 .way = WAY_NONE};
    trial_describe_puts(plan, 0, plan->step_count, &entry);
    memcpy(entry.rail, plan->session->rails.at[trial->rails[choice]].name, sizeof entry.rail);
    wisdom_add(plan->session->wisdom, &entry);
}

/* For tcactl plan explain. */
static void show(const struct tca_plan *plan)
{
    const struct seat_trial *trial = plan->seat_trial;
    const uint32_t modes[CANDIDATES] = {
        [HERE] = TRIAL_RAIL | TRIAL_CLIENT | trial->rails[HERE] * 65536u,
        [TCAD] = TRIAL_RAIL | trial->rails[TCAD] * 65536u,
    };
    trial_lines_show(plan, 0,
                     &(struct trial_shown){.tune = &trial->choose.tune,
                                           .first = 0,
                                           .count = CANDIDATES,
                                           .choice = candidate_of(trial->next),
                                           .modes = modes});
}

/* ---- requests ---- */

void seat_trial_tell(struct tca_plan *plan)
{
    struct seat_trial *trial = plan->seat_trial;
    Tca__PlanTry body = TCA__PLAN_TRY__INIT;
    body.plan = plan->id;
    body.seat = trial->asked;
    body.found = trial->found;
    body.turn = trial->turn;
    body.below = trial->below;
    body.joins = trial->state == SEAT_JOINS;
    trial->unsent =
        !control_tell(&plan->session->control, &(Tca__Message)REQUEST(PLAN_TRY, plan_try, &body));
}

void seat_trial_ask(struct tca_plan *plan, enum seat seat, bool found)
{
    struct seat_trial *trial = plan->seat_trial;
    trial->asked = seat;
    trial->found = found;
    trial->turn++;
    seat_trial_tell(plan);
}

/* ---- trying ---- */

void seat_trial_set_tries(struct tca_plan *plan, bool on)
{
    const struct seat_trial *trial = plan->seat_trial;
    plan->pace = on ? PACE_MEASURED : trial->seat == SEAT_DAEMON ? PACE_SUBMITS : trial->pace;
    plan->flags = on ? plan->flags | PLAN_TRIES : plan->flags & ~PLAN_TRIES;
    if (!on)
        trials_give_turn(plan);
}

static void take_seat(struct tca_plan *plan, enum seat seat)
{
    struct seat_trial *trial = plan->seat_trial;
    trial->seat = plan->first_seat = seat;
    plan->client_count = seat == SEAT_CLIENT ? plan->chain_count : 0;
    plan->daemon_count = plan->chain_count - plan->client_count;
    plan->paired = seat == SEAT_CLIENT;
    plan->first_rail = trial->rails[candidate_of(seat)];
}

static void end(struct tca_plan *plan)
{
    struct seat_trial *trial = plan->seat_trial;
    trial->state = SEAT_OVER;
    if (trial->choose.found) {
        note(plan);
        show(plan);
    }
    seat_trial_ask(plan, trial->next, trial->choose.found);
}

static void begin_trial(struct tca_plan *plan)
{
    struct seat_trial *trial = plan->seat_trial;
    trial->state = SEAT_RUNS;
    route_choose_begin_here(&trial->choose, HERE, clock_now_ns() ^ plan->session->id << 32);
}

void trial_seat_start(struct tca_plan *plan)
{
    struct seat_trial *trial = plan->seat_trial;
    const uint64_t now_ns = clock_now_ns();
    if (trial->next != trial->seat) /* the receipt of the last start is not asked for any more */
        take_seat(plan, trial->next);
    if (trial->unsent)
        seat_trial_tell(plan);
    switch (trial->state) {
    case SEAT_WAITS:
        if (++trial->starts <= FIRST_STARTS || !trials_take_turn(plan, now_ns))
            return;
        trial->state = SEAT_JOINS;
        seat_trial_ask(plan, SEAT_DAEMON, false);
        return;
    case SEAT_RUNS:
    case SEAT_ENDS: /* the last start has failed */
        if (trial->rises || !trials_take_turn(plan, now_ns))
            return;
        if (route_choose_start(&trial->choose, now_ns) == ROUTE_DRAIN)
            trial->state = SEAT_ENDS;
        return;
    case SEAT_OVER:
        if (!trial->unsent)
            seat_trial_set_tries(plan, false);
        return;
    default:
        trial_rise_start(plan);
        return;
    }
}

bool trial_seat_holds(struct tca_plan *plan)
{
    struct seat_trial *trial = plan->seat_trial;
    if (trial->state != SEAT_ENDS || plan->status < 0 || plan->broken)
        return false;
    trial->state = SEAT_HOLDS;
    trial->arrived = false;
    trial->held_ns = clock_now_ns();
    if (trial->seat == SEAT_DAEMON)
        seat_trial_ask(plan, SEAT_DAEMON, false);
    else
        pairs_flush(plan);
    return true;
}

/* Both seats are bound: the next start takes the one that it is to take. */
static void carry_out(struct tca_plan *plan, enum route_order order)
{
    struct seat_trial *trial = plan->seat_trial;
    trial->next = trial->choose.route == TCAD ? SEAT_DAEMON : SEAT_CLIENT;
    trial->state = SEAT_RUNS;
    if (order == ROUTE_TAKE)
        route_choose_moved(&trial->choose, true);
    else if (order == ROUTE_END)
        end(plan);
}

bool trial_seat_arrived(struct tca_plan *plan)
{
    struct seat_trial *trial = plan->seat_trial;
    if (trial->state != SEAT_HOLDS)
        return true;
    if (trial->unsent)
        seat_trial_tell(plan);
    if (trial->seat == SEAT_DAEMON ? !trial->arrived : !pairs_flushed(plan))
        return false;
    if (trial->rises) {
        trial->late = 0;
        trial_rise_arrived(plan);
        return true;
    }
    carry_out(plan, route_choose_arrived(&trial->choose, trial->seat == SEAT_DAEMON
                                                             ? trial->flush_ns
                                                             : clock_now_ns() - trial->held_ns));
    return true;
}

void trial_seat_late(struct tca_plan *plan)
{
    struct seat_trial *trial = plan->seat_trial;
    if (trial->state != SEAT_HOLDS)
        return;
    trial->state = SEAT_ENDS;
    if (trial->rises && ++trial->late == ROUTE_LATE_MAX)
        trial->state = SEAT_FELL; /* it stays where it is until tcad has waited for a while */
    else if (!trial->rises && route_choose_late(&trial->choose) == ROUTE_END)
        end(plan);
}

/* ---- beginning and ending ---- */

static bool is_direct(const struct tca_plan *plan)
{
    return plan->chain_count > 0 && plan->client_count == plan->chain_count && plan->paired;
}

bool seat_trial_is_needless(const struct tca_plan *plan)
{
    const struct wisdom_entry *entry;
    return plan->session->settings.tune != TUNE_ON ||
           ((entry = look_up(plan)) && entry->seat == SEAT_CLIENT);
}

void trial_seat_begin(struct tca_plan *plan, const Tca__PlanCommitted *committed)
{
    struct seat_trial *trial = plan->seat_trial;
    if (!trial)
        return;
    if (committed->rises && plan->chain_count > 0 && plan->daemon_count == plan->chain_count) {
        trial_rise_begin(plan);
        return;
    }
    if (!committed->seats || !is_direct(plan) || seat_trial_is_needless(plan)) {
        trial_seat_end(plan);
        return;
    }
    trial->pace = plan->pace;
    trial->begun = true;
    trial->seat = trial->next = SEAT_CLIENT;
    trial->rails[HERE] = plan->first_rail;
    seat_trial_set_tries(plan, true);
}

static bool is_sound(const struct tca_plan *plan, const Tca__Event *event)
{
    return event->n_ids == plan->chain_count && event->ids[0] > 0 &&
           event->ids[0] <= plan->session->rails.count;
}

/* tcad takes no starts: one that runs there fails, and the next one is run here. */
static void lose_seat(struct tca_plan *plan)
{
    struct seat_trial *trial = plan->seat_trial;
    if (trial_rise_parted(plan))
        return;
    trial->state = SEAT_OVER;
    if (trial->seat == SEAT_CLIENT && trial->next == SEAT_CLIENT)
        return;
    trial->next = SEAT_CLIENT;
    seat_trial_set_tries(plan, true); /* until the next start */
    if (trial->lost)
        plan_break(plan, trial->lost, "tcad lost the rail to its receiver, and so did the process");
}

/* tcad has the chains if the next start is to run there, and its data cannot overtake any other: that has arrived. */
bool trial_seat_goes_on(struct tca_plan *plan, int error)
{
    struct seat_trial *trial = plan->seat_trial;
    if (!trial || error == -EOWNERDEAD || error == -EHOSTDOWN ||
        (trial->next != SEAT_DAEMON && (trial->seat != SEAT_DAEMON || trial->state == SEAT_OVER)))
        return false;
    trial->next = SEAT_DAEMON;
    trial->lost = error;
    if (trial->state == SEAT_OVER || trial->state == SEAT_FELL)
        return true;
    trial->state = SEAT_FELL;
    seat_trial_ask(plan, SEAT_DAEMON, false);
    return true;
}

void trial_seat_moved(struct tca_plan *plan, const Tca__Event *event)
{
    struct seat_trial *trial = plan->seat_trial;
    if (!trial || !is_sound(plan, event))
        return;
    if (event->seat != SEAT_DAEMON) {
        lose_seat(plan);
        return;
    }
    trial->rails[TCAD] = event->ids[0];
    if (event->turn != trial->turn)
        return;
    if (trial->state == SEAT_JOINS)
        begin_trial(plan);
    trial->arrived = true;
    trial->flush_ns = event->flush_ns;
}

void trial_seat_end(struct tca_plan *plan)
{
    if (!plan->seat_trial)
        return;
    if (plan->seat_trial->begun) {
        seat_trial_set_tries(plan, false);
        trial_lines_hide(plan);
    }
    free(plan->seat_trial);
    plan->seat_trial = NULL;
}
