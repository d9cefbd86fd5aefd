#include "drivers/flows.h"

#include <stddef.h>

/* ---- rings of flows ---- */

static bool same_flow(const struct flow_put *a, const struct flow_put *b)
{
    return a->peer == b->peer && a->flow == b->flow;
}

/* The head before this put's flow; NULL: the ring does not have this put's flow. */
static struct flow_put *before(struct flow_put *last, const struct flow_put *put)
{
    struct flow_put *at = last;
    if (!at)
        return NULL;
    do {
        if (same_flow(at->next_flow, put))
            return at;
        at = at->next_flow;
    } while (at != last);
    return NULL;
}

/* The ring that has this put's flow, and the head before that; NULL: none has. */
static struct flow_put **find(struct flows *flows, const struct flow_put *put,
                              struct flow_put **ret_before)
{
    if ((*ret_before = before(flows->last_new, put)))
        return &flows->last_new;
    *ret_before = before(flows->last_old, put);
    return *ret_before ? &flows->last_old : NULL;
}

static void append(struct flow_put **last, struct flow_put *head)
{
    head->next_flow = *last ? (*last)->next_flow : head;
    if (*last)
        (*last)->next_flow = head;
    *last = head;
}

static void unlink_after(struct flow_put **last, struct flow_put *at)
{
    struct flow_put *head = at->next_flow;
    at->next_flow = head->next_flow;
    if (*last == head)
        *last = at == head ? NULL : at;
}

/* ---- puts ---- */

bool flows_busy(const struct flows *flows, const struct flow_put *put)
{
    return before(flows->last_new, put) || before(flows->last_old, put);
}

void flows_push(struct flows *flows, struct flow_put *put)
{
    struct flow_put *at;
    put->next = NULL;
    if (find(flows, put, &at)) {
        struct flow_put *first = at->next_flow;
        first->last->next = put;
        first->last = put;
        return;
    }
    put->last = put;
    put->credit_bytes = flows->turn_bytes;
    append(&flows->last_new, put);
}

void flows_turn(struct flows *flows)
{
    struct flow_put *head = flows_next(flows);
    const int64_t most = flows->turn_bytes;
    if (flows_serve_new(flows)) {
        unlink_after(&flows->last_new, flows->last_new);
        append(&flows->last_old, head);
    } else {
        flows->last_old = head;
    }
    flows->turn_of_old = false;
    /* It pays for what it moved beyond its turn, and keeps nothing of what it did not use. */
    const int64_t left = head->credit_bytes < 0 ? head->credit_bytes : 0;
    head->credit_bytes = left < -most ? 0 : most + left;
}

/* Removes the head of the flow after `at`. The second put of that flow, if any, becomes its
 * head. */
static void remove_first(struct flows *flows, struct flow_put **last, struct flow_put *at)
{
    struct flow_put *first = at->next_flow, *second = first->next;
    if (second) {
        second->last = first->last;
        second->credit_bytes = first->credit_bytes;
        second->next_flow = at == first ? second : first->next_flow;
        at->next_flow = second; /* at == first: that is not in use any more */
        if (*last == first)
            *last = second;
        return;
    }
    if (flows_next(flows) == first)
        flows->turn_of_old = last == &flows->last_new;
    unlink_after(last, at);
}

bool flows_remove(struct flows *flows, struct flow_put *put)
{
    struct flow_put *at, **last = find(flows, put, &at);
    if (!last)
        return false;
    struct flow_put *first = at->next_flow;
    if (first == put) {
        remove_first(flows, last, at);
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
