/* Committing a plan: the request and its reply. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/core/clock.h"
#include "client/core/collective.h"
#include "client/core/error.h"
#include "client/core/session.h"
#include "client/layout/layout.h"
#include "client/plan/order.h"
#include "client/plan/parts.h"
#include "client/plan/plan.h"
#include "client/plan/trial.h"
#include "client/plan/trial_route.h"

/* Refers to the texts of the description. */
struct collective_draft {
    Tca__Collective collective;
    Tca__Collective__Candidate candidates[COLLECTIVE_CANDIDATES_MAX];
    Tca__Collective__Candidate *pointers[COLLECTIVE_CANDIDATES_MAX];
};
/* The message and its parts, in one array of each kind. */
struct draft {
    Tca__PlanCommit commit;
    struct collective_draft collective;
    struct routes_known known;
    Tca__Chain chains[PLAN_CHAINS_MAX];
    Tca__Chain *chain_pointers[PLAN_CHAINS_MAX];
    struct draft_step {
        Tca__Step step;
        union {
            Tca__Put put;
            Tca__Notify notify;
            Tca__Wait wait;
            Tca__Signal signal;
            Tca__WaitSignal wait_signal;
        };
    } * steps;
    Tca__Step **step_pointers;
};

static void draft_deinit(struct draft *draft)
{
    free(draft->steps);
    free(draft->step_pointers);
}

static ProtobufCBinaryData layout_data(const struct layout *layout)
{
    return (ProtobufCBinaryData){.len = layout_bytes(layout), .data = (uint8_t *)layout};
}

static void draft_step(struct draft_step *draft, const struct step *step)
{
    tca__step__init(&draft->step);
    draft->step.flush = step->flush;
    switch (step->kind) {
    case STEP_PUT:
        tca__put__init(&draft->put);
        draft->put.source_region = step->put.source->mapped.id;
        draft->put.source_offset = step->put.source_offset_bytes;
        draft->put.source_layout = layout_data(step->put.source_layout->program);
        draft->put.handle =
            (ProtobufCBinaryData){.len = HANDLE_BYTES, .data = (uint8_t *)step->put.handle};
        draft->put.target_offset = step->put.target_offset_bytes;
        if (step->put.target_layout != step->put.source_layout) /* else it is sent once */
            draft->put.target_layout = layout_data(step->put.target_layout->program);
        draft->put.combine = step->put.combine;
        draft->put.type = step->put.type;
        draft->put.ordered = step->put.ordered;
        draft->put.parts = step->put.part != 0;
        draft->step.step_case = TCA__STEP__STEP_PUT;
        draft->step.put = &draft->put;
        break;
    case STEP_NOTIFY:
        tca__notify__init(&draft->notify);
        draft->notify.rank = step->notification.rank;
        draft->notify.slot = step->notification.slot;
        draft->step.step_case = TCA__STEP__STEP_NOTIFY;
        draft->step.notify = &draft->notify;
        break;
    case STEP_WAIT:
        tca__wait__init(&draft->wait);
        draft->wait.rank = step->notification.rank;
        draft->wait.slot = step->notification.slot;
        draft->wait.count = step->notification.count;
        draft->step.step_case = TCA__STEP__STEP_WAIT;
        draft->step.wait = &draft->wait;
        break;
    case STEP_SIGNAL:
        tca__signal__init(&draft->signal);
        draft->signal.handle =
            (ProtobufCBinaryData){.len = HANDLE_BYTES, .data = (uint8_t *)step->signal.handle};
        draft->signal.offset = step->signal.offset_bytes;
        draft->signal.value = step->signal.value;
        draft->step.step_case = TCA__STEP__STEP_SIGNAL;
        draft->step.signal = &draft->signal;
        break;
    case STEP_WAIT_SIGNAL:
        tca__wait_signal__init(&draft->wait_signal);
        draft->wait_signal.region = step->signal.own->id;
        draft->wait_signal.offset = step->signal.offset_bytes;
        draft->wait_signal.value = step->signal.value;
        draft->step.step_case = TCA__STEP__STEP_WAIT_SIGNAL;
        draft->step.wait_signal = &draft->wait_signal;
        break;
    }
}

