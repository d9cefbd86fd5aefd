#include "client/plan/trial.h"

#include <stdlib.h>
#include <unistd.h>

#include "client/core/clock.h"
#include "client/core/session.h"
#include "client/core/wisdom.h"
#include "client/layout/layout.h"
#include "client/plan/pair.h"
#include "client/plan/plan.h"
#include "client/plan/tune.h"
#include "drivers/shm/copy_modes.h"
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

/* Puts that try together: those between layouts of the same shape, over the same distance. */
struct kind {
    const struct step *step; /* of the first one */
    uint32_t transfer;       /* the first one */
    struct lane *lane;       /* to its receiver */
    uint64_t key[2];         /* in wisdom */
    unsigned distance;       /* class of the distance */
    unsigned mode_count;
    unsigned choice; /* index in modes: the predicted, the known or the found one */
    bool known;      /* a trial has found it, in this run or an earlier one */
    struct copy_mode modes[COPY_MODES_MAX];
};

struct trial {
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

/* ---- for tcactl plan explain ---- */

static_assert((int)COPY_MODES_MAX <= (int)TRIAL_MODES_MAX, "all can be shown");

static struct trial_line *line_of(const struct tca_plan *plan, uint32_t kind)
{
    return &plan->session->segment->trials[trial_line_of(plan->id, kind)];
}

static void store(_Atomic uint32_t *to, uint32_t value)
{
    atomic_store_explicit(to, value, memory_order_relaxed);
}

void trial_lines_show(const struct tca_plan *plan, uint32_t kind, const struct trial_shown *shown)
{
    struct trial_line *line = line_of(plan, kind);
    store(&line->plan, 0);
    for (unsigned i = 0; i < shown->count; i++) {
        const float ns = tune_quartile_ns(shown->tune, i);
        store(&line->modes[i].mode, shown->modes[i]);
        store(&line->modes[i].blocks, shown->tune->records[i].blocks);
        store(&line->modes[i].ns, ns < 4e9f ? (uint32_t)ns : UINT32_MAX);
    }
    store(&line->transfer, shown->first);
    store(&line->count, shown->count);
    store(&line->choice, shown->choice);
    /* release: pairs with the daemon's acquire */
    atomic_store_explicit(&line->plan, plan->id + 1, memory_order_release);
}

void trial_lines_hide(const struct tca_plan *plan)
{
    for (uint32_t i = 0; i < TRIAL_KINDS_MAX; i++)
        if (atomic_load_explicit(&line_of(plan, i)->plan, memory_order_relaxed) == plan->id + 1)
            store(&line_of(plan, i)->plan, 0);
}

/* ---- kinds of puts ---- */

/* Distances within a factor of two or so are one: measurements vary, and so do machines. */
static unsigned distance_class(uint64_t ns)
{
    unsigned number = 0;
    for (; ns > 48 && number < WISDOM_DISTANCES - 1; ns /= 2)
        number++;
    return number;
}

/* Whether a measurement may belong to a class: near a boundary, to those on both sides. */
static bool is_within(uint32_t ns, unsigned distance)
{
    return distance_class(ns * UINT64_C(4) / 5) <= distance &&
           distance <= distance_class(ns * UINT64_C(5) / 4);
}

static bool keys_equal(const uint64_t a[2], const uint64_t b[2])
{
    return a[0] == b[0] && a[1] == b[1];
}

/* The mode that is predicted to be best. */
static unsigned predicted(const struct kind *kind, const struct layout *target,
                          const struct layout *source)
{
    const struct copy_choice choice = copy_choose(target, source);
    const enum copy_method method =
        kind->lane->distance_ns <= choice.up_to_ns ? choice.near : choice.far;
    const struct copy_mode mode = copy_mode_of(method, target, source);
    unsigned best = 0;
    for (unsigned i = kind->mode_count; i-- > 0;)
        if (copy_mode_equal(&kind->modes[i], &mode) ||
            (kind->modes[i].method == method && kind->modes[best].method != method))
            best = i;
    return best;
}

static void kind_init(struct kind *kind, const struct transfer *transfer, uint32_t number,
                      const uint64_t key[2])
{
    const struct layout *target = transfer->tried->put.target_layout->program,
                        *source = transfer->tried->put.source_layout->program;
    *kind = (struct kind){.step = transfer->tried,
                          .transfer = number,
                          .lane = &transfer->process->lane,
                          .key = {key[0], key[1]},
                          .distance = distance_class(transfer->process->lane.distance_ns)};
    kind->mode_count = copy_mode_candidates(target, source, true, kind->modes);
    kind->choice = predicted(kind, target, source);
}

/* Sorts the puts into kinds, and numbers them in transfer->kind; puts of further kinds have the
 * number KINDS_MAX. */
static void find_kinds(struct tca_plan *plan)
{
    struct trial *trial = plan->trial;
    const struct step *last = NULL;
    uint32_t count = 0;
    uint64_t key[2];
    for (uint32_t i = 0; i < plan->transfer_count; i++) {
        struct transfer *transfer = &plan->transfers[i];
        if (!transfer->tried)
            continue;
        /* plans often put between the same layouts again and again */
        if (!last || last->put.source_layout != transfer->tried->put.source_layout ||
            last->put.target_layout != transfer->tried->put.target_layout)
            wisdom_key(transfer->tried->put.target_layout->program,
                       transfer->tried->put.source_layout->program, key);
        last = transfer->tried;
        const unsigned distance = distance_class(transfer->process->lane.distance_ns);
        uint32_t at = 0;
        while (at < count &&
               !(keys_equal(trial->kinds[at].key, key) && trial->kinds[at].distance == distance))
            at++;
        transfer->kind = at;
        if (at == count && at < KINDS_MAX)
            kind_init(&trial->kinds[count++], transfer, i, key);
    }
    trial->kind_count = count;
}

/* Whether they would try the same. */
static bool kinds_alike(const struct kind *a, const struct kind *b)
{
    return keys_equal(a->key, b->key) && (a->distance == b->distance || a->lane == b->lane);
}

/* What an earlier trial has found over this distance; NULL: nothing. */
static const struct wisdom_entry *look_up(const struct kind *kind, const struct wisdom *wisdom)
{
    const uint32_t ns = kind->lane->distance_ns;
    const struct wisdom_entry *entry = wisdom_find(wisdom, kind->key, kind->distance);
    for (unsigned near = 0; !entry && near < WISDOM_DISTANCES; near++)
        if (is_within(ns, near))
            entry = wisdom_find(wisdom, kind->key, near);
    return entry;
}

/* Whether an earlier trial, which would try the same modes now, has found the mode: then it is the
 * choice. */
static bool kind_is_known(struct kind *kind, const struct wisdom *wisdom)
{
    const struct wisdom_entry *entry = look_up(kind, wisdom);
    for (unsigned i = 0; entry && i < kind->mode_count; i++) {
        const struct copy_mode *mode = &kind->modes[i];
        if (mode->method != entry->method || mode->stream != entry->stream ||
            mode->piece_bytes != entry->piece_bytes)
            continue;
        kind->choice = i;
        return true;
    }
    return false;
}

static void note(const struct kind *kind, const struct tune *tune, struct wisdom *wisdom)
{
    const struct layout *target = kind->step->put.target_layout->program,
                        *source = kind->step->put.source_layout->program;
    const struct copy_mode *mode = &kind->modes[kind->choice];
    const uint64_t blocks =
        target->block_count > source->block_count ? target->block_count : source->block_count;
    wisdom_add(wisdom,
               &(struct wisdom_entry){.key = {kind->key[0], kind->key[1]},
                                      .bytes = target->size_bytes,
                                      .blocks = blocks < UINT32_MAX ? (uint32_t)blocks : UINT32_MAX,
                                      .piece_bytes = mode->piece_bytes,
                                      .ns = tune_quartile_ns(tune, kind->choice),
                                      .distance = (uint8_t)kind->distance,
                                      .method = (uint8_t)mode->method,
                                      .stream = mode->stream});
}

/* For tcactl plan explain. */
static void show(const struct kind *kind, const struct tune *tune, const struct tca_plan *plan,
                 uint32_t number)
{
    uint32_t modes[COPY_MODES_MAX];
    for (unsigned i = 0; i < kind->mode_count; i++) {
        const struct copy_mode *mode = &kind->modes[i];
        modes[i] = (uint32_t)mode->method | (mode->stream ? 256u : 0) | mode->piece_bytes * 65536u;
    }
    trial_lines_show(plan, number,
                     &(struct trial_shown){.tune = tune,
                                           .first = kind->transfer,
                                           .count = kind->mode_count,
                                           .choice = kind->choice,
                                           .modes = modes});
}

/* ---- effects ---- */

static bool tell_tcad(struct tca_plan *plan, const Tca__PlanTry *request)
{
    const Tca__Message message = REQUEST(PLAN_TRY, plan_try, (Tca__PlanTry *)request);
    return control_tell(&plan->session->control, &message);
}

const struct trial_effects trial_effects = {
    .now_ns = clock_now_ns,
    .probe = lane_probe,
    .set_mode = shm_put_mode,
    .tell = tell_tcad,
    .flush = pairs_flush,
    .flushed = pairs_flushed,
    .bind = plan_bind_pairs,
    .drop = plan_drop_chains,
};

/* ---- trying ---- */

void trial_set_tries(struct tca_plan *plan, bool on)
{
    plan->pace = on ? PACE_MEASURED : plan_pace(plan);
    plan->flags = on ? plan->flags | PLAN_TRIES : plan->flags & ~PLAN_TRIES;
    if (!on && plan->session->tries == plan)
        plan->session->tries = NULL;
}

static void set_mode(struct tca_plan *plan, uint32_t number, unsigned mode)
{
    for (uint32_t i = 0; i < plan->transfer_count; i++)
        if (plan->transfers[i].tried && plan->transfers[i].kind == number)
            plan->session->trial_effects->set_mode(plan->transfers[i].put,
                                                   &plan->trial->kinds[number].modes[mode]);
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
        trial_set_tries(plan, false);
        return;
    }
    const struct kind *kind = &trial->kinds[trial->at];
    trial->now = kind->choice;
    trial->leader = find_leader(plan, kind, plan->session->trial_effects->now_ns());
    /* Processes that put alike to each other, as in a halo exchange, start such plans equally
     * often, and try the same modes in the same iterations. Those that do not are of different
     * seeds. */
    if (!trial->leader)
        tune_init(&trial->tune, kind->mode_count, kind->choice, 1, kind->key[0]);
}

