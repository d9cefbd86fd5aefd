#include "client/plan/trial_rails.h"

#include <stdlib.h>
#include <string.h>

#include "client/core/clock.h"
#include "client/core/session.h"
#include "client/core/wisdom.h"
#include "client/plan/plan.h"
#include "client/plan/trial.h"
#include "client/plan/trial_lines.h"
#include "client/plan/trial_rails_internal.h"

enum {
    FIRST_STARTS = 8, /* to touch all pages and buffers */
    TRIALS_MAX = 8,   /* of a plan: rails that keep coming and going are not worth more */
};

#define TURN_NS UINT64_C(1000000000)

/* ---- beginning of a commit ---- */

static bool may_try(const struct tca_plan *plan, enum tca_seat seat)
{
    return seat == TCA_SEAT_ANY && plan->session->settings.tune != TUNE_OFF &&
           plan->session->rails.count > 2 && /* shm and one more: no choice */
           !(plan->flags & (TCA_PLAN_REPEAT | TCA_PLAN_PREFER));
}

/* Made when it is needed: where there is nothing to try, it never is. */
static const uint64_t *key_of(const struct tca_plan *plan, uint32_t chain)
{
    struct rail_trial *trial = plan->rail_trial;
    if (!(trial->keyed & 1ull << chain))
        rail_trial_key(plan, chain, trial->keys[chain]);
    trial->keyed |= 1ull << chain;
    return trial->keys[chain];
}

bool trial_rails_known(struct tca_plan *plan, enum tca_seat seat,
                       struct trial_rails_known *ret_known)
{
    struct wisdom *wisdom;
    trial_rails_end(plan); /* of an earlier commit that has failed */
    if (!may_try(plan, seat) || !(wisdom = trial_wisdom(plan->session)) ||
        !(plan->rail_trial = calloc(1, sizeof *plan->rail_trial)))
        return false;
    for (uint32_t i = 0; i < plan->chain_count; i++) {
        struct wisdom_entry puts = {.rail = "?"};
        trial_describe_puts(plan, plan->chain_first[i], plan_chain_end(plan, i), &puts);
        const struct wisdom_entry *entry =
            wisdom_may_know(wisdom, &puts) ? wisdom_find(wisdom, key_of(plan, i), 0) : NULL;
        ret_known->rails[i] = (char *)(entry ? entry->rail : "");
    }
    return true;
}

/* For tcactl plan explain. */
static void show(const struct tca_plan *plan, uint32_t number)
{
    const struct rail_kind *kind = &plan->rail_trial->kinds[number];
    uint32_t modes[TRIAL_MODES_MAX];
    for (unsigned i = 0; i < kind->count; i++)
        modes[i] = TRIAL_RAIL | kind->rails[i] * 65536u;
    trial_lines_show(plan, number,
                     &(struct trial_shown){.tune = &plan->rail_trial->choose.tune,
                                           .first = kind->first,
                                           .count = kind->count,
                                           .choice = kind->choice,
                                           .modes = modes});
}

/* ---- sorting into kinds ---- */

/* Both have been keyed. */
static bool is_of_kind(const struct rail_trial *trial, uint32_t chain, const struct rail_kind *kind)
{
    return trial->rails[chain] == trial->rails[kind->first] &&
           memcmp(trial->keys[chain], trial->keys[kind->first], sizeof trial->keys[0]) == 0;
}

/* The rail of the commit is tried in any case, and others as far as there is room. */
static void kind_init(const struct tca_plan *plan, struct rail_kind *kind, uint32_t chain)
{
    const struct rail_trial *trial = plan->rail_trial;
    const uint32_t rails = trial->rails[chain];
    const uint32_t usual =
        rails & 1u << trial->usual[chain] ? trial->usual[chain] : trial->bound[chain];
    *kind = (struct rail_kind){.first = chain, .asked = trial->bound[chain]};
    kind->rails[kind->count++] = (uint8_t)usual;
    for (uint32_t rail = 1; rail <= plan->session->rails.count; rail++)
        if (rails & 1u << rail && rail != usual && kind->count < TRIAL_MODES_MAX)
            kind->rails[kind->count++] = (uint8_t)rail;
}

