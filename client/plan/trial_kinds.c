#include "client/plan/trial_kinds.h"

#include "client/core/session.h"
#include "client/core/wisdom.h"
#include "client/layout/layout.h"
#include "client/plan/plan.h"
#include "client/plan/trial_lines.h"
#include "client/plan/tune.h"

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

/* ---- sorting ---- */

/* Plans often put between the same layouts again and again. */
static bool layouts_equal(const struct step *a, const struct step *b)
{
    return a->put.source_layout == b->put.source_layout &&
           a->put.target_layout == b->put.target_layout;
}

static void find_key(const struct step *step, uint64_t ret_key[2])
{
    wisdom_key(step->put.target_layout->program, step->put.source_layout->program, ret_key);
}

static bool keys_equal(const uint64_t a[2], const uint64_t b[2])
{
    return a[0] == b[0] && a[1] == b[1];
}

/* The mode that is predicted to be best. */
static unsigned predicted(const struct kind *kind, const struct layout *target,
                          const struct layout *source)
{
    const struct way_choice choice = way_choose(target, source);
    const enum way way = kind->lane->distance_ns <= choice.up_to_ns ? choice.near : choice.far;
    const struct copy_mode mode = copy_mode_of(way, target, source);
    unsigned best = 0;
    for (unsigned i = kind->mode_count; i-- > 0;)
        if (copy_mode_equal(&kind->modes[i], &mode) ||
            (kind->modes[i].way == way && kind->modes[best].way != way))
            best = i;
    return best;
}

static void kind_init(struct kind *kind, const struct unit *unit, uint32_t number,
                      const uint64_t key[2])
{
    const struct layout *target = unit->tried->put.target_layout->program,
                        *source = unit->tried->put.source_layout->program;
    *kind = (struct kind){.step = unit->tried,
                          .unit = number,
                          .lane = &unit->process->lane,
                          .key = {key[0], key[1]},
                          .distance = distance_class(unit->process->lane.distance_ns)};
    kind->mode_count = copy_mode_candidates(target, source, true, kind->modes);
    kind->choice = predicted(kind, target, source);
}

uint32_t kinds_find(struct tca_plan *plan, struct kind *ret_kinds, uint32_t room)
{
    const struct step *last = NULL;
    uint32_t count = 0;
    uint64_t key[2];
    for (uint32_t i = 0; i < plan->unit_count; i++) {
        struct unit *unit = &plan->units[i];
        if (!unit->tried)
            continue;
        if (!last || !layouts_equal(last, unit->tried))
            find_key(unit->tried, key);
        last = unit->tried;
        const unsigned distance = distance_class(unit->process->lane.distance_ns);
        uint32_t at = 0;
        while (at < count &&
               !(keys_equal(ret_kinds[at].key, key) && ret_kinds[at].distance == distance))
            at++;
        unit->kind = at;
        if (at == count && at < room)
            kind_init(&ret_kinds[count++], unit, i, key);
    }
    return count;
}

bool kinds_alike(const struct kind *a, const struct kind *b)
{
    return keys_equal(a->key, b->key) && (a->distance == b->distance || a->lane == b->lane);
}

bool kind_has_moved(const struct kind *kind)
{
    return !is_within(kind->lane->distance_ns, kind->distance);
}

/* ---- wisdom ---- */

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

bool kind_is_known(struct kind *kind, const struct wisdom *wisdom)
{
    const struct wisdom_entry *entry = look_up(kind, wisdom);
    for (unsigned i = 0; entry && i < kind->mode_count; i++) {
        const struct copy_mode *mode = &kind->modes[i];
        if (mode->way != entry->way || mode->stream != entry->stream ||
            mode->piece_bytes != entry->piece_bytes)
            continue;
        kind->choice = i;
        return true;
    }
    return false;
}

void kind_note(const struct kind *kind, const struct tune *tune, struct wisdom *wisdom)
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
                                      .way = (uint8_t)mode->way,
                                      .stream = mode->stream});
}

void kind_show(const struct kind *kind, const struct tune *tune, const struct tca_plan *plan,
               uint32_t number)
{
    uint32_t modes[COPY_MODES_MAX];
    for (unsigned i = 0; i < kind->mode_count; i++) {
        const struct copy_mode *mode = &kind->modes[i];
        modes[i] = (uint32_t)mode->way | (mode->stream ? 256u : 0) | mode->piece_bytes * 65536u;
    }
    trial_lines_show(plan, number,
                     &(struct trial_shown){.tune = tune,
                                           .first = kind->unit,
                                           .count = kind->mode_count,
                                           .choice = kind->choice,
                                           .modes = modes});
}
