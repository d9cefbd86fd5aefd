/* Building a plan. */
#include "client/plan/plan.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/core/clock.h"
#include "client/core/error.h"
#include "client/core/seats.h"
#include "client/core/session.h"
#include "client/core/slots.h"
#include "client/core/subgroup.h"
#include "client/core/timeout.h"
#include "client/core/wait.h"
#include "client/memory/lane.h"
#include "client/memory/mapping.h"
#include "client/plan/order.h"
#include "client/plan/pair.h"
#include "client/plan/parts.h"
#include "client/plan/trial_route.h"
#include "drivers/shm/share.h"

/* The name of a rail or of a driver; "": any. */
static const char *rail_of(const struct tca_plan_args *args)
{
    if (args->rail_name)
        return args->rail_name;
    return args->rail == TCA_RAIL_ANY ? "" : driver_name((enum driver_id)args->rail);
}

static int check_args(const struct tca *session, const struct tca_plan_args *args)
{
    if (args->group && args->group->session != session)
        return error_static(-EINVAL, "the plan's group belongs to another session");
    if (args->name && strlen(args->name) >= NAME_MAX_BYTES)
        return error_set(-EINVAL, "a plan's name has at most %d bytes, not %zu", NAME_MAX_BYTES - 1,
                         strlen(args->name));
    if (args->rail_name && strlen(args->rail_name) >= RAIL_NAME_MAX_BYTES)
        return error_set(-EINVAL, "a rail's name has at most %d bytes, not %zu",
                         RAIL_NAME_MAX_BYTES - 1, strlen(args->rail_name));
    if (args->rail_name && args->rail != TCA_RAIL_ANY)
        return error_static(-EINVAL, "rail_name names the rail: rail must be TCA_RAIL_ANY");
    if (args->rail != TCA_RAIL_ANY && !driver_name((enum driver_id)args->rail))
        return error_set(-EINVAL,
                         "rail %d: it must be TCA_RAIL_ANY, TCA_RAIL_SHM, TCA_RAIL_TCP, "
                         "TCA_RAIL_OFI, TCA_RAIL_HCA or TCA_RAIL_PEACH2",
                         (int)args->rail);
    if (args->seat != TCA_SEAT_ANY && args->seat != TCA_SEAT_CLIENT &&
        args->seat != TCA_SEAT_DAEMON)
        return error_set(-EINVAL,
                         "seat %d: it must be TCA_SEAT_ANY, TCA_SEAT_CLIENT or TCA_SEAT_DAEMON",
                         (int)args->seat);
    if (args->channel >= CHANNELS)
        return error_set(-EINVAL, "channel %u: it must be from 0 to %d", args->channel,
                         CHANNELS - 1);
    if (args->flags &
        ~(uint32_t)(TCA_PLAN_TIMED | TCA_PLAN_LANDED | TCA_PLAN_PREFER | TCA_PLAN_REPEAT))
        return error_set(-EINVAL,
                         "plan flags 0x%x: only TCA_PLAN_TIMED, TCA_PLAN_LANDED, TCA_PLAN_PREFER "
                         "and TCA_PLAN_REPEAT are valid",
                         args->flags);
    if (args->flags & TCA_PLAN_PREFER && !*rail_of(args))
        return error_static(-EINVAL, "TCA_PLAN_PREFER needs a rail other than TCA_RAIL_ANY");
    return 0;
}