static Tca__Collective *collective_draft_init(struct collective_draft *draft,
                                              const struct collective *collective)
{
    for (uint32_t i = 0; i < collective->candidate_count; i++) {
        const struct collective_candidate *candidate = &collective->candidates[i];
        tca__collective__candidate__init(&draft->candidates[i]);
        draft->candidates[i].algorithm = (char *)candidate->algorithm;
        draft->candidates[i].predicted_ns = candidate->predicted_ns;
        draft->candidates[i].segment_bytes = candidate->segment_bytes;
        draft->pointers[i] = &draft->candidates[i];
    }
    tca__collective__init(&draft->collective);
    draft->collective.operation = (char *)collective->operation;
    draft->collective.algorithm = (char *)collective->algorithm;
    draft->collective.requested = collective->requested;
    draft->collective.ranks = collective->ranks;
    draft->collective.root = collective->root;
    draft->collective.per_node = collective->per_node;
    draft->collective.per_subcluster = collective->per_subcluster;
    draft->collective.bytes = collective->bytes;
    draft->collective.segment_bytes = collective->segment_bytes;
    draft->collective.candidates = draft->pointers;
    draft->collective.n_candidates = collective->candidate_count;
    return &draft->collective;
}

/* TCA_PLAN_LANDED: as if each chain ended with tca_plan_flush(). */
static void flush_chains(struct tca_plan *plan)
{
    for (uint32_t i = 0; i < plan->chain_count && plan->flags & TCA_PLAN_LANDED; i++)
        plan->steps[plan_chain_end(plan, i) - 1].flush = true;
}

static int draft_init(struct draft *draft, const struct tca_plan *plan)
{
    draft->steps = calloc(plan->step_count + 1, sizeof(*draft->steps)); /* + 1: not 0 bytes */
    draft->step_pointers = calloc(plan->step_count + 1, sizeof(*draft->step_pointers));
    if (!draft->steps || !draft->step_pointers) {
        draft_deinit(draft);
        return error_static(-ENOMEM, "out of memory");
    }
    for (uint32_t i = 0; i < plan->step_count; i++) {
        draft_step(&draft->steps[i], &plan->steps[i]);
        draft->step_pointers[i] = &draft->steps[i].step;
    }
    for (uint32_t i = 0; i < plan->chain_count; i++) {
        tca__chain__init(&draft->chains[i]);
        draft->chains[i].steps = draft->step_pointers + plan->chain_first[i];
        draft->chains[i].n_steps = plan_chain_end(plan, i) - plan->chain_first[i];
        draft->chain_pointers[i] = &draft->chains[i];
    }
    tca__plan_commit__init(&draft->commit);
    draft->commit.name = (char *)plan->name;
    draft->commit.channel = plan->channel;
    draft->commit.together = plan->together;
    draft->commit.rail = (char *)plan->rail;
    draft->commit.copy_method =
        (uint32_t)(plan->apart ? COPY_PUSH : plan->session->settings.copy_method);
    draft->commit.prefer = plan->flags & TCA_PLAN_PREFER;
    draft->commit.repeat = plan->flags & TCA_PLAN_REPEAT;
    draft->commit.parts_at = parts_at(plan);
    if (plan->collective)
        draft->commit.collective = collective_draft_init(&draft->collective, plan->collective);
    draft->commit.chains = draft->chain_pointers;
    draft->commit.n_chains = plan->chain_count;
    return 0;
}

static bool plan_waits(const struct tca_plan *plan)
{
    for (uint32_t i = 0; i < plan->step_count; i++)
        if (plan->steps[i].kind == STEP_WAIT || plan->steps[i].kind == STEP_WAIT_SIGNAL)
            return true;
    return false;
}

/* asked: does not wait for the reply, and leaves *ret_reply as it is. */
static int request_commit(struct tca_plan *plan, enum tca_seat seat, uint64_t end_ns,
                          struct control_asked *asked, struct reply *ret_reply)
{
    /* before the engine can know the plan */
    int waits = plan_waits(plan) ? plan_let_engine_take(plan, end_ns) : 0;
    if (waits < 0)
        return waits;
    const int64_t timeout_ns = end_ns == END_NEVER ? TCA_FOREVER : (int64_t)clock_left(end_ns);

    flush_chains(plan);
    struct draft draft;
    const Tca__Message request = REQUEST(PLAN_COMMIT, plan_commit, &draft.commit);
    int r = draft_init(&draft, plan);
    if (r < 0)
        return r;
    draft.commit.seat = (uint32_t)seat;
    draft.commit.tries = trial_route_known(plan, seat, &draft.known);
    draft.commit.found_seat = (uint32_t)draft.known.seat;
    for (uint32_t i = 0; draft.commit.tries && i < plan->chain_count; i++)
        draft.chains[i].rail = draft.known.rails[i];
    draft.commit.timeout_ns = session_wire_timeout(timeout_ns);
    r = asked ? session_ask(plan->session, &request, end_ns, asked)
              : session_request_timed(plan->session, &request, TCA__MESSAGE__BODY_PLAN_COMMITTED,
                                      timeout_ns, ret_reply);
    draft_deinit(&draft);
    return r;
}

