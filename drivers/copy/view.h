/*
 * One side of a copy during compilation: a layout that is consumed from its front. Offsets are
 * unsigned: the layout was checked, but intermediate sums may overflow 63 bits and cancel out.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/layout.h"

struct copy_side {
    const struct layout *layout; /* NULL: packed bytes */
    const struct layout_pair *pairs;
    uint64_t *sizes; /* packed size of each operation, with all iterations */
};
int copy_side_init(struct copy_side *side, const struct layout *layout);
void copy_side_deinit(struct copy_side *side);

/* The rest of an operation. */
struct copy_item {
    enum layout_kind kind;
    uint32_t op;
    uint64_t count; /* BLOCK: bytes; LOOP: iterations; LIST: pairs */
    uint64_t unit;  /* LOOP: packed bytes of one iteration */
    uint64_t offset;
    uint64_t stride;
    uint64_t pair; /* LIST: index of the next one */
    uint64_t done; /* bytes already taken from that pair or from a loop's first iteration */
};

/* The rest of the body of a loop or of the program: an item, followed by operations. */
struct copy_view {
    bool has_head;
    struct copy_item head;
    uint32_t next_op;
    uint32_t end_op;
};
struct copy_view copy_view_all(const struct copy_side *side, uint64_t size_bytes);
/* Loads the next item into the head unless it has one; false at the end. */
bool copy_view_next(const struct copy_side *side, struct copy_view *view);
/* Whether the head can be taken block by block: it is not a loop, or a loop around a single
 * block. */
bool copy_view_has_pieces(const struct copy_side *side, const struct copy_view *view);
/* The length and offset of the first block of such a head. */
static inline uint64_t copy_view_piece(const struct copy_side *side, const struct copy_view *view,
                                       uint64_t *ret_offset)
{
    const struct copy_item *head = &view->head;
    *ret_offset = head->offset + head->done;
    if (head->kind == LAYOUT_BLOCK)
        return head->count;
    if (head->kind == LAYOUT_LOOP) {
        *ret_offset += (uint64_t)side->layout->ops[head->op + 1].offset_bytes;
        return head->unit - head->done;
    }
    const struct layout_pair *pair = &side->pairs[head->pair];
    *ret_offset += (uint64_t)pair->offset_bytes;
    return pair->length_bytes - head->done;
}

/* How many iterations of `unit` bytes can be taken from the head as one loop. */
uint64_t copy_view_iterations(const struct copy_side *side, const struct copy_view *view,
                              uint64_t unit);
static inline void take_from_pair(const struct copy_side *side, struct copy_item *head,
                                  uint64_t bytes)
{
    head->done += bytes;
    if (head->done == side->pairs[head->pair].length_bytes) {
        head->done = 0;
        head->pair++;
        head->count--;
    }
}

/* Takes bytes from the head: within a block, or whole iterations. */
static inline void copy_view_take(const struct copy_side *side, struct copy_view *view,
                                  uint64_t bytes)
{
    struct copy_item *head = &view->head;
    switch (head->kind) {
    case LAYOUT_BLOCK:
        head->offset += bytes;
        head->count -= bytes;
        break;
    case LAYOUT_LOOP:
        bytes += head->done;
        head->offset += bytes / head->unit * head->stride;
        head->count -= bytes / head->unit;
        head->done = bytes % head->unit;
        break;
    case LAYOUT_LIST:
        take_from_pair(side, head, bytes);
        break;
    }
    view->has_head = head->count > 0;
}

/* The first `unit` bytes of the head as the body of a loop, with the offset of the first iteration
 * and the stride. copy_view_iterations() must not be 0. */
struct copy_view copy_view_body(const struct copy_side *side, const struct copy_view *view,
                                uint64_t unit, uint64_t *ret_offset, uint64_t *ret_stride);
