/* Builds a program in normal form from parts added in packed order. */
#pragma once

#include "proto/layout_internal.h"

/*
 * The builder collects blocks as pending pairs at the end of the table and turns them into
 * operations when anything else is added. The newest block stays open, because the next one may be
 * adjacent. Closed blocks extend a run of equal blocks with one stride; of a long run, only the
 * first block is stored.
 *
 * Initialise with {0}. After the first error, only builder_deinit() is allowed.
 */
struct builder {
    struct layout_op *ops;
    uint32_t op_count, op_room;
    struct layout_pair *pairs; /* of lists; from index `pending` on, not yet in an operation */
    uint32_t pair_count, pair_room;
    uint32_t pending;
    struct {
        uint32_t first; /* its index in pairs */
        uint64_t count; /* its blocks; 0: no run */
        int64_t stride_bytes;
    } run;
    struct layout_pair open; /* the newest block, not yet in `pairs`; length 0: none */
};

/* These functions return 0, -EOVERFLOW, -E2BIG (more than LAYOUT_OPS_MAX operations or pairs) or
 * -ENOMEM. */
int builder_add_block(struct builder *b, int64_t offset_bytes, uint64_t length_bytes);
/* Adds `count` blocks, stride apart. */
int builder_add_run(struct builder *b, int64_t offset_bytes, uint64_t length_bytes, uint64_t count,
                    int64_t stride_bytes);
/* Adds operations of a checked program, moved by offset. `pairs` is the program's whole table. */
int builder_add_ops(struct builder *b, const struct layout_op *ops, uint32_t count,
                    const struct layout_pair *pairs, int64_t offset_bytes);
/* Adds the operations `count` times, at offset + i * stride. */
int builder_add_loop(struct builder *b, const struct layout_op *body, uint32_t body_count,
                     const struct layout_pair *pairs, uint64_t count, int64_t stride_bytes,
                     int64_t offset_bytes);
/* Turns pending blocks into operations. */
int builder_flush(struct builder *b);
void builder_deinit(struct builder *b);
