/*
 * Puts of a driver that wait for their turn. Those of one flow (to one peer) are served in order;
 * flows take turns, piece by piece, so that a long put holds up only what has to come after it. No
 * flow is known beforehand: one is there while something of it waits.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Embedded in a put. */
struct flow_put {
    const void *peer; /* these two tell flows apart; set by the driver before the first push */
    uint64_t flow;
    struct flow_put *next;      /* of its flow */
    struct flow_put *last;      /* the first of a flow: the last */
    struct flow_put *next_flow; /* the first of a flow: the first of another, in a ring */
};

/* All zero: nothing waits. */
struct flows {
    /* the first of the flow before the one whose turn it is; NULL: nothing waits */
    struct flow_put *served;
};

/* Whether something of this put's flow waits. */
bool flows_busy(const struct flows *flows, const struct flow_put *put);

/* Last of its flow; a new flow's turn is the last. */
void flows_push(struct flows *flows, struct flow_put *put);

/* The put whose turn it is, or NULL. */
static inline struct flow_put *flows_next(const struct flows *flows)
{
    return flows->served ? flows->served->next_flow : 0;
}

/* Now it is the next flow's turn. */
static inline void flows_turn(struct flows *flows)
{
    flows->served = flows->served->next_flow;
}

/* A put waits no more, wherever it stood: false when it did not. If it was its flow's turn, it is
 * now the next flow's. */
bool flows_remove(struct flows *flows, struct flow_put *put);
