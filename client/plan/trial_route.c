#include "client/plan/trial_route.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/core/session.h"
#include "client/core/wisdom.h"
#include "client/plan/order.h"
#include "client/plan/plan.h"
#include "client/plan/route_choose.h"
#include "client/plan/route_wisdom.h"
#include "client/plan/trial.h"
#include "proto/handle.h"

enum {
    RAIL_STARTS = 8, /* before a trial of rails, to touch all pages and buffers; of seats: a plan */
    SEAT_STARTS = 32, /* that is started less often is not worth a second binding */
    TRIALS_MAX = 8,   /* of a plan: rails that keep coming and going are not worth more */
};
#define TURN_NS UINT64_C(1000000000)

/* Routes of a plan over pairs. */
enum {
    HERE,
    TCAD,
    SEATS,
};

struct tried_route {
    uint8_t rail, seat;
};

/* Chains that try together. */
struct route_kind {
    uint64_t chains; /* one bit each */
    uint32_t first;  /* the first one; WHOLE_PLAN: the plan, whose routes are HERE and TCAD */
    unsigned count;  /* of `routes`; */
    unsigned choice; /* index in them: found, known or, before the trial, used anyway */
    bool known;      /* nothing to try */
    bool unsent;     /* tcad was not told: */
    Tca__PlanTry request;
    struct tried_route routes[TRIAL_MODES_MAX];
};

struct route_trial {
    bool rises;        /* takes a pair, if it has none and there is one */
    int no_pair;       /* 0: this process can run all chains over pairs; else why not */
    bool in_tcad;      /* tcad takes starts */
    bool offered;      /* once it does not, seats may be tried */
    bool ends;         /* the next start tells tcad which seat stays */
    bool held;         /* the last start is, */
    uint64_t held_ns;  /* since then */
    enum seat next;    /* of the next start, over pairs */
    bool known;        /* it was committed in tcad's seat because an earlier trial has found that */
    uint32_t turn;     /* of the last request to tcad, */
    uint32_t due;      /* of the last one of the trial, */
    uint32_t flush;    /* of the last trial_route_flush(), */
    uint32_t answered; /* and of the last one that tcad has answered */
    uint32_t trials;   /* of rails, begun so far */
    uint32_t starts;
    uint32_t at, kind_count; /* the kind that tries now */
    struct route_choose choose;
    struct route_kind kinds[TRIAL_KINDS_MAX]; /* chains of further kinds stay where they are */
    /* by chain */
    struct route_keys keys;
    uint32_t bound[PLAN_CHAINS_MAX]; /* rail, as tcad said last */
    uint32_t usual[PLAN_CHAINS_MAX]; /* of the commit */
    uint32_t rails[PLAN_CHAINS_MAX]; /* to try, one bit each */
};

static bool tries_seats(const struct route_trial *trial)
{
    return trial->kind_count > 0 && trial->kinds[0].first == WHOLE_PLAN;
}

static struct route_kind *kind_of(struct route_trial *trial)
{
    return &trial->kinds[tries_seats(trial) ? 0 : trial->at];
}

/* ---- wisdom ---- */

/* With other rails to choose from, a new trial is due. */
static uint32_t choice_of(const struct tca_plan *plan, const struct route_kind *kind)
{
    return kind->first == WHOLE_PLAN
               ? 0
               : route_hash_rails(plan->session, plan->route_trial->rails[kind->first]);
}

/* Whether an earlier trial has chosen among the same routes; then that is the choice. */
static bool is_known(const struct tca_plan *plan, struct route_kind *kind)
{
    const struct wisdom_entry *entry = route_look_up(plan, &plan->route_trial->keys, kind->first);
    if (!entry || entry->rails != choice_of(plan, kind))
        return false;
    for (unsigned i = 0; i < kind->count; i++) {
        const char *name = plan->session->rails.at[kind->routes[i].rail].name;
        if (kind->first == WHOLE_PLAN ? kind->routes[i].seat != entry->seat
                                      : strcmp(name, entry->rail) != 0)
            continue;
        kind->choice = i;
        return true;
    }
    return false;
}