static void find_kinds(struct tca_plan *plan)
{
    struct rail_trial *trial = plan->rail_trial;
    trial->kind_count = 0;
    for (uint32_t i = 0; i < plan->chain_count; i++) {
        uint32_t at = 0;
        if (trial->rails[i] == 0)
            continue;
        key_of(plan, i);
        while (at < trial->kind_count && !is_of_kind(trial, i, &trial->kinds[at]))
            at++;
        if (at == trial->kind_count && at < TRIAL_KINDS_MAX)
            kind_init(plan, &trial->kinds[trial->kind_count++], i);
        if (at < trial->kind_count)
            trial->kinds[at].chains |= 1ull << i;
    }
}

/* ---- requests ---- */

static void tell(struct tca_plan *plan, struct rail_kind *kind)
{
    Tca__PlanTry body = TCA__PLAN_TRY__INIT;
    body.plan = plan->id;
    body.chains = kind->chains;
    body.rail = kind->asked;
    body.found = kind->found;
    body.turn = ++plan->rail_trial->turn;
    kind->unsent =
        !control_tell(&plan->session->control, &(Tca__Message)REQUEST(PLAN_TRY, plan_try, &body));
}

/* The next start tries again to send what could not be sent. */
static void ask(struct tca_plan *plan, struct rail_kind *kind, unsigned candidate, bool found)
{
    kind->asked = kind->rails[candidate];
    kind->found = found;
    tell(plan, kind);
}

static bool send_again(struct tca_plan *plan)
{
    struct rail_trial *trial = plan->rail_trial;
    bool unsent = false;
    for (uint32_t i = 0; i < trial->kind_count; i++) {
        if (trial->kinds[i].unsent)
            tell(plan, &trial->kinds[i]);
        unsent |= trial->kinds[i].unsent;
    }
    return unsent;
}

/* ---- trying ---- */

bool trials_take_turn(struct tca_plan *plan, uint64_t now_ns)
{
    struct tca *session = plan->session;
    if (session->tries_rails != plan && session->tries_rails &&
        now_ns - session->tries_rails_ns < TURN_NS)
        return false;
    session->tries_rails = plan;
    session->tries_rails_ns = now_ns;
    return true;
}

void trials_give_turn(struct tca_plan *plan)
{
    if (plan->session->tries_rails == plan)
        plan->session->tries_rails = NULL;
}

static void set_tries(struct tca_plan *plan, bool on)
{
    plan->pace = on ? PACE_MEASURED : plan->rail_trial->pace;
    plan->flags = on ? plan->flags | PLAN_TRIES : plan->flags & ~PLAN_TRIES;
    if (!on)
        trials_give_turn(plan);
}

static void begin_kind(struct tca_plan *plan);

static void end_kind(struct tca_plan *plan)
{
    struct rail_trial *trial = plan->rail_trial;
    struct rail_kind *kind = &trial->kinds[trial->at];
    const bool found = trial->choose.found;
    kind->known = true;
    kind->choice = trial->choose.route;
    ask(plan, kind, kind->choice, found);
    if (found) {
        rail_trial_note(plan, kind);
        show(plan, trial->at);
    }
    begin_kind(plan);
}

static void carry_out(struct tca_plan *plan, enum route_order order)
{
    struct rail_trial *trial = plan->rail_trial;
    struct rail_kind *kind = &trial->kinds[trial->at];
    switch (order) {
    case ROUTE_GO_ON:
        break;
    case ROUTE_DRAIN:
        tell(plan, kind);
        break;
    case ROUTE_TAKE:
        ask(plan, kind, trial->choose.route, false);
        break;
    case ROUTE_END:
        end_kind(plan);
        break;
    }
}

