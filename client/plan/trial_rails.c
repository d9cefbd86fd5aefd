#include "client/plan/trial_rails.h"

#include <stdlib.h>
#include <string.h>

#include "client/core/clock.h"
#include "client/core/session.h"
#include "client/core/wisdom.h"
#include "client/layout/layout.h"
#include "client/plan/plan.h"
#include "client/plan/trial.h"
#include "client/plan/trial_lines.h"
#include "client/plan/tune.h"
#include "proto/handle.h"
#include "proto/siphash.h"

enum {
    FIRST_STARTS = 8, /* to touch all pages and buffers */
    STRETCH = TUNE_STRETCH_MAX,
    TRIALS_MAX = 8, /* of a plan: rails that keep coming and going are not worth more */
};

#define TURN_NS UINT64_C(1000000000)

/* Chains that try together. */
struct kind {
    uint64_t chains; /* one bit each */
    uint32_t first;  /* the first one */
    unsigned count;  /* of `rails`; */
    unsigned choice; /* index in them: found, known or, before the trial, used anyway */
    bool known;      /* nothing to try */
    bool unsent;     /* tcad was not told to move to: */
    uint32_t asked;  /* the rail, */
    bool found;      /* with which the trial has ended */
    uint8_t rails[TRIAL_MODES_MAX];
};

struct rail_trial {
    enum plan_pace pace; /* without trials */
    enum {
        RUNS,   /* starts are counted */
        DRAINS, /* the block is over: waits until its data has arrived */
        MOVES,  /* waits until the chains are on the next block's rail */
    } state;
    uint32_t turn;   /* of the last request to tcad */
    uint32_t trials; /* begun so far */
    uint32_t starts;
    uint64_t ended_ns;       /* DRAINS: the block */
    uint32_t at, kind_count; /* the kind that tries now */
    struct tune tune;
    struct kind kinds[TRIAL_KINDS_MAX]; /* chains of further kinds stay where they are */
    /* by chain */
    uint64_t keys[PLAN_CHAINS_MAX][2]; /* in wisdom */
    uint32_t bound[PLAN_CHAINS_MAX];   /* rail, as tcad said last */
    uint32_t usual[PLAN_CHAINS_MAX];   /* of the commit */
    uint32_t rails[PLAN_CHAINS_MAX];   /* to try, one bit each */
};

/* ---- what is known ---- */

static void mix(uint64_t key[2], const void *data, size_t bytes)
{
    const uint64_t before[2] = {key[0], key[1]};
    siphash_128(before, data, bytes, key);
}

static uint32_t node_of_rank(const struct tca *session, uint32_t rank)
{
    return session->members && rank < session->sources ? session->members[rank].node : 0;
}

static void mix_step(const struct tca *session, const struct step *step, uint64_t key[2])
{
    struct handle handle = {0};
    if (step->kind == STEP_PUT)
        handle_decode(step->put.handle, &handle);
    else
        handle.node = node_of_rank(session, step->notification.rank);
    mix(key, (uint32_t[]){(uint32_t)step->kind, handle.node, step->flush}, 3 * sizeof(uint32_t));
    if (step->kind != STEP_PUT)
        return;
    const struct layout *source = step->put.source_layout->program,
                        *target = step->put.target_layout->program;
    mix(key, source, layout_bytes(source));
    mix(key, target, layout_bytes(target));
}

/* The node numbers are part of it: the same rail may lead to one node better than to another. */
static void find_key(const struct tca_plan *plan, uint32_t chain, uint64_t ret_key[2])
{
    wisdom_seed(ret_key);
    mix(ret_key, &plan->session->node, sizeof plan->session->node);
    for (uint32_t i = plan->chain_first[chain]; i < plan_chain_end(plan, chain); i++)
        mix_step(plan->session, &plan->steps[i], ret_key);
}

/* Identifies a choice of rails: with others, a new trial is due. */
static uint32_t hash_rails(const struct tca *session, uint32_t rails)
{
    uint64_t hash[2] = {0};
    for (uint32_t rail = 1; rail <= session->rails.count; rail++)
        if (rails & 1u << rail)
            mix(hash, session->rails.at[rail].name, strlen(session->rails.at[rail].name));
    return (uint32_t)hash[0];
}

