/*
 * A queue of a driver's puts. Puts of one flow (to one peer) are served in order; flows take turns
 * by bytes (deficit round robin), so that a long put delays only its own flow, and a flow of short
 * puts gets as much as one of long ones. A flow exists while it has waiting puts. New flows come
 * first, once each, in the order of their arrival: short puts come through at once. After one that
 * had no more than that turn, another flow has its own: at the worst, they halve what others get.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
    /* Flows share a driver until one of them has moved so much alone. */
    FLOWS_SHARED_BYTES = 16 << 20,
};

/* Embedded in a put. */
struct flow_put {
    const void *peer; /* peer and flow identify the flow; set by the driver before the first push */
    uint64_t flow;
    struct flow_put *next;      /* in its flow */
    struct flow_put *last;      /* in the head of a flow: its last put */
    struct flow_put *next_flow; /* in the head of a flow: the head of the next, in a ring */
    int64_t credit_bytes;       /* in the head of a flow: what it may still move in its turn */
};

/* Initialise with {0}, or with .turn_bytes: what a flow moves in a turn, at least the longest
 * piece; 0: one piece. */
struct flows {
    uint32_t turn_bytes;
    /* The last heads of two rings: of flows without a turn so far, and of others. NULL: none. */
    struct flow_put *last_new, *last_old;
    bool turn_of_old;      /* a new flow has just ended with its first turn */
    uint64_t flow;         /* of what moved last, queued or not */
    uint32_t shared_bytes; /* what it still has to move to be alone */
};

/* Bytes of this flow move, whether or not they were queued. True: it was alone, and is not any
 * more. */
static inline bool flows_note(struct flows *flows, uint64_t flow, uint64_t bytes)
{
    const bool alone = flows->shared_bytes == 0;
    if (__builtin_expect(flow != flows->flow, 0)) {
        flows->flow = flow;
        flows->shared_bytes = FLOWS_SHARED_BYTES;
        return alone;
    }
    if (__builtin_expect(!alone, 0))
        flows->shared_bytes -= bytes < flows->shared_bytes ? (uint32_t)bytes : flows->shared_bytes;
    return false;
}

/* Whether several flows move: then the driver moves less at a time, for a little more work. */
static inline bool flows_shared(const struct flows *flows)
{
    return flows->shared_bytes > 0;
}

/* Whether puts of this put's flow wait. */
bool flows_busy(const struct flows *flows, const struct flow_put *put);

/* Appends a put to its flow. */
void flows_push(struct flows *flows, struct flow_put *put);

static inline bool flows_serve_new(const struct flows *flows)
{
    return flows->last_new && !(flows->turn_of_old && flows->last_old);
}

/* The put to be served, or NULL. */
static inline struct flow_put *flows_next(const struct flows *flows)
{
    const struct flow_put *last = flows_serve_new(flows) ? flows->last_new : flows->last_old;
    return last ? last->next_flow : 0;
}

/* Ends the turn of the flow that is served. */
void flows_turn(struct flows *flows);

/* The put to be served has moved so many bytes: ends the turn of its flow if that was all of it. */
static inline void flows_spend(struct flows *flows, uint64_t bytes)
{
    struct flow_put *put = flows_next(flows);
    put->credit_bytes -= (int64_t)bytes;
    if (put->credit_bytes <= 0)
        flows_turn(flows);
}

/* Removes a put from the queue, whatever its position; false if it was not queued. */
bool flows_remove(struct flows *flows, struct flow_put *put);
