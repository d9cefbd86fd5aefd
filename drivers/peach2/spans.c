#include "drivers/peach2/spans.h"

#include <errno.h>
#include <stdlib.h>

int spans_init(struct spans *spans, uint64_t first, uint64_t end)
{
    struct span *span = malloc(sizeof(*span));
    if (!span)
        return -ENOMEM;
    *span = (struct span){.first = first, .end = end};
    *spans = (struct spans){.first = span, .turn = span, .hand = span, .bytes = end - first};
    return 0;
}

void spans_deinit(struct spans *spans)
{
    for (struct span *span = spans->first, *next; span; span = next) {
        next = span->next;
        free(span);
    }
    *spans = (struct spans){0};
}

static struct span *after(const struct spans *spans, const struct span *span)
{
    return span->next ? span->next : spans->first;
}

/* ---- taking ---- */

static struct span *find(const struct spans *spans, uint64_t bytes)
{
    struct span *span = spans->turn;
    do {
        if (span->state == SPAN_FREE && bytes <= span->end - span->first)
            return span;
        span = after(spans, span);
    } while (span != spans->turn);
    return NULL;
}

/* Makes a span of what is behind the first bytes of a free one. */
static int split(struct span *span, uint64_t bytes)
{
    struct span *rest = malloc(sizeof(*rest));
    if (!rest)
        return -ENOMEM;
    *rest = (struct span){
        .first = span->first + bytes, .end = span->end, .next = span->next, .previous = span};
    if (rest->next)
        rest->next->previous = rest;
    span->next = rest;
    span->end = rest->first;
    return 0;
}

int spans_take(struct spans *spans, uint64_t bytes, struct span **ret_span)
{
    struct span *span = bytes > 0 ? find(spans, bytes) : NULL;
    if (!span)
        return -EADDRNOTAVAIL;
    int r = span->end - span->first > bytes ? split(span, bytes) : 0;
    if (r < 0)
        return r;
    span->state = SPAN_TAKEN;
    spans->turn = after(spans, span);
    *ret_span = span;
    return 0;
}

/* ---- giving back ---- */

/* Adds the next span to this one. */
static void absorb(struct spans *spans, struct span *span)
{
    struct span *next = span->next;
    span->end = next->end;
    span->nodes |= next->nodes;
    span->next = next->next;
    if (span->next)
        span->next->previous = span;
    if (spans->turn == next)
        spans->turn = span;
    if (spans->hand == next)
        spans->hand = span;
    free(next);
}

static void merge(struct spans *spans, struct span *span)
{
    if (span->next && span->next->state == span->state)
        absorb(spans, span);
    if (span->previous && span->previous->state == span->state)
        absorb(spans, span->previous);
}

void spans_give(struct spans *spans, struct span *span)
{
    if (span->state == SPAN_RECALLED)
        spans->left_bytes -= span->end - span->first;
    span->state = SPAN_FREE;
    span->nodes = 0;
    merge(spans, span);
}

void spans_leave(struct spans *spans, struct span *span, uint32_t nodes)
{
    span->state = SPAN_LEFT;
    span->nodes = nodes;
    spans->left_bytes += span->end - span->first;
    merge(spans, span);
}

struct span *spans_recall(struct spans *spans)
{
    struct span *span = spans->hand;
    if (spans->left_bytes == 0)
        return NULL;
    while (span->state != SPAN_LEFT) {
        span = after(spans, span);
        if (span == spans->hand)
            return NULL;
    }
    span->state = SPAN_RECALLED;
    spans->hand = after(spans, span);
    return span;
}
