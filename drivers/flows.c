#include "drivers/flows.h"

#include <stddef.h>

static bool same_flow(const struct flow_put *a, const struct flow_put *b)
{
    return a->peer == b->peer && a->flow == b->flow;
}

/* The head of the flow before this put's flow in the ring; NULL: this put's flow has no waiting
 * puts. */
static struct flow_put *before(const struct flows *flows, const struct flow_put *put)
{
    struct flow_put *at = flows->served;
    if (!at)
        return NULL;
    do {
        if (same_flow(at->next_flow, put))
            return at;
        at = at->next_flow;
    } while (at != flows->served);
    return NULL;
}

bool flows_busy(const struct flows *flows, const struct flow_put *put)
{
    return before(flows, put);
}

void flows_push(struct flows *flows, struct flow_put *put)
{
    const struct flow_put *at = before(flows, put);
    put->next = NULL;
    if (at) {
        struct flow_put *first = at->next_flow;
        first->last->next = put;
        first->last = put;
        return;
    }
    put->last = put;
    put->next_flow = flows->served ? flows->served->next_flow : put;
    if (flows->served)
        flows->served->next_flow = put;
    flows->served = put;
}

/* Removes the head of the flow after `at`. The second put of that flow, if any, becomes its
 * head. */
static void remove_first(struct flows *flows, struct flow_put *at)
{
    struct flow_put *first = at->next_flow, *second = first->next;
    const bool alone = at == first, turn = at == flows->served;

    if (second) {
        second->last = first->last;
        second->next_flow = alone ? second : first->next_flow;
        if (!alone)
            at->next_flow = second;
        if (turn || flows->served == first)
            flows->served = second;
    } else if (alone) {
        flows->served = NULL;
    } else {
        at->next_flow = first->next_flow;
        if (flows->served == first)
            flows->served = at;
    }
}

bool flows_remove(struct flows *flows, struct flow_put *put)
{
    struct flow_put *at = before(flows, put);
    if (!at)
        return false;
    struct flow_put *first = at->next_flow;
    if (first == put) {
        remove_first(flows, at);
        return true;
    }
    struct flow_put *previous = first;
    while (previous->next && previous->next != put)
        previous = previous->next;
    if (!previous->next)
        return false;
    previous->next = put->next;
    if (first->last == put)
        first->last = previous;
    return true;
}