static void note(const struct tca_plan *plan, const struct route_kind *kind)
{
    struct wisdom_entry entry = route_describe(plan, kind->first);
    memcpy(entry.key, route_key(plan, &plan->route_trial->keys, kind->first), sizeof(entry.key));
    entry.ns = tune_quartile_ns(&plan->route_trial->choose.tune, kind->choice);
    entry.rails = choice_of(plan, kind);
    entry.seat = kind->first == WHOLE_PLAN ? kind->routes[kind->choice].seat : SEAT_NONE;
    memcpy(entry.rail, plan->session->rails.at[kind->routes[kind->choice].rail].name,
           sizeof(entry.rail));
    wisdom_add(plan->session->wisdom, &entry);
}

/* For tcactl plan explain. */
static void show(const struct tca_plan *plan, const struct route_kind *kind)
{
    const struct route_trial *trial = plan->route_trial;
    uint32_t modes[TRIAL_MODES_MAX];
    for (unsigned i = 0; i < kind->count; i++)
        modes[i] = TRIAL_RAIL | (kind->routes[i].seat == SEAT_CLIENT ? TRIAL_CLIENT : 0) |
                   kind->routes[i].rail * 65536u;
    trial_lines_show(plan, (uint32_t)(kind - trial->kinds),
                     &(struct trial_shown){.tune = &trial->choose.tune,
                                           .first = kind->first == WHOLE_PLAN ? 0 : kind->first,
                                           .count = kind->count,
                                           .choice = kind->choice,
                                           .modes = modes});
}

/* ---- before a commit ---- */

static bool may_try_rails(const struct tca_plan *plan)
{
    return plan->session->settings.tune != TUNE_OFF &&
           plan->session->rails.count > 2; /* shm and one more: no choice */
}

static bool may_have_pairs(const struct tca_plan *plan)
{
    struct handle handle;
    for (uint32_t i = 0; i < plan->step_count && !plan->parts; i++)
        if (plan->steps[i].kind == STEP_PUT)
            return handle_decode(plan->steps[i].put.handle, &handle) == 0 &&
                   handle.node != plan->session->node;
    return false;
}

bool trial_route_known(struct tca_plan *plan, enum tca_seat seat, struct routes_known *ret_known)
{
    const bool rails = may_try_rails(plan), pairs = may_have_pairs(plan),
               tunes = plan->session->settings.tune != TUNE_OFF;
    const struct wisdom_entry *entry;
    trial_route_end(plan); /* of an earlier commit that has failed */
    ret_known->seat = SEAT_NONE;
    if (seat != TCA_SEAT_ANY || plan->flags & (TCA_PLAN_REPEAT | TCA_PLAN_PREFER) ||
        !(rails || pairs) || (tunes && !trial_wisdom(plan->session)) ||
        !(plan->route_trial = calloc(1, sizeof(*plan->route_trial))))
        return false;
    plan->route_trial->rises = pairs;
    for (uint32_t i = 0; i < plan->chain_count; i++) {
        entry = rails ? route_look_up(plan, &plan->route_trial->keys, i) : NULL;
        ret_known->rails[i] = (char *)(entry ? entry->rail : "");
    }
    if (pairs && tunes && (entry = route_look_up(plan, &plan->route_trial->keys, WHOLE_PLAN)))
        ret_known->seat = (enum seat)entry->seat;
    plan->route_trial->known = ret_known->seat == SEAT_DAEMON && !plan->rail[0]; /* tcad takes it */
    return true;
}

/* ---- requests ---- */

static void tell(struct tca_plan *plan, struct route_kind *kind)
{
    kind->unsent = !plan->session->trial_effects->tell(plan, &kind->request);
}

/* To move to a route, or to let the data on it arrive. The next start tries again to send what
 * could not be sent. */
static void ask(struct tca_plan *plan, struct route_kind *kind, unsigned candidate, bool found)
{
    struct route_trial *trial = plan->route_trial;
    Tca__PlanTry *request = &kind->request;
    tca__plan_try__init(request);
    request->plan = plan->id;
    request->found = found;
    request->turn = trial->due = ++trial->turn;
    if (kind->first == WHOLE_PLAN) {
        request->seat = kind->routes[candidate].seat;
        request->joins = !trial->in_tcad;
        request->below = trial->no_pair && plan->made_count == 0;
    } else {
        request->chains = kind->chains;
        request->rail = kind->routes[candidate].rail;
    }
    tell(plan, kind);
}

