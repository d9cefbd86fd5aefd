#include "client/plan/trial.h"

#include <stdlib.h>
#include <unistd.h>

#include "client/core/clock.h"
#include "client/core/session.h"
#include "client/core/wisdom.h"
#include "client/plan/plan.h"
#include "client/plan/trial_kinds.h"
#include "client/plan/trial_lines.h"
#include "client/plan/trial_rails.h"
#include "client/plan/tune.h"
#include "drivers/shm/share.h"
#include "proto/load.h"

enum {
    KINDS_MAX = TRIAL_KINDS_MAX, /* puts of further kinds are copied as predicted */
    FIRST_STARTS = 8,            /* to measure the distance, and to touch all pages and lanes */
    /* reviews, SLICE_NS apart, that find another distance; a single one may have been disturbed */
    MOVED_REVIEWS = 3,
    PAUSE_MAX = 600, /* reviews */
};
#define LEADS_NS UINT64_C(10000000) /* a plan that is not started for so long leads no more */
static_assert((int)COPY_MODES_MAX <= (int)TUNE_CANDIDATES_MAX, "all modes can be tried");

struct trial {
    enum plan_pace pace; /* without trials */
    uint32_t starts;
    uint32_t kind_count;
    uint32_t at;             /* the kind that tries now */
    unsigned now;            /* its mode of the last start */
    uint32_t moved;          /* consecutive reviews that found another distance */
    uint32_t pause, paused;  /* reviews between two trials, doubled each time; those so far */
    uint64_t start_ns;       /* of the last start while it tried */
    struct tca_plan *leader; /* tries the same; NULL: this plan tries by itself */
    struct tune tune;
    struct kind kinds[KINDS_MAX];
};

/* ---- trying ---- */

static void set_mode(struct tca_plan *plan, uint32_t number, unsigned mode)
{
    for (uint32_t i = 0; i < plan->unit_count; i++)
        if (plan->units[i].tried && plan->units[i].kind == number)
            shm_put_mode(plan->units[i].put, &plan->trial->kinds[number].modes[mode]);
}

static void set_tries(struct tca_plan *plan, bool on)
{
    struct trial *trial = plan->trial;
    plan->pace = on ? PACE_MEASURED : trial->pace;
    plan->flags = on ? plan->flags | PLAN_TRIES : plan->flags & ~PLAN_TRIES;
}

/* Whether a plan that is started again and again tries this kind by itself. */
static bool leads(const struct tca_plan *plan, const struct kind *kind, uint64_t now_ns)
{
    const struct trial *trial = plan->trial;
    if (!trial || trial->leader || !(plan->flags & PLAN_TRIES) || trial->at >= trial->kind_count ||
        now_ns - trial->start_ns >= LEADS_NS)
        return false;
    return kinds_alike(&trial->kinds[trial->at], kind);
}

/* Plans that put alike in turn, as those of a halo exchange with two buffers, would measure each
 * other's trials: only one of a session tries, and the others copy as it does. */
static struct tca_plan *find_leader(struct tca_plan *plan, const struct kind *kind, uint64_t now_ns)
{
    struct tca_plan *other = plan->session->plans;
    while (other && (other == plan || !leads(other, kind, now_ns)))
        other = other->next;
    return other;
}

/* Whether there is nothing to try: another plan may have found the mode meanwhile. */
static bool is_known(struct tca_plan *plan, uint32_t number)
{
    struct kind *kind = &plan->trial->kinds[number];
    if (!kind->known && (kind->known = kind_is_known(kind, plan->session->wisdom)))
        set_mode(plan, number, kind->choice);
    return kind->known;
}

/* Begins the trial of the next kind that needs one, or ends. */
static void begin_kind(struct tca_plan *plan)
{
    struct trial *trial = plan->trial;
    trial->leader = NULL;
    while (trial->at < trial->kind_count && is_known(plan, trial->at))
        trial->at++;
    if (trial->at == trial->kind_count) {
        set_tries(plan, false);
        return;
    }
    const struct kind *kind = &trial->kinds[trial->at];
    trial->now = kind->choice;
    trial->leader = find_leader(plan, kind, clock_now_ns());
    /* Processes that put alike to each other, as in a halo exchange, start such plans equally often, and try the same
     * modes in the same iterations. Those that do not are of different seeds. */
    if (!trial->leader)
        tune_init(&trial->tune, kind->mode_count, kind->choice, 1, kind->key[0]);
}

static void end_kind(struct tca_plan *plan)
{
    struct trial *trial = plan->trial;
    struct kind *kind = &trial->kinds[trial->at];
    kind->known = true;
    kind_note(kind, &trial->tune, plan->session->wisdom);
    kind_show(kind, &trial->tune, plan, trial->at);
    begin_kind(plan);
}

/* Measures the distance to each receiver. */
static void probe(struct tca_plan *plan)
{
    struct process *last = NULL;
    for (uint32_t i = 0; i < plan->unit_count; i++) {
        const struct unit *unit = &plan->units[i];
        if (unit->tried && unit->process != last)
            lane_probe(&unit->process->lane);
        last = unit->process;
    }
}

