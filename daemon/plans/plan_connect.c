/* REGISTERING: connects the links of a plan. They connect at the same time; the plan waits for one after the other. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "daemon/plans/plan.h"
#include "daemon/rails/link.h"
#include "daemon/rails/rails.h"

static void connect_links(struct plan *plan);

static void fail_link(struct plan *plan, int error, const char *text)
{
    const struct plan_unit *unit = &plan->units[plan->connected_units];
    plan_fail(plan, error, "rail %s to node %" PRIu32 ": %s",
              rail_name(plan->tcad, unit->link->rail), unit->node, text);
}

static void link_done(void *context, int status, const char *text)
{
    struct plan *plan = context;
    plan->pending--;
    if (status < 0)
        fail_link(plan, status, text);
    else if (!plan->release_asked && plan->error == 0)
        connect_links(plan);
    plan_advance(plan);
}

static bool needs_link(const struct plan_unit *unit)
{
    return unit->driver && !unit->put;
}

/* Then registers. */
static void connect_links(struct plan *plan)
{
    for (; plan->connected_units < plan->unit_count; plan->connected_units++) {
        struct plan_unit *unit = &plan->units[plan->connected_units];
        int r = needs_link(unit) ? link_connect(unit->link, &plan->link_wait) : 0;
        if (r == -EINPROGRESS) {
            plan->pending++;
            return;
        }
        if (r < 0) {
            fail_link(plan, r, strerror(-r));
            return;
        }
    }
    plan_register(plan);
}

void plan_connect(struct plan *plan)
{
    for (uint32_t i = 0; i < plan->unit_count; i++)
        if (needs_link(&plan->units[i]))
            link_connect(plan->units[i].link, NULL);
    plan->connected_units = 0;
    plan->link_wait = (struct link_wait){.done = link_done, .context = plan};
    connect_links(plan);
}