static int check_reply(const struct tca_plan *plan, const Tca__PlanCommitted *committed)
{
    if (committed->plan >= PLANS_PER_SESSION_MAX || plan->session->plans_by_id[committed->plan] ||
        committed->n_chains != plan->chain_count)
        return error_set(
            -EPROTO,
            "tcad committed plan %u with %zu chains: the id is in use, or the plan has %u chains",
            committed->plan, committed->n_chains, plan->chain_count);
    for (size_t i = 0; i < committed->n_chains; i++) {
        const Tca__ChainCommitted *chain = committed->chains[i];
        if (chain->rail > plan->session->rails.count ||
            (chain->seat != SEAT_CLIENT && chain->seat != SEAT_DAEMON))
            return error_set(-EPROTO, "tcad bound chain %zu to rail %u and seat %u", i, chain->rail,
                             chain->seat);
    }
    return 0;
}

static bool daemon_waits(const struct tca_plan *plan, const Tca__PlanCommitted *committed)
{
    for (uint32_t i = 0; i < plan->chain_count; i++)
        for (uint32_t j = plan->chain_first[i]; j < plan_chain_end(plan, i); j++)
            if (plan->steps[j].kind == STEP_WAIT && committed->chains[i]->seat != SEAT_CLIENT)
                return true;
    return false;
}

/* tcad reports the end of a rank once, so plans that are committed later check it here. */
static void check_ranks(struct tca_plan *plan)
{
    char text[64];
    for (uint32_t i = 0; i < plan->step_count; i++) {
        struct step *step = &plan->steps[i];
        if (step->kind != STEP_WAIT)
            continue;
        const uint32_t rank = step->notification.rank;
        const uint8_t state =
            atomic_load_explicit(&plan->session->notify->source_state[rank], memory_order_relaxed);
        if (state == SOURCE_ALIVE)
            continue;
        atomic_store_explicit(&step->gone, true, memory_order_relaxed);
        snprintf(text, sizeof(text), "it waits for rank %u, which has ended", rank);
        plan_break(plan, state == SOURCE_NODE_DOWN ? -EHOSTDOWN : -EOWNERDEAD, text);
    }
}

enum plan_pace plan_pace(const struct tca_plan *plan)
{
    return plan->ordered && plan->session->movers > 0        ? PACE_MEASURED
           : plan->daemon_count > 0                          ? PACE_SUBMITS
           : plan->flags & TCA_PLAN_TIMED                    ? PACE_MEASURED
           : plan->paired || plan_waits(plan) || plan->parts ? PACE_HERE
                                                             : PACE_FAST;
}

/* A notification within the node, that waits for no put of another plan: it needs no chain. */
static const struct notify_target *raised_by(const struct tca_plan *plan)
{
    const struct transfer *transfer = plan->transfers;

    return plan->apart && plan->client_count == 1 && plan->transfer_count == 1 &&
                   transfer->process && !transfer->region && transfer->token.line
               ? &transfer->token
               : NULL;
}

/* Makes the plan startable. */
static void finish_commit(struct tca_plan *plan, const Tca__PlanCommitted *committed)
{
    struct tca *session = plan->session;
    session_complete(session); /* of an earlier plan of this id: it came before the id was free */
    plan->id = committed->plan;
    if (plan->chain_count > 0) {
        plan->first_rail = committed->chains[0]->rail;
        plan->first_seat = (enum seat)committed->chains[0]->seat;
    }
    plan->submit_id = plan->id | (plan->parts ? SUBMIT_PARTS : 0);
    plan->daemon_count = plan->chain_count - plan->client_count;
    plan->client_starts = &session->segment->client_starts[plan->id];
    plan->submit = &session->submit[plan->channel];
    plan->paired = false;
    for (uint32_t i = 0; i < plan->transfer_count; i++)
        plan->paired |= plan->transfers[i].pair != NULL;
    plan->pace = plan_pace(plan);
    plan->raises = raised_by(plan);
    session->plans_by_id[plan->id] = plan;
    if (!daemon_waits(plan, committed))
        plan_stop_engine(plan);
    trial_begin(plan);
    trial_route_begin(plan, committed);
    if (plan->paired || trial_route_below(plan))
        order_begin(plan);
    parts_whole(plan);
    plan->state = PLAN_IDLE;
    check_ranks(plan);
}

/* The program may not know that the environment requests a seat or a rail. */
static int blame_environment(const struct tca_plan *plan, int error)
{
    const struct settings *settings = &plan->session->settings;
    if (error != -EOPNOTSUPP && error != -ENETDOWN && error != -ENETUNREACH && error != -ENODEV)
        return error;
    if (settings->seat != TCA_SEAT_ANY && plan->seat == settings->seat)
        error_suffix(error, "; TCA_SEAT is %s in the environment", tca_seat_name(settings->seat));
    if (settings->rail[0] && strcmp(plan->rail, settings->rail) == 0)
        error_suffix(error, "; TCA_RAIL is %s in the environment", settings->rail);
    return error;
}