static bool may_try(const struct tca_plan *plan, enum tca_seat seat)
{
    return seat == TCA_SEAT_ANY && plan->session->settings.tune != TUNE_OFF &&
           plan->session->rails.count > 2 && /* shm and one more: no choice */
           !(plan->flags & (TCA_PLAN_REPEAT | TCA_PLAN_PREFER));
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
        uint64_t *key = plan->rail_trial->keys[i];
        find_key(plan, i, key);
        const struct wisdom_entry *entry = wisdom_find(wisdom, key, 0);
        ret_known->rails[i] = (char *)(entry ? entry->rail : "");
    }
    return true;
}

/* Whether an earlier trial has chosen among the same rails. */
static bool is_known(const struct tca_plan *plan, struct kind *kind)
{
    const struct tca *session = plan->session;
    const struct rail_trial *trial = plan->rail_trial;
    const struct wisdom_entry *entry = wisdom_find(session->wisdom, trial->keys[kind->first], 0);
    if (!entry || entry->rails != hash_rails(session, trial->rails[kind->first]))
        return false;
    for (unsigned i = 0; i < kind->count; i++) {
        if (strcmp(session->rails.at[kind->rails[i]].name, entry->rail) != 0)
            continue;
        kind->choice = i;
        return true;
    }
    return false;
}

static void note(const struct tca_plan *plan, const struct kind *kind)
{
    const struct rail_trial *trial = plan->rail_trial;
    const struct tca *session = plan->session;
    uint64_t blocks = 0;
    struct wisdom_entry entry = {
        .key = {trial->keys[kind->first][0], trial->keys[kind->first][1]},
        .ns = tune_quartile_ns(&trial->tune, kind->choice),
        .rails = hash_rails(session, trial->rails[kind->first]),
        .way = WAY_NONE,
    };
    for (uint32_t i = plan->chain_first[kind->first]; i < plan_chain_end(plan, kind->first); i++) {
        const struct step *step = &plan->steps[i];
        if (step->kind != STEP_PUT)
            continue;
        const struct layout *a = step->put.source_layout->program,
                            *b = step->put.target_layout->program;
        entry.bytes += a->size_bytes;
        blocks += a->block_count > b->block_count ? a->block_count : b->block_count;
    }
    entry.blocks = blocks < UINT32_MAX ? (uint32_t)blocks : UINT32_MAX;
    memcpy(entry.rail, session->rails.at[kind->rails[kind->choice]].name, sizeof entry.rail);
    wisdom_add(session->wisdom, &entry);
}

/* For tcactl plan explain. */
static void show(const struct tca_plan *plan, uint32_t number)
{
    const struct kind *kind = &plan->rail_trial->kinds[number];
    uint32_t modes[TRIAL_MODES_MAX];
    for (unsigned i = 0; i < kind->count; i++)
        modes[i] = TRIAL_RAIL | kind->rails[i] * 65536u;
    trial_lines_show(plan, number,
                     &(struct trial_shown){.tune = &plan->rail_trial->tune,
                                           .first = kind->first,
                                           .count = kind->count,
                                           .choice = kind->choice,
                                           .modes = modes});
}

/* ---- sorting into kinds ---- */

static bool is_of_kind(const struct rail_trial *trial, uint32_t chain, const struct kind *kind)
{
    return trial->rails[chain] == trial->rails[kind->first] &&
           memcmp(trial->keys[chain], trial->keys[kind->first], sizeof trial->keys[0]) == 0;
}

/* The rail of the commit is tried in any case, and others as far as there is room. */
static void kind_init(const struct tca_plan *plan, struct kind *kind, uint32_t chain)
{
    const struct rail_trial *trial = plan->rail_trial;
    const uint32_t rails = trial->rails[chain];
    const uint32_t usual =
        rails & 1u << trial->usual[chain] ? trial->usual[chain] : trial->bound[chain];
    *kind = (struct kind){.first = chain, .asked = trial->bound[chain]};
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
        while (at < trial->kind_count && !is_of_kind(trial, i, &trial->kinds[at]))
            at++;
        if (at == trial->kind_count && at < TRIAL_KINDS_MAX)
            kind_init(plan, &trial->kinds[trial->kind_count++], i);
        if (at < trial->kind_count)
            trial->kinds[at].chains |= 1ull << i;
    }
}

