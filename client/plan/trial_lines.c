#include "client/plan/trial_lines.h"

#include "client/core/session.h"
#include "client/plan/plan.h"
#include "drivers/shm/ways.h"

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
    store(&line->unit, shown->first);
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
