/* PARSING: checks the plan as a whole, charges it to the session and its user, and builds units and steps
 * from the message, in slices. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/loop.h"
#include "daemon/plans/plan_collective.h"
#include "daemon/plans/plan_parse.h"
#include "daemon/plans/plan_stripe.h"
#include "daemon/rails/rails.h"
#include "daemon/sessions/client_request.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"

int plan_hold_bytes(struct plan *plan, uint64_t bytes)
{
    const uint64_t limit = plan->tcad->conf->limits.plan_bytes_per_session;
    struct session *session = plan->session;
    if (session->plan_bytes + bytes > limit)
        return plan_fail(plan, -EDQUOT,
                         "a plan of %" PRIu64 " bytes or more: the session has %" PRIu64
                         " of %" PRIu64 " (limits.plan_bytes_per_session): free plans",
                         plan->memory_bytes + bytes, session->plan_bytes - plan->memory_bytes,
                         limit);
    plan->memory_bytes += bytes;
    session->plan_bytes += bytes;
    return 0;
}

/* Charges the memory that the plan holds until it is released, also in the engine and during
 * requests. */
static int charge(struct plan *plan, uint64_t bytes)
{
    char text[512];
    int r = charge_take(plan->tcad, &plan->charge, plan->session->uid, USER_PLANS, bytes, "a plan",
                        text, sizeof text);
    return r < 0 ? plan_fail(plan, r, "%s", text) : 0;
}

static int check(struct plan *plan, const Tca__PlanCommit *commit)
{
    if (commit->channel >= CHANNELS)
        return plan_fail(plan, -EINVAL, "channel %u: 0 to %d are possible", commit->channel,
                         CHANNELS - 1);
    if (commit->seat > SEAT_DAEMON)
        return plan_fail(plan, -EINVAL, "seat %u: 0 to %d are possible", commit->seat, SEAT_DAEMON);
    if (commit->way >= WAY_COUNT)
        return plan_fail(plan, -EINVAL, "copy mode %u: no such mode", commit->way);
    if (commit->repeat && (commit->seat == SEAT_NONE || commit->n_chains == 0))
        return plan_fail(plan, -EINVAL, "a repeating plan needs a chain, and a seat");
    if (commit->n_chains > PLAN_CHAINS_MAX)
        return plan_fail(plan, -EINVAL, "a plan of %zu chains: at most %d are possible",
                         commit->n_chains, PLAN_CHAINS_MAX);
    return 0;
}

/* Counts the steps and charges them to the session's limit. */
static int count_steps(struct plan *plan, const Tca__PlanCommit *commit)
{
    const uint32_t limit = plan->tcad->conf->limits.steps_per_session;
    struct session *session = plan->session;
    size_t steps = 0;
    for (size_t i = 0; i < commit->n_chains; i++) {
        const Tca__Chain *chain = commit->chains[i];
        if (chain->n_steps == 0)
            return plan_fail(plan, -EINVAL, "chain %zu has no steps: leave it out", i);
        if (commit->repeat && chain->steps[0]->step_case != TCA__STEP__STEP_WAIT)
            return plan_fail(plan, -EINVAL,
                             "chain %zu of a repeating plan does not begin with a wait", i);
        steps += commit->chains[i]->n_steps;
    }
    if (steps > PLAN_STEPS_MAX)
        return plan_fail(plan, -E2BIG, "a plan of %zu steps: %d are possible, make several plans",
                         steps, PLAN_STEPS_MAX);
    if (session->step_count + steps > limit)
        return plan_fail(plan, -EDQUOT,
                         "%zu more steps: the session has %" PRIu64 " of %" PRIu32
                         " (limits.steps_per_session): free plans",
                         steps, session->step_count, limit);
    plan->held_steps = (uint32_t)steps;
    session->step_count += steps;
    return 0;
}

static int allocate(struct plan *plan, size_t chains, const Tca__Collective *said)
{
    enum { PREPARED_BYTES = DRIVER_PUT_BYTES + 256 }; /* per step, including its chain's part */
    const size_t steps = plan->held_steps;
    const size_t blobs = plan->tcad->rails->last * sizeof *plan->blobs; /* per unit */
    const uint64_t bytes = sizeof *plan + (said ? sizeof *plan->collective : 0) +
                           chains * sizeof *plan->chains +
                           steps * (sizeof *plan->steps + sizeof *plan->units + blobs);
    int r = plan_hold_bytes(plan, bytes);
    if (r == 0)
        r = charge(plan, bytes + steps * (PREPARED_BYTES + 2 * (uint64_t)sizeof(struct plan_use)));
    if (r < 0)
        return r;
    plan->chains = calloc(chains + 1, sizeof *plan->chains); /* + 1: never of 0 bytes */
    plan->steps = calloc(steps + 1, sizeof *plan->steps);
    plan->units = calloc(steps + 1, sizeof *plan->units);
    plan->blobs = calloc(steps + 1, blobs);
    if (!plan->chains || !plan->steps || !plan->units || !plan->blobs)
        return plan_fail(plan, -ENOMEM, "out of memory for a plan of %zu steps", steps);
    plan->chain_count = (uint32_t)chains;
    return said ? plan_take_collective(plan, said) : 0;
}