/* ---- requests ---- */

static void tell(struct tca_plan *plan, struct kind *kind)
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
static void ask(struct tca_plan *plan, struct kind *kind, unsigned candidate, bool found)
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

static void set_tries(struct tca_plan *plan, bool on)
{
    plan->pace = on ? PACE_MEASURED : plan->rail_trial->pace;
    plan->flags = on ? plan->flags | PLAN_TRIES : plan->flags & ~PLAN_TRIES;
    if (!on && plan->session->tries_rails == plan)
        plan->session->tries_rails = NULL;
}

static void go_to_candidate(struct tca_plan *plan)
{
    struct rail_trial *trial = plan->rail_trial;
    ask(plan, &trial->kinds[trial->at], tune_candidate(&trial->tune), false);
    trial->state = MOVES;
}

/* Begins the trial of the next kind that needs one. */
static void begin_kind(struct tca_plan *plan)
{
    struct rail_trial *trial = plan->rail_trial;
    while (trial->at < trial->kind_count && trial->kinds[trial->at].known)
        trial->at++;
    trial->state = RUNS;
    if (trial->at == trial->kind_count)
        return;
    const struct kind *kind = &trial->kinds[trial->at];
    tune_init(&trial->tune, kind->count, kind->choice, STRETCH,
              clock_now_ns() ^ plan->session->id << 32);
    go_to_candidate(plan);
}

static void end_kind(struct tca_plan *plan, bool found)
{
    struct rail_trial *trial = plan->rail_trial;
    struct kind *kind = &trial->kinds[trial->at];
    kind->known = true;
    ask(plan, kind, kind->choice, found);
    if (found) {
        note(plan, kind);
        show(plan, trial->at);
    }
    begin_kind(plan);
}

/* One plan of a session after the other: the moves of one hold up its starts, for which others would be blamed. One that
 * has not been started for a while loses its turn. */
static bool take_turn(struct tca_plan *plan, uint64_t now_ns)
{
    struct tca *session = plan->session;
    if (session->tries_rails != plan && session->tries_rails &&
        now_ns - session->tries_rails_ns < TURN_NS)
        return false;
    session->tries_rails = plan;
    session->tries_rails_ns = now_ns;
    return true;
}

void trial_rails_start(struct tca_plan *plan)
{
    struct rail_trial *trial = plan->rail_trial;
    if (send_again(plan))
        return;
    if (trial->state == RUNS && trial->at == trial->kind_count) {
        set_tries(plan, false);
        return;
    }
    if (trial->starts < FIRST_STARTS) {
        trial->starts++;
        return;
    }
    const uint64_t now_ns = clock_now_ns();
    if (!take_turn(plan, now_ns) || trial->state != RUNS)
        return;
    if (trial->starts == FIRST_STARTS) {
        trial->starts++;
        begin_kind(plan);
        return;
    }
    if (!tune_over(&trial->tune)) {
        tune_start(&trial->tune, now_ns);
        return;
    }
    trial->ended_ns = now_ns;
    trial->state = DRAINS;
    tell(plan, &trial->kinds[trial->at]);
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
    trial->state = RUNS;
    for (uint32_t i = 0; i < trial->kind_count; i++) {
        struct kind *kind = &trial->kinds[i];
        kind->known = is_known(plan, kind) || frozen;
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
    struct kind *kind = &trial->kinds[trial->at];
    if (trial->state == MOVES && trial->bound[kind->first] == kind->asked) {
        trial->state = RUNS;
        return;
    }
    if (trial->state == MOVES) { /* it does not lead there after all */
        end_kind(plan, false);
        return;
    }
    tune_end(&trial->tune, trial->ended_ns, flush_ns);
    if (tune_settled(&trial->tune)) {
        kind->choice = tune_candidate(&trial->tune);
        end_kind(plan, true);
    } else if (kind->asked == kind->rails[tune_candidate(&trial->tune)]) {
        trial->state = RUNS;
    } else {
        go_to_candidate(plan);
    }
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
    else if (trial->state != RUNS && event->turn == trial->turn)
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
