/*
 * A copy between two layouts as a tree: loops that fit both sides, with blocks or lists of blocks
 * as leaves. Offsets are relative to the current iteration of the enclosing loop, on each side.
 *
 * The children of a loop are adjacent in the array, so that bisection finds the child at a packed
 * position.
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
    uint32_t first_child; /* LOOP: index of the first child, and their number */
    uint32_t children;
    bool swapped;         /* LOOP with a kernel: its iterations are the kernel's inner loop */
    uint64_t start_bytes; /* packed position in an iteration of its parent */
    uint64_t size_bytes;
    uint64_t count;      /* LOOP: iterations; LIST: blocks */
    uint64_t unit_bytes; /* LOOP: packed bytes of one iteration */
    int64_t target_offset_bytes;
    int64_t source_offset_bytes;
    int64_t target_stride_bytes; /* LOOP */
    int64_t source_stride_bytes;
    union {
        struct {
            copy_nest_kernel *kernel;        /* for whole iterations; NULL: run the children */
            copy_nest_kernel *stream_kernel; /* with streaming stores; NULL: use `kernel` */
            struct copy_nest nest;           /* of all iterations */
            int64_t target_offset_bytes;     /* of the blocks, inside the first iteration */
            int64_t source_offset_bytes;
        } loop;
        struct {
            copy_list_kernel *kernel;
            copy_list_kernel *stream_kernel; /* as above */
            struct copy_list list;
        } list;
    };
};

/* Unsigned arithmetic: blocks lie within checked bounds, but intermediate sums of offsets need
 * not. */
static inline int64_t copy_plus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

struct copy_tree {
    struct copy_op *ops;
    uint64_t op_count;
    /* the root: a loop of one iteration, or its only child */
    const struct copy_op *top;
};

/* Compiles two layouts of the same size; NULL: packed bytes. Returns 0, -ENOMEM, or -ENOTSUP if the
 * two have no common loops (never if one side is packed). */
struct copy_pieces; /* scratch memory, reusable for several trees */
int copy_tree_init(struct copy_tree *tree, const struct layout *target, const struct layout *source,
                   struct copy_pieces *pieces);
uint64_t copy_tree_bytes(const struct copy_tree *tree); /* the memory that it uses */
void copy_tree_deinit(struct copy_tree *tree);
void copy_op_deinit(struct copy_op *op);
/* Chooses the kernels; part of copy_tree_init(). */
void copy_tree_choose(struct copy_tree *tree);
/* Copies packed bytes position .. position + length. stream: NULL, or a set of kernels whose
 * streaming stores are used for whole lines; then the caller must call its stream_end(). */
void copy_tree_run(const struct copy_tree *tree, const struct copy_kernels *stream, uint8_t *target,
                   const uint8_t *source, uint64_t position_bytes, uint64_t length_bytes);