/* Each kind is copied in its known mode, or as predicted until its trial. */
static void begin_kinds(struct tca_plan *plan)
{
    struct trial *trial = plan->trial;
    const bool frozen = plan->session->settings.tune == TUNE_FROZEN;
    trial->kind_count = kinds_find(plan, trial->kinds, KINDS_MAX);
    for (uint32_t i = 0; i < trial->kind_count; i++) {
        struct kind *kind = &trial->kinds[i];
        set_mode(plan, i, kind->choice);
        kind->known = is_known(plan, i) || frozen;
    }
    trial->at = 0;
    begin_kind(plan);
}

static void use_mode(struct tca_plan *plan, unsigned mode)
{
    struct trial *trial = plan->trial;
    if (mode != trial->now)
        set_mode(plan, trial->at, mode);
    trial->kinds[trial->at].choice = trial->now = mode;
}

/* When the leader has ended its trial, the mode is known. */
static void follow(struct tca_plan *plan, uint64_t now_ns)
{
    struct trial *trial = plan->trial;
    struct kind *kind = &trial->kinds[trial->at];
    if (leads(trial->leader, kind, now_ns)) {
        use_mode(plan, trial->leader->trial->now);
        return;
    }
    set_mode(plan, trial->at, kind->choice);
    begin_kind(plan);
}

void trial_start(struct tca_plan *plan)
{
    struct trial *trial = plan->trial;
    if (trial->starts < FIRST_STARTS) {
        trial->starts++;
        probe(plan);
        return;
    }
    if (trial->starts++ == FIRST_STARTS)
        begin_kinds(plan);
    if (!(plan->flags & PLAN_TRIES))
        return;
    trial->start_ns = clock_now_ns();
    if (trial->leader) {
        follow(plan, trial->start_ns);
        return;
    }
    use_mode(plan, tune_start(&trial->tune, trial->start_ns));
    if (tune_settled(&trial->tune))
        end_kind(plan);
}

/* ---- beginning and ending ---- */

struct wisdom *trial_wisdom(struct tca *session)
{
    char path[WISDOM_PATH_BYTES];
    const char *why;
    if (session->wisdom || !(session->wisdom = calloc(1, sizeof *session->wisdom)) ||
        wisdom_path(path) < 0)
        return session->wisdom;
    wisdom_read(path, session->wisdom, &why);
    if (session->settings.tune == TUNE_ON)
        wisdom_doubt(session->wisdom, load_per_processor());
    return session->wisdom;
}

void trials_keep(struct tca *session)
{
    char path[WISDOM_PATH_BYTES];
    if (session->wisdom && session->control.pid == getpid() && wisdom_path(path) == 0)
        wisdom_write(path, session->wisdom, load_per_processor());
    free(session->wisdom);
    session->wisdom = NULL;
}

void trial_begin(struct tca_plan *plan)
{
    bool any = false;
    for (uint32_t i = 0; i < plan->unit_count; i++)
        any = any || plan->units[i].tried;
    /* Chains in the daemon's seat would distort the measurements, and rounds are not measured. */
    if (!any || plan->daemon_count > 0 || plan->flags & TCA_PLAN_REPEAT ||
        plan->session->settings.tune == TUNE_OFF || !trial_wisdom(plan->session))
        return;
    plan->trial = calloc(1, sizeof *plan->trial);
    if (!plan->trial)
        return;
    plan->trial->pace = plan->pace;
    plan->trial->pause = 1;
    set_tries(plan, true);
}

void trial_end(struct tca_plan *plan)
{
    if (!plan->trial)
        return;
    plan->trial->at = plan->trial->kind_count; /* leads no more */
    for (struct tca_plan *other = plan->session->plans; other; other = other->next)
        if (other->trial && other->trial->leader == plan)
            begin_kind(other);
    trial_lines_hide(plan);
    free(plan->trial);
    plan->trial = NULL;
}

/* ---- trying again ---- */

static bool has_moved(const struct trial *trial)
{
    for (uint32_t i = 0; i < trial->kind_count; i++) {
        const struct kind *kind = &trial->kinds[i];
        lane_probe(kind->lane);
        if (kind_has_moved(kind))
            return true;
    }
    return false;
}

static void review(struct tca_plan *plan)
{
    struct trial *trial = plan->trial;
    if (plan->flags & PLAN_TRIES || ++trial->paused < trial->pause)
        return;
    trial->moved = has_moved(trial) ? trial->moved + 1 : 0;
    if (trial->moved < MOVED_REVIEWS)
        return;
    /* Processes that keep moving between processors are not worth a trial. */
    trial->pause = 2 * trial->pause < PAUSE_MAX ? 2 * trial->pause : PAUSE_MAX;
    trial->paused = trial->moved = trial->starts = 0;
    set_tries(plan, true);
}

void trials_review(struct tca *session)
{
    for (struct tca_plan *plan = session->plans; plan; plan = plan->next)
        if (plan->trial && plan->state == PLAN_IDLE && !plan->broken)
            review(plan);
}
