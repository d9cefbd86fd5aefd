/*
 * What is copied where, for a pair of layouts: a tree of loops that fit both sides, with blocks or
 * lists of blocks as its leaves. Offsets are relative to the enclosing loop's current place, on
 * either side.
 *
 * Children of one loop lie side by side in the array (level after level), so that a packed position
 * is found in them by bisection.
 */
#pragma once

#include "drivers/copy/kernels.h"
#include "proto/layout.h"

enum copy_kind {
    COPY_BLOCK,
    COPY_LIST,
    COPY_LOOP,
};

struct copy_op {
    enum copy_kind kind;
    uint32_t first_child; /* LOOP: index, and how many */
    uint32_t children;
    bool swapped;         /* LOOP with a kernel: its iterations are the kernel's inner loop */
    uint64_t start_bytes; /* packed, inside what it is a child of */
    uint64_t size_bytes;
    uint64_t count;      /* LOOP: iterations; LIST: blocks */
    uint64_t unit_bytes; /* LOOP: of one iteration */
    int64_t target_offset_bytes;
    int64_t source_offset_bytes;
    int64_t target_stride_bytes; /* LOOP */
    int64_t source_stride_bytes;
    union {
        struct {
            copy_nest_kernel *kernel;        /* of whole iterations; NULL: child by child */
            copy_nest_kernel *stream_kernel; /* the same past the caches; NULL: kernel */
            struct copy_nest nest;           /* of all iterations */
            int64_t target_offset_bytes;     /* of the blocks, inside the first iteration */
            int64_t source_offset_bytes;
        } loop;
        struct {
            copy_list_kernel *kernel;
            copy_list_kernel *stream_kernel; /* or NULL, as above */
            struct copy_list list;
        } list;
    };
};

/* Places are summed up in unsigned arithmetic: blocks lie within checked bounds, offsets on the way
 * to them need not. */
static inline int64_t copy_plus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

struct copy_tree {
    struct copy_op *ops;
    uint64_t op_count;
    /* all of it: a loop of one iteration, or the only operation that it would have */
    const struct copy_op *top;
};

/* Layouts of the same size, or NULL for packed bytes. 0, -ENOMEM, or -ENOTSUP: the two have no
 * loops in common. Never the latter when one side is packed. */
struct copy_pieces; /* room to work in, which several trees may use one after the other */
int copy_tree_init(struct copy_tree *tree, const struct layout *target, const struct layout *source,
                   struct copy_pieces *pieces);
void copy_tree_deinit(struct copy_tree *tree);
void copy_op_deinit(struct copy_op *op);
/* Part of init: chooses the kernels. */
void copy_tree_choose(struct copy_tree *tree);
/* Packed bytes position .. position + length. With a set of kernels in `stream`: by its stores past
 * the caches, where whole lines are stored; the caller calls its stream_end(). */
void copy_tree_run(const struct copy_tree *tree, const struct copy_kernels *stream, uint8_t *target,
                   const uint8_t *source, uint64_t position_bytes, uint64_t length_bytes);