static bool send_again(struct tca_plan *plan)
{
    struct route_trial *trial = plan->route_trial;
    bool unsent = false;
    for (uint32_t i = 0; i < trial->kind_count; i++) {
        if (trial->kinds[i].unsent)
            tell(plan, &trial->kinds[i]);
        unsent |= trial->kinds[i].unsent;
    }
    return unsent;
}

/* ---- trying ---- */

/* One plan of a session after the other tries: the moves of one hold up its starts, for which
 * others would be blamed. One that has not been started for a while loses its turn. */
static bool take_turn(struct tca_plan *plan, uint64_t now_ns)
{
    struct tca *session = plan->session;
    if (session->tries != plan && session->tries && now_ns - session->tries_ns < TURN_NS)
        return false;
    session->tries = plan;
    session->tries_ns = now_ns;
    return true;
}

static void begin_kind(struct tca_plan *plan);

static void end_kind(struct tca_plan *plan)
{
    struct route_trial *trial = plan->route_trial;
    struct route_kind *kind = kind_of(trial);
    const bool found = trial->choose.found;
    kind->known = true;
    kind->choice = trial->choose.route;
    if (found) {
        note(plan, kind);
        show(plan, kind);
    }
    if (kind->first == WHOLE_PLAN) {
        trial->at = trial->kind_count;
        trial->next = (enum seat)kind->routes[kind->choice].seat;
        trial->ends = true;
        trial_set_tries(plan, true);
    } else {
        ask(plan, kind, kind->choice, found);
        begin_kind(plan);
    }
}

static void carry_out(struct tca_plan *plan, enum route_order order)
{
    struct route_trial *trial = plan->route_trial;
    struct route_kind *kind = kind_of(trial);
    const unsigned route = trial->choose.route;
    if (order == ROUTE_END) {
        end_kind(plan);
    } else if (order != ROUTE_GO_ON && !tries_seats(trial)) {
        ask(plan, kind, route, false);
    } else if (order == ROUTE_TAKE && !trial->in_tcad) {
        ask(plan, kind, TCAD, false);
    } else if (order == ROUTE_TAKE) {
        trial->next = (enum seat)kind->routes[route].seat;
        route_choose_moved(&trial->choose, true);
    } /* else ROUTE_DRAIN: when the start is complete, trial_route_holds() */
}

/* Begins the trial of the next kind that needs one. */
static void begin_kind(struct tca_plan *plan)
{
    struct route_trial *trial = plan->route_trial;
    const uint64_t seed = plan->session->trial_effects->now_ns() ^ plan->session->id << 32;
    while (trial->at < trial->kind_count && trial->kinds[trial->at].known)
        trial->at++;
    if (trial->at == trial->kind_count)
        return;
    const struct route_kind *kind = &trial->kinds[trial->at];
    carry_out(plan, tries_seats(trial)
                        ? route_choose_begin_here(&trial->choose, HERE, seed)
                        : route_choose_begin(&trial->choose, kind->count, kind->choice, seed));
}

/* ---- starts ---- */

/* The receipt of the last start is not asked for any more. */
static void take_seat(struct tca_plan *plan, enum seat seat)
{
    plan->first_seat = seat;
    plan->paired = seat == SEAT_CLIENT;
    plan->client_count = plan->paired ? plan->chain_count : 0;
    plan->daemon_count = plan->chain_count - plan->client_count;
    plan->first_rail = plan->route_trial->kinds[0].routes[plan->paired ? HERE : TCAD].rail;
    order_moved(plan);
}

/* In tcad's seat, without having found that to be the fastest: the last start was the last one that
 * could use a pair. */
static void tell_end(struct tca_plan *plan)
{
    struct route_trial *trial = plan->route_trial;
    const struct route_choose *choose = &trial->choose;
    trial->ends = false;
    if (!trial->in_tcad)
        return;
    if (choose->route == TCAD && !choose->found) {
        plan->session->trial_effects->drop(plan);
        trial->no_pair = trial->no_pair ? trial->no_pair : -ENETDOWN;
    }
    ask(plan, &trial->kinds[0], choose->route, choose->found);
}

