/*
 * Order between rails. What starts of one channel put to a node is a *flow*. Over one rail it
 * arrives in the order of the starts. Plans of a channel can be on different rails: their commits
 * chose them, or one of them has moved (daemon/plans/plan_move.h). A flow has a *path* for each
 * driver's peer over which its plans put. While there are several, a start first lets the data of
 * earlier starts on other paths arrive. It is held until these have posted what precedes their
 * first waits, until that is complete, and until the peer has confirmed it (peer_flush()).
 *
 * While all plans of a session put to each node over one rail, none of this costs a start anything:
 * nothing is noted. When a flow gets a second path, there may be data on the first one.
 *
 * Before a plan leaves a path, its data has arrived (daemon/plans/plan_flush.c).
 * tests/model/rails.pml proves that starts stay in order.
 */
#include <errno.h>
#include <stdlib.h>

#include "daemon/engine/engine_internal.h"

struct engine_path {
    struct engine_flow *flow;
    struct engine_path *next;
    struct driver *driver;
    struct driver_peer *peer;
    uint32_t routes; /* of plans */
    /* Only kept while the flow has several paths: data of starts may not have arrived, about which
     * the peer was not asked. */
    bool unlanded;
    bool asked; /* its peer has not answered yet */
    struct driver_op flush;
};

struct engine_flow {
    struct table_entry entry; /* in session->flows */
    struct engine_session *session;
    struct engine_path *paths;
};

static bool is_split(const struct engine_flow *flow)
{
    return flow->paths->next != NULL;
}

/* ---- the paths of plans ---- */

static struct engine_flow *get_flow(struct engine_session *session, uint32_t node, uint32_t channel)
{
    const uint64_t id = (uint64_t)node * CHANNELS + channel;
    struct engine_flow *flow = table_find(&session->flows, id);
    if (flow)
        return flow;
    flow = calloc(1, sizeof(*flow));
    if (!flow)
        return NULL;
    flow->session = session;
    table_add(&session->flows, &flow->entry, id, flow);
    return flow;
}

static void drop_flow(struct engine_flow *flow)
{
    if (flow->paths)
        return;
    table_remove(&flow->session->flows, &flow->entry);
    free(flow);
}

static struct engine_path *get_path(struct engine_flow *flow, const struct engine_route *route)
{
    struct engine_path *path = flow->paths;
    while (path && path->peer != route->peer)
        path = path->next;
    if (path || !(path = calloc(1, sizeof(*path))))
        return path;
    path->flow = flow;
    path->driver = route->driver;
    path->peer = route->peer;
    if (flow->paths && !is_split(flow)) {
        flow->paths->unlanded = true;
        flow->session->split++;
    }
    path->next = flow->paths;
    flow->paths = path;
    return path;
}

static void drop_path(struct engine_path *path)
{
    struct engine_flow *flow = path->flow;
    struct engine_path **at = &flow->paths;
    if (--path->routes > 0)
        return;
    while (*at != path)
        at = &(*at)->next;
    *at = path->next;
    free(path);
    if (flow->paths && !is_split(flow))
        flow->session->split--;
    drop_flow(flow);
}

static int enter(struct engine_session *session, uint32_t channel, struct engine_route *route)
{
    struct engine_flow *flow = get_flow(session, route->node, channel);
    if (!flow)
        return -ENOMEM;
    route->path = get_path(flow, route);
    if (!route->path) {
        drop_flow(flow);
        return -ENOMEM;
    }
    route->path->routes++;
    return 0;
}

int engine_plan_enter(struct engine_session *session, struct engine_plan *plan)
{
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < plan->route_count; i++)
        r = enter(session, plan->channel, &plan->routes[i]);
    return r; /* those that it has entered, it leaves in any case */
}

bool engine_plan_leave(struct engine_plan *plan)
{
    for (uint32_t i = 0; i < plan->route_count; i++) {
        const struct engine_path *path = plan->routes[i].path;
        if (path && path->asked && path->routes == 1)
            return false;
    }
    for (uint32_t i = 0; i < plan->route_count; i++)
        if (plan->routes[i].path)
            drop_path(plan->routes[i].path);
    free(plan->routes);
    plan->routes = NULL;
    plan->route_count = 0;
    return true;
}

/* ---- starts ---- */

static bool puts_over(const struct engine_plan *plan, const struct engine_path *path)
{
    for (uint32_t i = 0; i < plan->route_count; i++)
        if (plan->routes[i].path == path)
            return true;
    return false;
}

/* Something of a start on this path, before a first wait, may not be complete. Plans that only wait
 * are not in session->running. */
static bool is_posting(const struct engine_path *path)
{
    const struct engine_plan *plan = path->flow->session->running.first;
    while (plan && (plan->later || !puts_over(plan, path) || engine_plan_idle(plan)))
        plan = plan->next;
    return plan;
}

/* An error: the peer is lost, and with it what had not arrived. */
static void confirmed(struct driver_op *op, int status)
{
    struct engine_path *path = op->owner;
    path->asked = false;
}

static void ask(struct engine_path *path)
{
    if (path->asked || !path->unlanded || is_posting(path))
        return;
    path->asked = true;
    path->unlanded = false; /* from here on: of later starts */
    path->flush = (struct driver_op){.done = confirmed, .owner = path};
    int r = path->driver->ops->peer_flush(path->driver, path->peer, &path->flush);
    if (r < 0) {
        path->asked = false;
        path->unlanded = r == -EAGAIN;
    }
}

/* Asks all other paths of its flow at once. */
static bool is_behind_others(const struct engine_path *path)
{
    bool behind = false;
    for (struct engine_path *other = path->flow->paths; other; other = other->next) {
        if (other == path)
            continue;
        ask(other);
        behind |= other->asked || other->unlanded;
    }
    return behind;
}

bool engine_flow_holds(struct engine_plan *plan)
{
    bool holds = false;
    for (uint32_t i = 0; i < plan->route_count; i++)
        holds |= is_behind_others(plan->routes[i].path);
    plan->session->held |= holds;
    for (uint32_t i = 0; i < plan->route_count && !holds && !plan->lands; i++)
        plan->routes[i].path->unlanded = true;
    return holds;
}
