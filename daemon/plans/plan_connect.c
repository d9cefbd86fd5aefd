/* REGISTERING: connects the links of a plan. They connect at the same time; the plan waits for one
 * after the other. If one fails, its chains take the next best rail. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/plans/plan_internal.h"
#include "daemon/rails/link.h"
#include "daemon/rails/rails.h"

static void connect_links(struct plan *plan);

static bool needs_link(const struct plan_transfer *transfer)
{
    return transfer->driver && !transfer->put;
}

static void begin(struct plan *plan)
{
    for (uint32_t i = 0; i < plan->transfer_count; i++)
        if (needs_link(&plan->transfers[i]))
            link_connect(plan->transfers[i].link, NULL);
    plan->connected_transfers = 0;
}

/* If the node is down, tcad ends or memory is short, other rails fail, too. */
static bool is_of_rail(int error)
{
    return error != -EHOSTDOWN && error != -ECANCELED && error != -ENOMEM;
}

/* Moves all chains that have a failed link. */
static int take_other_rails(struct plan *plan)
{
    for (uint32_t i = 0; i < plan->transfer_count; i++) {
        struct plan_transfer *transfer = &plan->transfers[i];
        if (transfer->link && transfer->link->state == LINK_FAILED)
            plan_lose_rail(transfer, transfer->link->rail);
    }
    for (uint32_t i = 0; i < plan->chain_count; i++) {
        struct plan_chain *chain = &plan->chains[i];
        int r = plan_is_on_dead_link(plan, chain) ? plan_reroute(plan, chain) : 0;
        if (r < 0)
            return r;
    }
    return 0;
}

/* The link of plan->connected_transfers has failed. Whether there are others to connect. */
static bool replace_link(struct plan *plan, int error, const char *text)
{
    const struct plan_transfer *transfer = &plan->transfers[plan->connected_transfers];
    char why[256];
    snprintf(why, sizeof(why), "rail %s to node %" PRIu32 ": %s",
             rail_name(plan->tcad, transfer->link->rail), transfer->node, text);
    if (is_of_rail(error) && take_other_rails(plan) == 0) {
        log_warning(NULL, "plan %" PRIu64 ".%" PRIu32 " takes another rail: %s", plan->session_id,
                    plan->id, why);
        begin(plan);
        return true;
    }
    plan_begin_attempt(plan); /* the absence of other rails says less */
    plan_fail(plan, error, "%s", why);
    return false;
}

static void link_done(void *context, int status, const char *text)
{
    struct plan *plan = context;
    plan->pending--;
    if (plan_goes_on(plan) && (status == 0 || replace_link(plan, status, text)))
        connect_links(plan);
    plan_advance(plan);
}

/* Then registers. */
static void connect_links(struct plan *plan)
{
    while (plan->connected_transfers < plan->transfer_count) {
        struct plan_transfer *transfer = &plan->transfers[plan->connected_transfers];
        int r = needs_link(transfer) ? link_connect(transfer->link, &plan->link_wait) : 0;
        if (r == -EINPROGRESS) {
            plan->pending++;
            return;
        }
        if (r == 0)
            plan->connected_transfers++;
        else if (!replace_link(plan, r, strerror(-r)))
            return;
    }
    plan_register(plan);
}

void plan_connect(struct plan *plan)
{
    begin(plan);
    plan->link_wait = (struct link_wait){.done = link_done, .context = plan};
    connect_links(plan);
}