void trial_route_start(struct tca_plan *plan)
{
    struct route_trial *trial = plan->route_trial;
    const uint64_t now_ns = plan->session->trial_effects->now_ns();
    const bool seats = tries_seats(trial);
    if (seats && trial->next != plan->first_seat)
        take_seat(plan, trial->next);
    if (trial->ends)
        tell_end(plan);
    if (send_again(plan))
        return;
    if (trial->choose.state != ROUTE_OVER) {
        if (take_turn(plan, now_ns))
            carry_out(plan, route_choose_start(&trial->choose, now_ns));
    } else if (trial->at == trial->kind_count) {
        trial_set_tries(plan, false);
    } else if (++trial->starts > (seats ? SEAT_STARTS : RAIL_STARTS) && take_turn(plan, now_ns)) {
        begin_kind(plan);
    }
}

bool trial_route_holds(struct tca_plan *plan)
{
    struct route_trial *trial = plan->route_trial;
    if (!trial || !tries_seats(trial) || trial->choose.state != ROUTE_DRAINS || plan->status < 0 ||
        plan->broken)
        return false;
    trial->held = true;
    trial->held_ns = plan->session->trial_effects->now_ns();
    if (plan->daemon_count > 0)
        ask(plan, &trial->kinds[0], TCAD, false);
    else
        plan->session->trial_effects->flush(plan);
    return true;
}

bool trial_route_arrived(struct tca_plan *plan)
{
    struct route_trial *trial = plan->route_trial;
    const struct trial_effects *effects = plan->session->trial_effects;
    if (!trial)
        return true;
    send_again(plan);
    if (trial->choose.state == ROUTE_DRAINS && plan->daemon_count == 0 && effects->flushed(plan))
        carry_out(plan, route_choose_arrived(&trial->choose, effects->now_ns() - trial->held_ns));
    trial->held = trial->choose.state == ROUTE_DRAINS;
    return !trial->held;
}

void trial_route_late(struct tca_plan *plan)
{
    plan->route_trial->held = false;
    carry_out(plan, route_choose_late(&plan->route_trial->choose));
}

/* ---- rails ---- */

/* Both have been keyed. */
static bool is_of_kind(const struct route_trial *trial, uint32_t chain,
                       const struct route_kind *kind)
{
    return trial->rails[chain] == trial->rails[kind->first] &&
           route_keys_same(&trial->keys, chain, kind->first);
}

/* The rail of the commit is tried in any case, and others as far as there is room. */
static void kind_init(const struct tca_plan *plan, struct route_kind *kind, uint32_t chain)
{
    const struct route_trial *trial = plan->route_trial;
    const uint32_t rails = trial->rails[chain];
    const uint32_t usual =
        rails & 1u << trial->usual[chain] ? trial->usual[chain] : trial->bound[chain];
    *kind = (struct route_kind){.first = chain,
                                .count = 1,
                                .request.rail = trial->bound[chain],
                                .routes = {{(uint8_t)usual, SEAT_DAEMON}}};
    for (uint32_t rail = 1; rail <= plan->session->rails.count; rail++)
        if (rails & 1u << rail && rail != usual && kind->count < TRIAL_MODES_MAX)
            kind->routes[kind->count++] = (struct tried_route){(uint8_t)rail, SEAT_DAEMON};
}

static void find_kinds(struct tca_plan *plan)
{
    struct route_trial *trial = plan->route_trial;
    trial->kind_count = 0;
    for (uint32_t i = 0; i < plan->chain_count; i++) {
        uint32_t at = 0;
        if (trial->rails[i] == 0)
            continue;
        route_key(plan, &trial->keys, i);
        while (at < trial->kind_count && !is_of_kind(trial, i, &trial->kinds[at]))
            at++;
        if (at == trial->kind_count && at < TRIAL_KINDS_MAX)
            kind_init(plan, &trial->kinds[trial->kind_count++], i);
        if (at < trial->kind_count)
            trial->kinds[at].chains |= 1ull << i;
    }
}

