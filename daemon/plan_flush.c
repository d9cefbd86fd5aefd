/* Before a plan lets go of what it put into: what it has put must have landed there. The word that
 * lets go takes another way (from daemon to daemon) than the data, and would overtake it. */
#include <sched.h>
#include <stdlib.h>

#include "daemon/loop.h"
#include "daemon/plan.h"
#include "daemon/tcad.h"

struct flush {
    struct plan *plan;
    void (*done)(void *context);
    uint32_t left; /* links that have not answered; engine's thread */
    struct driver_op ops[];
};

static void finish(struct flush *flush)
{
    struct plan *plan = flush->plan;
    while (loop_post(plan->tcad->loop, flush->done, plan) < 0)
        sched_yield();
    free(flush);
}

static void answered(struct driver_op *op, int status)
{
    struct flush *flush = op->owner;
    if (--flush->left == 0)
        finish(flush); /* a link that failed has nothing on its way any more */
}

/* Whether this unit is the first one of its link. */
static bool is_first(const struct plan *plan, uint32_t index)
{
    for (uint32_t i = 0; i < index; i++)
        if (plan->units[i].link == plan->units[index].link)
            return false;
    return true;
}

static void flush_work(struct engine *engine, void *context)
{
    struct flush *flush = context;
    struct plan *plan = flush->plan;
    uint32_t used = 0;

    flush->left = 1; /* until all have been asked */
    for (uint32_t i = 0; i < plan->unit_count; i++) {
        struct plan_unit *unit = &plan->units[i];
        if (!unit->put || !engine_driver_caps(engine, unit->driver->ops->rail)->other_nodes ||
            !is_first(plan, i))
            continue;
        struct driver_op *op = &flush->ops[used++];
        op->done = answered;
        op->owner = flush;
        flush->left++;
        if (unit->driver->ops->peer_flush(unit->driver, unit->link->peer, op) < 0)
            flush->left--;
    }
    if (--flush->left == 0)
        finish(flush);
}

bool plan_flush(struct plan *plan, void (*done)(void *context))
{
    uint32_t links = 0;
    if (atomic_load_explicit(&plan->run.starts, memory_order_relaxed) == 0)
        return false;
    for (uint32_t i = 0; i < plan->unit_count; i++)
        links += plan->units[i].link && is_first(plan, i);
    struct flush *flush = links ? calloc(1, sizeof *flush + links * sizeof flush->ops[0]) : NULL;
    if (!flush)
        return false;
    flush->plan = plan;
    flush->done = done;
    engine_call(plan->tcad->engine, flush_work, NULL, flush);
    return true;
}
