/*
 * A queue of a driver's puts. Puts of one flow (to one peer) are served in order; flows take turns,
 * piece by piece, so that a long put delays only its own flow. A flow exists while it has waiting
 * puts.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Embedded in a put. */
struct flow_put {
    const void *peer; /* peer and flow identify the flow; set by the driver before the first push */
    uint64_t flow;
    struct flow_put *next;      /* in its flow */
    struct flow_put *last;      /* in the head of a flow: its last put */
    struct flow_put *next_flow; /* in the head of a flow: the head of the next, in a ring */
};

/* Initialise with {0}. */
struct flows {
    /* the head of the flow before the one to be served next; NULL: no puts wait */
    struct flow_put *served;
};

/* Whether puts of this put's flow wait. */
bool flows_busy(const struct flows *flows, const struct flow_put *put);

/* Appends a put to its flow. A new flow is served after all others. */
void flows_push(struct flows *flows, struct flow_put *put);

/* The put to be served, or NULL. */
static inline struct flow_put *flows_next(const struct flows *flows)
{
    return flows->served ? flows->served->next_flow : 0;
}

/* Passes the turn to the next flow. */
static inline void flows_turn(struct flows *flows)
{
    flows->served = flows->served->next_flow;
}

/* Removes a put from the queue, whatever its position; false if it was not queued. If the put was
 * to be served, passes the turn to the next flow. */
bool flows_remove(struct flows *flows, struct flow_put *put);