/* Chains whose rail is known move there at once. */
static void begin_rails(struct tca_plan *plan)
{
    struct route_trial *trial = plan->route_trial;
    const bool frozen = plan->session->settings.tune == TUNE_FROZEN || trial->trials == TRIALS_MAX;
    bool any = false;
    find_kinds(plan);
    trial->choose = (struct route_choose){.state = ROUTE_OVER};
    trial->starts = 0;
    trial->at = trial->kind_count;
    for (uint32_t i = trial->kind_count; i-- > 0;) {
        struct route_kind *kind = &trial->kinds[i];
        kind->known = is_known(plan, kind) || frozen;
        if (!kind->known)
            trial->at = i;
        else if (kind->request.rail != kind->routes[kind->choice].rail)
            ask(plan, kind, kind->choice, true);
        any |= !kind->known || kind->unsent;
    }
    trial->trials += any;
    trial_set_tries(plan, any);
}

/* ---- seats ---- */

/* There is a pair. */
static void begin_seats(struct tca_plan *plan, uint32_t rail)
{
    struct route_trial *trial = plan->route_trial;
    trial->kinds[0] = (struct route_kind){
        .first = WHOLE_PLAN,
        .count = SEATS,
        .known = true,
        .routes = {[HERE] = {(uint8_t)rail, SEAT_CLIENT},
                   [TCAD] = {(uint8_t)trial->bound[0], SEAT_DAEMON}},
    };
    trial->kind_count = trial->at = 1;
    trial->no_pair = 0;
}

/* tcad has no part in the plan: it may be tried. */
static void offer_tcad(struct tca_plan *plan)
{
    struct route_trial *trial = plan->route_trial;
    struct route_kind *kind = &trial->kinds[0];
    kind->known = !trial->offered || plan->session->settings.tune != TUNE_ON ||
                  (is_known(plan, kind) && kind->choice == HERE);
    trial->at = kind->known;
    trial->starts = 0;
    trial->offered = false;
}

static bool is_whole(const struct tca_plan *plan, const Tca__PlanCommitted *committed)
{
    if (!committed || committed->n_chains != plan->chain_count)
        return false;
    for (uint32_t i = 0; i < plan->chain_count; i++)
        if (committed->chains[i]->seat != SEAT_CLIENT || committed->chains[i]->rail == 0 ||
            committed->chains[i]->rail > plan->session->rails.count)
            return false;
    return true;
}

/* The start that runs, or else the next one, is held until all data has arrived. */
void trial_route_paired(struct tca_plan *plan, const Tca__PlanCommitted *committed)
{
    struct route_trial *trial = plan->route_trial;
    if (!trial || !trial->rises || !trial->no_pair || plan->made_count > 0 || plan->broken ||
        !is_whole(plan, committed))
        return;
    trial->no_pair = plan->session->trial_effects->bind(plan, committed);
    if (trial->no_pair < 0)
        return; /* tcad goes on */
    begin_seats(plan, committed->chains[0]->rail);
    trial->offered = committed->seats;
    trial->next = SEAT_DAEMON;
    route_choose_only(&trial->choose, TCAD, HERE);
    trial_set_tries(plan, true);
}

/* tcad takes no starts: one that runs there fails, and the next one is run here. */
static void leave_tcad(struct tca_plan *plan, const char *reason)
{
    struct route_trial *trial = plan->route_trial;
    if (trial->no_pair) {
        plan_break(plan, trial->no_pair, reason);
        return;
    }
    route_choose_give_up(&trial->choose, HERE);
    end_kind(plan);
    offer_tcad(plan);
}

bool trial_route_goes_on(struct tca_plan *plan, int error)
{
    struct route_trial *trial = plan->route_trial;
    if (!trial || !tries_seats(trial) || !trial->in_tcad || error == -EOWNERDEAD ||
        error == -EHOSTDOWN || (trial->next != SEAT_DAEMON && plan->daemon_count == 0))
        return false;
    const bool stays = trial->choose.found && trial->choose.route == TCAD;
    trial->no_pair = error;
    if (!stays && plan->made_count > 0) {
        route_choose_give_up(&trial->choose, TCAD);
        end_kind(plan);
    }
    return true;
}

/* ---- beginning and ending ---- */

static void note_rail(struct tca_plan *plan, uint32_t chain, uint32_t rail, uint32_t rails)
{
    plan->route_trial->bound[chain] = rail;
    plan->route_trial->rails[chain] = may_try_rails(plan) ? rails : 0;
}