/* The rails that the plan requests, one bit each; 0: any. */
static int parse_rail(struct plan *plan, const char *name, unsigned *ret_rails)
{
    char text[256];
    const unsigned rails = rails_named(plan->tcad, name);
    if (*name && !rails)
        return plan_fail(plan, -EINVAL, "rail %.64s: this node has only %s", name,
                         rails_text(plan->tcad, text, sizeof text));
    *ret_rails = rails;
    return 0;
}

static int begin(struct plan *plan, const Tca__PlanCommit *commit)
{
    unsigned rails;
    int r = check(plan, commit);
    if (r == 0)
        r = parse_rail(plan, commit->rail, &rails);
    if (r == 0)
        r = count_steps(plan, commit);
    if (r < 0)
        return r;
    session_take_name(plan->name, commit->name);
    plan->channel = commit->channel;
    plan->together = commit->together;
    *(commit->prefer ? &plan->preferred_rails : &plan->wanted_rails) = rails;
    plan->wanted_seat = commit->seat;
    plan->wanted_copy_mode = commit->way;
    plan->repeat = commit->repeat;
    /* Starts in a requested seat are ordered with others of their channel, which a move would overtake. */
    plan->tries =
        commit->tries && !plan->wanted_seat && !plan->preferred_rails && !plan_demands_one(plan);
    plan->run.parts_at = commit->parts_at;
    plan->timeout_ns =
        commit->timeout_ns ? commit->timeout_ns : plan->tcad->conf->control.request_timeout_ns;
    return allocate(plan, commit->n_chains, commit->collective);
}

/* Subtracts notifications that were joined to puts from the steps, and charges the layouts. */
static void end(struct parser *parser)
{
    struct plan *plan = parser->plan;
    if (plan_works(plan) && plan_add_stripes(plan) == 0) {
        plan->session->step_count -= plan->held_steps - plan->step_count;
        plan->held_steps = plan->step_count;
        charge(plan, plan->memory_bytes - parser->plain_bytes);
    }
    client_request_free(plan->request);
    plan->request = NULL;
    free(parser);
    plan->pending--;
    plan_advance(plan);
}

/* Steps count from 0 in each chain. */
static void name_chain(const struct parser *parser)
{
    struct plan *plan = parser->plan;
    struct plan_attempt *attempt = &plan->attempt;
    char text[sizeof attempt->text];
    if (plan->chain_count < 2)
        return;
    memcpy(text, attempt->text, sizeof text);
    snprintf(attempt->text, sizeof attempt->text, "chain %" PRIu32 ", %.480s", parser->chain, text);
}

enum { SLICE_STEPS = 64 }; /* parsed between two checks of the clock */

static bool parse_some(void *context)
{
    struct parser *parser = context;
    struct plan *plan = parser->plan;
    const Tca__PlanCommit *commit = parser->commit;
    while (parser->chain < plan->chain_count && plan_goes_on(plan)) {
        const Tca__Chain *chain = commit->chains[parser->chain];
        if (parser->step == 0) {
            plan->chains[parser->chain].steps = plan->steps + plan->step_count;
            plan_take_found(plan, &plan->chains[parser->chain], chain->rail,
                            (enum seat)commit->found_seat);
        }
        if (plan_parse_step(parser, chain->steps[parser->step]) < 0)
            name_chain(parser);
        if (++parser->step == chain->n_steps) {
            parser->chain++;
            parser->step = 0;
            parser->before = NULL;
        }
        if (parser->step % SLICE_STEPS == 0 && loop_slice_over(plan->tcad->loop))
            return true;
    }
    end(parser);
    return false;
}

void plan_do_parse(struct plan *plan)
{
    const Tca__PlanCommit *commit = plan->request->message->plan_commit;
    if (begin(plan, commit) < 0)
        return;
    struct parser *parser = malloc(sizeof *parser);
    if (!parser) {
        plan_fail(plan, -ENOMEM, "out of memory for a plan");
        return;
    }
    *parser = (struct parser){.plan = plan, .commit = commit, .plain_bytes = plan->memory_bytes};
    plan->pending++;
    loop_job_begin(plan->tcad->loop, &plan->job, parse_some, parser);
}