/* Begins the trial of the next kind that needs one. */
static void begin_kind(struct tca_plan *plan)
{
    struct rail_trial *trial = plan->rail_trial;
    while (trial->at < trial->kind_count && trial->kinds[trial->at].known)
        trial->at++;
    if (trial->at == trial->kind_count)
        return;
    const struct rail_kind *kind = &trial->kinds[trial->at];
    carry_out(plan, route_choose_begin(&trial->choose, kind->count, kind->choice,
                                       clock_now_ns() ^ plan->session->id << 32));
}

void trial_rails_start(struct tca_plan *plan)
{
    struct rail_trial *trial = plan->rail_trial;
    if (send_again(plan))
        return;
    if (trial->at == trial->kind_count) {
        set_tries(plan, false);
        return;
    }
    if (trial->starts < FIRST_STARTS) {
        trial->starts++;
        return;
    }
    const uint64_t now_ns = clock_now_ns();
    if (!trials_take_turn(plan, now_ns))
        return;
    if (trial->starts == FIRST_STARTS) {
        trial->starts++;
        begin_kind(plan);
        return;
    }
    carry_out(plan, route_choose_start(&trial->choose, now_ns));
}

/* ---- beginning and ending ---- */

/* Chains whose rail is known move there at once. */
static void begin(struct tca_plan *plan)
{
    struct rail_trial *trial = plan->rail_trial;
    const bool frozen = plan->session->settings.tune == TUNE_FROZEN || trial->trials == TRIALS_MAX;
    bool any = false;
    find_kinds(plan);
    trial->at = trial->starts = 0;
    trial->choose = (struct route_choose){.state = ROUTE_OVER};
    for (uint32_t i = 0; i < trial->kind_count; i++) {
        struct rail_kind *kind = &trial->kinds[i];
        kind->known = rail_trial_is_known(plan, kind) || frozen;
        any |= !kind->known;
        if (kind->known && kind->asked != kind->rails[kind->choice])
            ask(plan, kind, kind->choice, true);
        any |= kind->unsent;
    }
    trial->trials += any;
    set_tries(plan, any);
}

void trial_rails_begin(struct tca_plan *plan, const Tca__PlanCommitted *committed)
{
    struct rail_trial *trial = plan->rail_trial;
    if (!trial || plan->daemon_count == 0) {
        trial_rails_end(plan);
        return;
    }
    trial->pace = plan->pace;
    for (uint32_t i = 0; i < plan->chain_count; i++) {
        trial->bound[i] = trial->usual[i] = committed->chains[i]->rail;
        trial->rails[i] = committed->chains[i]->rails;
    }
    begin(plan);
}

static void answered(struct tca_plan *plan, uint64_t flush_ns)
{
    struct rail_trial *trial = plan->rail_trial;
    const struct rail_kind *kind = &trial->kinds[trial->at];
    if (trial->choose.state == ROUTE_MOVES)
        carry_out(plan,
                  route_choose_moved(&trial->choose, trial->bound[kind->first] == kind->asked));
    else
        carry_out(plan, route_choose_arrived(&trial->choose, flush_ns));
}

static bool is_sound(const struct tca_plan *plan, const Tca__Event *event)
{
    if (event->n_ids != plan->chain_count || event->n_of != plan->chain_count)
        return false;
    for (uint32_t i = 0; i < plan->chain_count; i++)
        if (event->ids[i] > plan->session->rails.count)
            return false;
    return true;
}

void trial_rails_moved(struct tca_plan *plan, const Tca__Event *event)
{
    struct rail_trial *trial = plan->rail_trial;
    bool changed = false;
    if (!trial || !is_sound(plan, event))
        return;
    for (uint32_t i = 0; i < plan->chain_count; i++) {
        changed |= trial->rails[i] != event->of[i];
        trial->bound[i] = event->ids[i];
        trial->rails[i] = event->of[i];
    }
    if (changed)
        begin(plan);
    else if (trial->at < trial->kind_count && event->turn == trial->turn)
        answered(plan, event->flush_ns);
}

void trial_rails_end(struct tca_plan *plan)
{
    if (!plan->rail_trial)
        return;
    if (plan->flags & PLAN_TRIES)
        set_tries(plan, false);
    trial_lines_hide(plan);
    free(plan->rail_trial);
    plan->rail_trial = NULL;
}