int tca_plan_new(struct tca *session, const struct tca_plan_args *args, struct tca_plan **ret_plan)
{
    static const struct tca_plan_args nothing;
    if (!args)
        args = &nothing;
    int r = check_args(session, args);
    if (r < 0)
        return r;
    struct tca_plan *plan = calloc(1, sizeof(*plan));
    if (!plan)
        return error_static(-ENOMEM, "out of memory");
    plan->session = session;
    plan->group = group_use(args->group);
    plan->state = PLAN_BUILDING;
    plan->flags = args->flags;
    plan->channel = args->channel;
    plan->together = args->together;
    strcpy(plan->rail, rail_of(args));
    if (session->settings.rail[0] && (!plan->rail[0] || plan->flags & TCA_PLAN_PREFER)) {
        strcpy(plan->rail, session->settings.rail); /* TCA_RAIL is a requirement */
        plan->flags &= ~(uint32_t)TCA_PLAN_PREFER;
    }
    plan->seat = session_seat(session, args);
    if (plan->flags & TCA_PLAN_REPEAT && plan->seat == TCA_SEAT_ANY)
        plan->seat = TCA_SEAT_DAEMON;
    plan->begin_chain = true;
    if (args->name)
        strcpy(plan->name, args->name); /* check_args() has checked its length */
    plan->next = session->plans;
    if (plan->next)
        plan->next->previous = plan;
    session->plans = plan;
    *ret_plan = plan;
    return 0;
}

const char *plan_text(const struct tca_plan *plan, char text[PLAN_TEXT_BYTES])
{
    char id[32] = "";
    if (plan->state != PLAN_BUILDING)
        snprintf(id, sizeof(id), "%llu.%u", (unsigned long long)plan->session->id, plan->id);
    if (plan->name[0])
        snprintf(text, PLAN_TEXT_BYTES, "plan %s%s\"%s\"", id, id[0] ? " " : "", plan->name);
    else
        snprintf(text, PLAN_TEXT_BYTES, "%s%s", id[0] ? "plan " : "the plan", id);
    return text;
}

uint32_t plan_step_node(const struct tca *session, const struct step *step)
{
    struct handle handle = {0};
    if (step->kind == STEP_PUT)
        handle_decode(step->put.handle, &handle);
    else if (step->kind == STEP_SIGNAL)
        handle_decode(step->signal.handle, &handle);
    else if (step->kind == STEP_WAIT_SIGNAL)
        handle.node = (uint32_t)session->node;
    else if (session->members && step->notification.rank < session->sources)
        handle.node = session->members[step->notification.rank].node;
    return handle.node;
}

int plan_not_committed(const struct tca_plan *plan)
{
    char name[PLAN_TEXT_BYTES];
    if (plan->refused)
        return error_set(
            -EINVAL, "%s was not committed, because a step was refused: %s: make another plan",
            plan_text(plan, name), plan->refusal ? plan->refusal : tca_strerror(plan->refused));
    return error_set(-EINVAL,
                     "%s was not committed: call tca_plan_commit() first, and look at its result",
                     plan_text(plan, name));
}

int plan_check_building(const struct tca_plan *plan)
{
    if (plan->state == PLAN_BUILDING)
        return 0;
    char name[PLAN_TEXT_BYTES];
    return error_set(-EINVAL, "%s was committed: no steps can be added; create another plan",
                     plan_text(plan, name));
}

/* With tca_error_text(). */
static void note_refusal(struct tca_plan *plan, int error)
{
    free(plan->refusal);
    plan->refused = error;
    plan->refusal = strdup(tca_error_text());
}

int plan_refuse_start(struct tca_plan *plan, int error)
{
    char name[PLAN_TEXT_BYTES];
    error_prefix(error, "%s: ", plan_text(plan, name));
    note_refusal(plan, error);
    plan->last_status = error;
    return error;
}

int plan_refuse(struct tca_plan *plan, int error)
{
    char name[PLAN_TEXT_BYTES];
    const uint32_t chain = plan->chain_count - !plan->begin_chain,
                   first = plan->begin_chain ? plan->step_count : plan->chain_first[chain];
    if (plan->state != PLAN_BUILDING)
        return error;
    error_prefix(error, "%s, step %u of chain %u: ", plan_text(plan, name),
                 plan->step_count - first, chain);
    if (plan->refused == 0)
        note_refusal(plan, error);
    return error;
}

int tca_plan_chain(struct tca_plan *plan)
{
    int r = plan_check_building(plan);
    if (r < 0)
        return r;
    plan->begin_chain = true;
    return 0;
}