static void end_kind(struct tca_plan *plan)
{
    struct trial *trial = plan->trial;
    struct kind *kind = &trial->kinds[trial->at];
    kind->known = true;
    note(kind, &trial->tune, plan->session->wisdom);
    show(kind, &trial->tune, plan, trial->at);
    begin_kind(plan);
}

/* Measures the distance to each receiver. */
static void probe(struct tca_plan *plan)
{
    struct process *last = NULL;
    for (uint32_t i = 0; i < plan->transfer_count; i++) {
        const struct transfer *transfer = &plan->transfers[i];
        if (transfer->tried && transfer->process != last)
            plan->session->trial_effects->probe(&transfer->process->lane);
        last = transfer->process;
    }
}

/* Each kind is copied in its known mode, or as predicted until its trial. */
static void begin_kinds(struct tca_plan *plan)
{
    struct trial *trial = plan->trial;
    const bool frozen = plan->session->settings.tune == TUNE_FROZEN;
    find_kinds(plan);
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
    trial->start_ns = plan->session->trial_effects->now_ns();
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
    if (session->wisdom || !(session->wisdom = calloc(1, sizeof(*session->wisdom))) ||
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
    if (session->wisdom && !control_is_inherited(&session->control) && wisdom_path(path) == 0)
        wisdom_write(path, session->wisdom, load_per_processor());
    free(session->wisdom);
    session->wisdom = NULL;
}

void trial_begin(struct tca_plan *plan)
{
    bool any = false;
    for (uint32_t i = 0; i < plan->transfer_count; i++)
        any = any || plan->transfers[i].tried;
    /* Chains in the daemon's seat would distort the measurements, and rounds are not measured. */
    if (!any || plan->daemon_count > 0 || plan->flags & TCA_PLAN_REPEAT ||
        plan->session->settings.tune == TUNE_OFF || !trial_wisdom(plan->session))
        return;
    plan->trial = calloc(1, sizeof(*plan->trial));
    if (!plan->trial)
        return;
    plan->trial->pause = 1;
    trial_set_tries(plan, true);
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

static bool has_moved(const struct tca_plan *plan)
{
    const struct trial *trial = plan->trial;
    for (uint32_t i = 0; i < trial->kind_count; i++) {
        const struct kind *kind = &trial->kinds[i];
        plan->session->trial_effects->probe(kind->lane);
        if (!is_within(kind->lane->distance_ns, kind->distance))
            return true;
    }
    return false;
}

static void review(struct tca_plan *plan)
{
    struct trial *trial = plan->trial;
    if (plan->flags & PLAN_TRIES || ++trial->paused < trial->pause)
        return;
    trial->moved = has_moved(plan) ? trial->moved + 1 : 0;
    if (trial->moved < MOVED_REVIEWS)
        return;
    /* Processes that keep moving between processors are not worth a trial. */
    trial->pause = 2 * trial->pause < PAUSE_MAX ? 2 * trial->pause : PAUSE_MAX;
    trial->paused = trial->moved = trial->starts = 0;
    trial_set_tries(plan, true);
}

void trials_review(struct tca *session)
{
    for (struct tca_plan *plan = session->plans; plan; plan = plan->next)
        if (plan->trial && plan->state == PLAN_IDLE && !plan->broken)
            review(plan);
}
