/*
 * Allocates ranges of bus addresses. Addresses that other nodes were told of are not free at once:
 * they are left until each of those nodes has confirmed that it no longer writes there (recall.c).
 *
 * The search for a free range continues behind the last one taken, so that addresses are reused
 * late. Neighbours in the same state are merged.
 */
#pragma once

#include <stdint.h>

enum span_state {
    SPAN_FREE,
    SPAN_TAKEN,
    SPAN_LEFT,     /* other nodes may still write there */
    SPAN_RECALLED, /* and are asked to stop */
};

struct span {
    uint64_t first, end; /* bus addresses */
    enum span_state state;
    uint32_t nodes;               /* LEFT, RECALLED: a bit per node that may still write there */
    struct span *next, *previous; /* by address */
};

struct spans {
    struct span *first;
    struct span *turn; /* where the next search begins */
    struct span *hand; /* where the search for what to recall begins */
    uint64_t bytes, left_bytes;
};

/* -ENOMEM */
int spans_init(struct spans *spans, uint64_t first, uint64_t end);
void spans_deinit(struct spans *spans);
/* -EADDRNOTAVAIL, -ENOMEM */
int spans_take(struct spans *spans, uint64_t bytes, struct span **ret_span);
/* Frees a span that no node can write to any more. */
void spans_give(struct spans *spans, struct span *span);
/* Leaves a span that these nodes may still write to. */
void spans_leave(struct spans *spans, struct span *span, uint32_t nodes);
/* The next span to recall, in the order of addresses; NULL: none is left. */
struct span *spans_recall(struct spans *spans);