int plan_reserve_step(struct tca_plan *plan, struct step **ret_step)
{
    int r = plan_check_building(plan);
    if (r < 0)
        return r;
    if (plan->begin_chain && plan->chain_count == PLAN_CHAINS_MAX)
        return error_set(-EINVAL, "a plan has at most %d chains: use several plans",
                         PLAN_CHAINS_MAX);
    if (plan->step_count == PLAN_STEPS_MAX)
        return error_set(-EINVAL, "a plan has at most %d steps: use several plans", PLAN_STEPS_MAX);
    if (plan->step_count == plan->step_room) {
        uint32_t room = plan->step_room ? plan->step_room * 2 : 8;
        struct step *steps = realloc(plan->steps, room * sizeof(*steps));
        if (!steps)
            return error_static(-ENOMEM, "out of memory");
        plan->steps = steps;
        plan->step_room = room;
    }
    *ret_step = &plan->steps[plan->step_count];
    return 0;
}

void plan_add_step(struct tca_plan *plan)
{
    if (plan->begin_chain)
        plan->chain_first[plan->chain_count++] = plan->step_count;
    plan->begin_chain = false;
    plan->step_count++;
}

static int add_notification(struct tca_plan *plan, enum step_kind kind, uint32_t rank,
                            uint32_t slot, uint64_t count)
{
    struct step *step = NULL;
    int r = plan_reserve_step(plan, &step);
    if (r < 0)
        return r;
    const uint32_t size = group_size(plan->session, plan->group);
    if (rank >= size)
        return error_set(-EINVAL, "rank %u: the group's ranks go from 0 to %u", rank, size - 1);
    *step = (struct step){.kind = kind,
                          .notification = {.rank = group_to_session(plan->group, rank),
                                           .slot = slot,
                                           .count = count}};
    plan_add_step(plan);
    return 0;
}

int tca_plan_notify(struct tca_plan *plan, uint32_t rank, uint32_t slot)
{
    int r = add_notification(plan, STEP_NOTIFY, rank, slot, 0);
    return r < 0 ? plan_refuse(plan, r) : 0;
}

int tca_plan_wait(struct tca_plan *plan, uint32_t rank, uint32_t slot, uint64_t count)
{
    int r = count > 0 ? add_notification(plan, STEP_WAIT, rank, slot, count)
                      : error_static(-EINVAL, "a wait for 0 notifications: the minimum is 1");
    return r < 0 ? plan_refuse(plan, r) : 0;
}

int tca_plan_flush(struct tca_plan *plan)
{
    int r = plan_check_building(plan);
    if (r < 0)
        return r;
    if (!plan->begin_chain)
        plan->steps[plan->step_count - 1].flush = true;
    return 0;
}

/* ---- the end ---- */

/* On failure it is released with the session. Waits only for starts that the release ends
 * (running), and for the engine to take no notification any more. */
static void release(struct tca_plan *plan, bool running)
{
    struct tca *session = plan->session;
    Tca__PlanRelease body = TCA__PLAN_RELEASE__INIT;
    const Tca__Message request = REQUEST(PLAN_RELEASE, plan_release, &body);
    body.plan = plan->id;
    if (!running && !plan->broken && !plan->engine_takes) {
        body.later = true;
        standby_enter(session->standby);
        control_post(&session->control, &request, session_end(session));
        standby_leave(session->standby);
        return;
    }
    session_request(session, &request, TCA__MESSAGE__BODY_DONE, NULL);
    session_progress(session); /* takes completions of those starts */
    plan_stop_engine(plan);
}

int plan_let_engine_take(struct tca_plan *plan, uint64_t end_ns)
{
    struct tca *session = plan->session;
    plan->engine_takes = true;
    session->engine_takes++;
    return lanes_strict(session, end_ns);
}

