/* Before a plan lets go of what it put into: what it has put must have landed there. The word that
 * lets go takes another way (from daemon to daemon) than the data, and would overtake it. */
#include <stdlib.h>

#include "daemon/base/loop.h"
#include "daemon/plans/plan.h"
#include "daemon/tcad.h"

struct flush_link {
    struct driver *driver;
    struct driver_peer *peer;
    struct driver_op op;
};

struct flush {
    struct plan *plan;
    struct loop_post post;
    uint32_t left; /* links that have not answered; engine's thread */
    uint32_t count;
    struct flush_link links[];
};

static void over(void *context)
{
    struct flush *flush = context;
    struct plan *plan = flush->plan;
    free(flush);
    plan->pending--;
    plan_advance(plan);
}

static void finish(struct flush *flush)
{
    loop_post_own(flush->plan->tcad->loop, &flush->post, over, flush);
}

static void answered(struct driver_op *op, int status)
{
    struct flush *flush = op->owner;
    if (--flush->left == 0)
        finish(flush); /* a link that failed has nothing on its way any more */
}

static void flush_work(struct engine *engine, void *context)
{
    struct flush *flush = context;

    flush->left = 1; /* until all have been asked */
    for (uint32_t i = 0; i < flush->count; i++) {
        struct flush_link *link = &flush->links[i];
        link->op.done = answered;
        link->op.owner = flush;
        flush->left++;
        if (link->driver->ops->peer_flush(link->driver, link->peer, &link->op) < 0)
            flush->left--;
    }
    if (--flush->left == 0)
        finish(flush);
}

/* Counts the links of its puts to other nodes, each once, and notes them where there is room. */
static uint32_t note_links(struct plan *plan, struct flush_link *ret_links)
{
    const uint64_t mark = ++plan->tcad->last_mark;
    uint32_t count = 0;
    for (uint32_t i = 0; i < plan->unit_count; i++) {
        struct plan_unit *unit = &plan->units[i];
        if (!unit->link || !unit->link->peer || unit->link->mark == mark ||
            !engine_driver_caps(plan->tcad->engine, unit->link->rail)->other_nodes)
            continue;
        unit->link->mark = mark;
        if (ret_links)
            ret_links[count] =
                (struct flush_link){.driver = unit->driver, .peer = unit->link->peer};
        count++;
    }
    return count;
}

void plan_do_flush(struct plan *plan)
{
    if (atomic_load_explicit(&plan->run.starts, memory_order_relaxed) == 0)
        return;
    const uint32_t links = note_links(plan, NULL);
    struct flush *flush = links ? calloc(1, sizeof *flush + links * sizeof flush->links[0]) : NULL;
    if (!flush)
        return;
    flush->plan = plan;
    flush->count = note_links(plan, flush->links);
    plan->pending++;
    engine_call(plan->tcad->engine, flush_work, NULL, flush);
}