void trial_route_begin(struct tca_plan *plan, const Tca__PlanCommitted *committed)
{
    struct route_trial *trial = plan->route_trial;
    if (!trial)
        return;
    for (uint32_t i = 0; i < plan->chain_count; i++) {
        note_rail(plan, i, committed->chains[i]->rail, committed->chains[i]->rails);
        trial->usual[i] = trial->bound[i];
    }
    trial->in_tcad = plan->daemon_count > 0;
    trial->next = plan->first_seat;
    if (trial->in_tcad) {
        trial->no_pair = -ENETDOWN;
        trial->rises &= committed->rises && plan->daemon_count == plan->chain_count;
        if (trial->rises || trial->known || may_try_rails(plan)) {
            begin_rails(plan);
            return;
        }
    } else if (trial->rises && plan->paired && plan->chain_count > 0) {
        trial->offered = committed->seats;
        begin_seats(plan, plan->first_rail);
        offer_tcad(plan);
        if (!trial->kinds[0].known) {
            trial_set_tries(plan, true);
            return;
        }
    }
    trial_route_end(plan);
}

static bool is_sound(const struct tca_plan *plan, const Tca__RouteChanged *changed)
{
    if (changed->n_routes != plan->chain_count || plan->chain_count == 0)
        return false;
    for (uint32_t i = 0; i < plan->chain_count; i++)
        if (changed->routes[i]->rail == 0 || changed->routes[i]->rail > plan->session->rails.count)
            return false;
    return true;
}

/* To the last request. */
static void take_answer(struct tca_plan *plan, uint64_t flush_ns)
{
    struct route_trial *trial = plan->route_trial;
    const struct route_kind *kind = kind_of(trial);
    if (trial->choose.state == ROUTE_MOVES)
        carry_out(plan, route_choose_moved(&trial->choose,
                                           tries_seats(trial) ||
                                               trial->bound[kind->first] == kind->request.rail));
    else if (trial->held || !tries_seats(trial))
        carry_out(plan, route_choose_arrived(&trial->choose, flush_ns));
}

void trial_route_changed(struct tca_plan *plan, const Tca__RouteChanged *changed)
{
    struct route_trial *trial = plan->route_trial;
    bool others = false;
    if (!trial || !is_sound(plan, changed))
        return;
    trial->answered = changed->turn;
    trial->in_tcad = false;
    for (uint32_t i = 0; i < plan->chain_count; i++) {
        const uint32_t before = trial->rails[i];
        note_rail(plan, i, changed->routes[i]->rail, changed->routes[i]->may_try);
        others |= trial->rails[i] != before;
        trial->in_tcad |= changed->routes[i]->seat == SEAT_DAEMON;
    }
    if (tries_seats(trial) && trial->in_tcad)
        trial->kinds[0].routes[TCAD].rail = (uint8_t)trial->bound[0];
    if (!trial->in_tcad)
        leave_tcad(plan, *changed->reason
                             ? changed->reason
                             : "tcad lost the rail to its receiver, and so did the process");
    else if (others && !tries_seats(trial))
        begin_rails(plan);
    else if (changed->turn >= trial->due)
        take_answer(plan, changed->flush_ns);
    order_changed(plan);
}

/* ---- for others ---- */

bool trial_route_in_tcad(const struct tca_plan *plan)
{
    return plan->route_trial && plan->route_trial->in_tcad;
}

bool trial_route_below(const struct tca_plan *plan)
{
    const struct route_trial *trial = plan->route_trial;
    return trial && trial->in_tcad && (trial->rises || trial->known);
}

bool trial_route_flush(struct tca_plan *plan)
{
    Tca__PlanTry request = TCA__PLAN_TRY__INIT;
    request.plan = plan->id;
    request.turn = plan->route_trial->flush = ++plan->route_trial->turn;
    return plan->session->trial_effects->tell(plan, &request);
}

bool trial_route_flushed(const struct tca_plan *plan)
{
    const struct route_trial *trial = plan->route_trial;
    return !trial->in_tcad || trial->answered >= trial->flush;
}

void trial_route_end(struct tca_plan *plan)
{
    if (!plan->route_trial)
        return;
    if (plan->flags & PLAN_TRIES)
        trial_set_tries(plan, false);
    if (plan->state != PLAN_BUILDING)
        trial_lines_hide(plan);
    free(plan->route_trial);
    plan->route_trial = NULL;
}
