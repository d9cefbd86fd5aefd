/* A program in the making. Whatever is added, in packed order, comes out normalised. */
#pragma once

#include "proto/layout_internal.h"

/*
 * Blocks are gathered as pairs at the end of the table until something else comes, and only then
 * become operations. On the way the newest block stays open, because the next one may be adjacent
 * to it; what is not open any more is counted into a run of equal blocks with one stride, and a run
 * that gets long keeps its first block only.
 *
 * All of it is 0 at the start. After the first error there is nothing to do but builder_deinit().
 */
struct builder {
    struct layout_op *ops;
    uint32_t op_count, op_room;
    struct layout_pair *pairs; /* of lists; from `pending` on: of no operation yet */
    uint32_t pair_count, pair_room;
    uint32_t pending;
    struct {
        uint32_t first; /* its index in pairs */
        uint64_t count; /* of its blocks; 0: there is no run */
        int64_t stride_bytes;
    } run;
    struct layout_pair open; /* the newest block, in no pair yet; length 0: none */
};

/* All return 0, -EOVERFLOW, -E2BIG (more than LAYOUT_OPS_MAX operations or pairs) or -ENOMEM. */
int builder_add_block(struct builder *b, int64_t offset_bytes, uint64_t length_bytes);
/* `count` blocks, stride apart. */
int builder_add_run(struct builder *b, int64_t offset_bytes, uint64_t length_bytes, uint64_t count,
                    int64_t stride_bytes);
/* A checked program's operations (not its first pairs, all of them), moved by offset. */
int builder_add_ops(struct builder *b, const struct layout_op *ops, uint32_t count,
                    const struct layout_pair *pairs, int64_t offset_bytes);
/* `count` times, each at offset + i * stride. */
int builder_add_loop(struct builder *b, const struct layout_op *body, uint32_t body_count,
                     const struct layout_pair *pairs, uint64_t count, int64_t stride_bytes,
                     int64_t offset_bytes);
/* Makes operations of what is still pending. */
int builder_flush(struct builder *b);
void builder_deinit(struct builder *b);