static int fail_commit(struct tca_plan *plan, int error)
{
    char name[PLAN_TEXT_BYTES];
    plan_stop_engine(plan);
    if (plan->name[0])
        error_prefix(error, "%s: ", plan_text(plan, name));
    return blame_environment(plan, error);
}

static int take_reply(struct tca_plan *plan, struct reply *reply)
{
    struct tca *session = plan->session;
    const Tca__PlanCommitted *committed = reply->message->plan_committed;
    int r = mapping_adopt(session, committed, reply->frame);
    if (r == 0 && (r = check_reply(plan, committed)) == 0)
        r = plan_bind(plan, committed);
    if (r == 0) {
        finish_commit(plan, committed);
    } else {
        plan_stop_engine(plan);
        Tca__PlanRelease body = TCA__PLAN_RELEASE__INIT;
        body.plan = committed->plan;
        control_send(&session->control, &(Tca__Message)REQUEST(PLAN_RELEASE, plan_release, &body));
    }
    reply_free(reply);
    return r;
}

static int commit_in(struct tca_plan *plan, enum tca_seat seat, uint64_t end_ns)
{
    struct reply reply;
    int r = request_commit(plan, seat, end_ns, NULL, &reply);
    return r < 0 ? fail_commit(plan, r) : take_reply(plan, &reply);
}

/* By default, the daemons get time for each step: some 100 times what one takes, because a commit
 * that makes progress on a busy machine is not to fail. */
static int commit_timeout(const struct tca_plan *plan, int64_t given_ns, int64_t *ret_timeout_ns)
{
    enum { STEP_NS = 1000000 };
    const int64_t steps_ns = (int64_t)plan->step_count * STEP_NS;
    int r = session_timeout(plan->session, given_ns, ret_timeout_ns);
    if (r == 0 && given_ns == TCA_DEFAULT && *ret_timeout_ns > 0 &&
        __builtin_add_overflow(*ret_timeout_ns, steps_ns, ret_timeout_ns))
        *ret_timeout_ns = TCA_FOREVER;
    return r;
}

/* Before the request. */
static int begin(struct tca_plan *plan, int64_t timeout_ns, uint64_t *ret_end_ns)
{
    char name[PLAN_TEXT_BYTES];
    int r = commit_timeout(plan, timeout_ns, &timeout_ns);
    if (r < 0)
        return r;
    if (plan->state != PLAN_BUILDING)
        return error_set(-EINVAL, "%s was committed already: start it, or create another plan",
                         plan_text(plan, name));
    if (plan->refused)
        return error_set(plan->refused,
                         "cannot commit a plan that lacks a step, which was refused: %s",
                         plan->refusal ? plan->refusal : tca_strerror(plan->refused));
    if ((r = repeat_check(plan)) < 0 || (r = parts_new(plan)) < 0)
        return r;
    *ret_end_ns = clock_end(timeout_ns);
    return 0;
}

static int commit(struct tca_plan *plan, uint64_t end_ns)
{
    int r = commit_in(plan, plan->seat, end_ns);
    if (r == -ENODEV && plan->seat == TCA_SEAT_ANY) /* without the driver of connections */
        r = commit_in(plan, TCA_SEAT_DAEMON, end_ns);
    return r;
}

int tca_plan_commit(struct tca_plan *plan, int64_t timeout_ns)
{
    uint64_t end_ns;
    int r = begin(plan, timeout_ns, &end_ns);
    return r < 0 ? r : commit(plan, end_ns);
}

int plan_commit_begin(struct tca_plan *plan)
{
    int r = begin(plan, TCA_DEFAULT, &plan->asked_end_ns);
    if (r < 0)
        return r;
    r = request_commit(plan, plan->seat, plan->asked_end_ns, &plan->asked, NULL);
    return r < 0 ? fail_commit(plan, r) : 0;
}

int plan_commit_end(struct tca_plan *plan)
{
    const Tca__Message kind = {.base = PROTOBUF_C_MESSAGE_INIT(&tca__message__descriptor),
                               .body_case = TCA__MESSAGE__BODY_PLAN_COMMIT};
    struct reply reply;
    int r = session_reply(plan->session, &plan->asked, &kind, TCA__MESSAGE__BODY_PLAN_COMMITTED,
                          plan->asked_end_ns, &reply);
    if (r == 0)
        return take_reply(plan, &reply);
    r = fail_commit(plan, r);
    /* what tca_plan_commit() tries again */
    return r == -EDQUOT || r == -EBUSY || r == -ENODEV ? commit(plan, plan->asked_end_ns) : r;
}

void plan_describe_collective(struct tca_plan *plan, const struct collective *collective)
{
    plan->collective = collective;
}