void plan_stop_engine(struct tca_plan *plan)
{
    struct tca *session = plan->session;
    if (!plan->engine_takes)
        return;
    plan->engine_takes = false;
    if (--session->engine_takes == 0)
        lanes_lenient(session);
}

/* Completes the puts whose copying is left to the receivers: after the release, the receivers no
 * longer know them. */
static void drain_puts(const struct tca_plan *plan)
{
    uint64_t end_ns = session_end(plan->session);
    const struct pair *pair = NULL;
    for (uint32_t i = 0; i < plan->transfer_count; i++) {
        if (plan->transfers[i].pair && plan->transfers[i].pair != pair)
            pairs_drain(plan->session, pair = plan->transfers[i].pair, end_ns);
        while (plan->transfers[i].process && !shm_peer_copied(plan->transfers[i].process->peer) &&
               clock_left(end_ns) > 0) {
            session_progress(plan->session);
            sched_yield();
        }
    }
}

static void unlink_plan(struct tca_plan *plan)
{
    if (plan->previous)
        plan->previous->next = plan->next;
    else
        plan->session->plans = plan->next;
    if (plan->next)
        plan->next->previous = plan->previous;
}

bool plan_copies_here(const struct tca_plan *plan)
{
    return plan->daemon_count == 0 && !plan->paired;
}

bool plan_puts_in_order(const struct tca_plan *plan)
{
    for (uint32_t i = 1; i < plan->transfer_count; i++)
        if (plan->transfers[i].pair != plan->transfers[0].pair)
            return false;
    return plan->daemon_count == 0;
}

void plan_puts_apart(struct tca_plan *plan)
{
    plan->apart = true;
}

enum tca_seat session_seat(const struct tca *session, const struct tca_plan_args *args)
{
    return args->seat != TCA_SEAT_ANY ? args->seat : session->settings.seat;
}

bool session_may_copy(const struct tca *session, const struct tca_plan_args *args)
{
    return session_seat(session, args) != TCA_SEAT_DAEMON && args->rail == TCA_RAIL_ANY &&
           !args->rail_name && session->settings.rail[0] == '\0';
}

void plan_destroy(struct tca_plan *plan)
{
    struct tca *session = plan->session;
    if (plan->state == PLAN_RUNNING)
        plan_abandon(plan, -ECANCELED);
    plan_unbind(plan);
    for (uint32_t i = 0; i < plan->step_count; i++) {
        struct step *step = &plan->steps[i];
        if ((step->kind == STEP_SIGNAL || step->kind == STEP_WAIT_SIGNAL) && step->signal.own)
            step->signal.own->uses--;
        if (step->kind != STEP_PUT)
            continue;
        step->put.source->mapped.uses--;
        if (step->put.own_target)
            step->put.own_target->uses--;
        tca_layout_free(step->put.source_layout);
        tca_layout_free(step->put.target_layout);
    }
    if (plan->state != PLAN_BUILDING)
        session->plans_by_id[plan->id] = NULL;
    unlink_plan(plan);
    parts_free(plan);
    free(plan->steps);
    free(plan->refusal);
    group_unuse(plan->group);
    free(plan);
    mapping_trim(session);
}

struct tca_plan *tca_plan_free(struct tca_plan *plan)
{
    if (!plan)
        return NULL;
    struct tca *session = plan->session;
    const uint64_t outer_ns = session_limit_begin(session);
    if (plan->flags & TCA_PLAN_REPEAT && plan->state != PLAN_BUILDING)
        tca_plan_stop(plan);
    if (plan->state == PLAN_RUNNING)
        tca_wait(plan, TCA_DEFAULT);
    if (plan->state != PLAN_BUILDING) {
        const bool running = plan->state == PLAN_RUNNING;
        plan_abandon(plan, -ECANCELED); /* its puts must not go on in the waits below */
        drain_puts(plan);
        order_leave(plan);
        release(plan, running);
    }
    plan_destroy(plan);
    session_limit_end(session, outer_ns);
    return NULL;
}
