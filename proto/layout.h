/*
 * A layout describes where the bytes of a transfer are, relative to a base address.
 *
 * A committed layout is a *program*: a short flat list of operations that enumerates byte blocks in
 * packed order. It contains no pointers, so it can be sent over sockets and through shared memory
 * unchanged. A receiver checks it once with layout_check() and can then run it without further
 * checks, provided that its bounds lie within the memory.
 *
 *   BLOCK  count bytes at offset
 *   LOOP   the following `body` operations, count times, at offset + i * stride
 *   LIST   count blocks from the table of (offset, length) pairs that follows the operations
 *
 * The constructors below make programs in normal form. They merge adjacent blocks, fold loops over
 * contiguous blocks, join nested loops where the outer one continues the inner one, and dissolve
 * loops of one iteration. Sibling blocks become a list, with two exceptions: regular blocks (all of
 * the siblings, or runs of at least 16) become a loop, and runs of at least 64 blocks of one length
 * become a list of their own with each_bytes set. The first operation in a loop is at offset 0. A
 * single BLOCK is contiguous; LOOP + BLOCK is block-stride.
 *
 * A *packed position* n means byte n of the data in the order in which the program yields it.
 *
 * A layout is also a type map as in MPI. Its lower and upper bounds (lb, ub) determine how it is
 * repeated: those of its blocks, or explicit marks set by layout_resized(), which can be anywhere.
 * Of its element types, it keeps only a signature. The program does not depend on bounds or
 * signature.
 */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/limits.h"

enum { LAYOUT_MAGIC = 0x4c414354 /* "TCAL" */ };

enum layout_kind {
    LAYOUT_BLOCK = 1,
    LAYOUT_LOOP = 2,
    LAYOUT_LIST = 3,
};

struct layout_op {
    uint32_t kind;
    uint32_t body;  /* LOOP: how many of the following operations it repeats; LIST: first pair */
    uint64_t count; /* BLOCK: bytes; LOOP: iterations; LIST: pairs */
    int64_t offset_bytes; /* relative to the current iteration of the enclosing loop */
    union {
        int64_t stride_bytes; /* LOOP */
        /* LIST: the length of every pair if known to be the same; else 0 */
        uint64_t each_bytes;
    };
};
static_assert(sizeof(struct layout_op) == 32, "wire format");

struct layout_pair {
    int64_t offset_bytes;
    uint64_t length_bytes;
};

struct layout {
    uint32_t magic;
    uint16_t version;
    uint16_t depth; /* of nested loops, at most LAYOUT_DEPTH_MAX */
    uint32_t op_count;
    uint32_t pair_count;
    uint64_t size_bytes;  /* packed size: the sum of all blocks */
    uint64_t block_count; /* blocks that the program yields */
    int64_t lower_bytes;  /* first byte touched, relative to the base (0 when size is 0) */
    int64_t upper_bytes;  /* one past the last byte touched */
    int64_t lb_bytes;     /* bounds of the type map: start and end of a copy */
    int64_t ub_bytes;
    uint64_t signature; /* of the basic element types in packed order; 0: plain bytes */
    uint32_t alignment; /* of its strictest element: 1, 2, 4, 8 or 16 */
    uint32_t marked;    /* 1: lb and ub were set explicitly, alignment adds no padding; else 0 */
    struct layout_op ops[];
};
static_assert(sizeof(struct layout) == 80, "wire format");
static_assert(offsetof(struct layout, ops) % _Alignof(max_align_t) == 0,
              "the table of pairs is as aligned as memory from malloc()");

/* The size of the whole program: header, operations and pairs. */
size_t layout_bytes(const struct layout *layout);

/* The distance between consecutive copies when a layout is repeated: from lb to ub, padded to the
 * alignment unless the bounds were set explicitly. Negative only if set so. */
int64_t layout_extent(const struct layout *layout);

/* Constructors. They return 0 and a program from malloc() that the caller frees, or -EOVERFLOW
 * (bounds beyond 63 bits or size beyond 64), -E2BIG (nested too deep, or more than LAYOUT_OPS_MAX
 * operations or irregular blocks), -EINVAL or -ENOMEM. Input layouts must come from a constructor
 * or have passed layout_check(). A count of zero yields the empty layout. */

/* Plain bytes, without a type. */
int layout_contiguous(uint64_t bytes, struct layout **ret);
/* One element. type: a unique number > 0; alignment: 1, 2, 4, 8 or 16. */
int layout_element(uint32_t type, uint64_t size_bytes, uint32_t alignment, struct layout **ret);
/* `count` copies of `inner`, starting stride bytes apart (any sign). Block-stride if `inner` is
 * contiguous. */
int layout_repeat(const struct layout *inner, uint64_t count, int64_t stride_bytes,
                  struct layout **ret);
/* `count` blocks, starting stride bytes apart, each of block_count copies of `inner` one extent
 * apart. */
int layout_hvector(const struct layout *inner, uint64_t count, uint64_t block_count,
                   int64_t stride_bytes, struct layout **ret);
/* Blocks at arbitrary offsets, each of copies of a layout one extent apart. */
struct layout_blocks {
    uint64_t count;
    const struct layout *inner;         /* of all blocks; NULL: use inners */
    const struct layout *const *inners; /* one for each block */
    const uint64_t *lengths;            /* copies in each block; NULL: `length` in every block */
    uint64_t length;
    const int64_t *offsets; /* of each block, in multiples of unit_bytes */
    int64_t unit_bytes;
};
int layout_indexed(const struct layout_blocks *blocks, struct layout **ret);
/* A box of subsizes[] elements, starting at starts[], in an array of sizes[] elements. Its bounds
 * are those of the whole array. The last index varies fastest (the first if `fortran`). -EINVAL: no
 * dimension, or the box extends beyond the array. */
int layout_subarray(const struct layout *inner, uint32_t dimensions, const uint64_t *sizes,
                    const uint64_t *subsizes, const uint64_t *starts, bool fortran,
                    struct layout **ret);
/* `inner` with the bounds lb and lb + extent (any sign). */
int layout_resized(const struct layout *inner, int64_t lb_bytes, int64_t extent_bytes,
                   struct layout **ret);
/* `inner`, moved by offset bytes. */
int layout_shift(const struct layout *inner, int64_t offset_bytes, struct layout **ret);
int layout_dup(const struct layout *layout, struct layout **ret);

/* Checks `bytes` bytes of untrusted data as a program: structure and depth, and that size, blocks
 * and bounds match the operations without overflow. Returns 0, -EINVAL, -EPROTO (version mismatch)
 * or -E2BIG. On failure, *ret_why (ret_why may be NULL) is a static text that names the fault. The
 * data must not change afterwards: copy it to private memory first. */
int layout_check(const void *data, size_t bytes, const char **ret_why);

/* Whether every byte of the layout, with its base at offset, lies in 0 .. length. */
bool layout_fits(const struct layout *layout, uint64_t offset_bytes, uint64_t length_bytes);

/* Whether two layouts with these base addresses have a byte in common. All their addresses must be
 * below LAYOUT_ADDRESS_MAX. The comparison consumes one from *budget per pair of blocks that it may
 * have to compare (a block-stride layout counts as one block). Within the budget, the result is
 * exact; beyond it, true. Block-stride layouts that interleave without touching because of their
 * strides are always recognised. */
#define LAYOUT_ADDRESS_MAX (UINT64_C(1) << 61)
bool layout_overlap(const struct layout *a, uint64_t a_base, const struct layout *b,
                    uint64_t b_base, unsigned *budget);

/* The block-stride form of a layout: count blocks of block_bytes, stride apart, the first at
 * offset. False if it has no such form. Contiguous layouts yield count 1. */
struct layout_strided {
    uint64_t count;
    uint64_t block_bytes;
    int64_t stride_bytes;
    int64_t offset_bytes;
};
bool layout_as_strided(const struct layout *layout, struct layout_strided *ret);
/* The number of contiguous blocks in packed order: at most block_count, as the last block of one
 * operation or iteration may be continued by the first of the next. Takes time in proportion to the
 * program. */
uint64_t layout_runs(const struct layout *layout);

/* One block. */
bool layout_is_contiguous(const struct layout *layout);

/* Iterates over the blocks from any packed position. Allocates nothing; the layout must outlive the
 * cursor. */
struct layout_cursor {
    const struct layout *layout;
    uint64_t position_bytes; /* packed position of the next block */
    uint32_t op;             /* current operation */
    uint32_t depth;
    uint64_t done_bytes; /* of the current block (BLOCK or LIST pair) */
    uint64_t pair;       /* LIST: index in its pairs */
    int64_t base_bytes;  /* sum of the enclosing loops' offsets */
    struct {
        uint32_t op;
        uint64_t iteration;
    } loops[LAYOUT_DEPTH_MAX];
};
/* position_bytes must not exceed the size. Position 0 costs nothing. Any other costs time linear in
 * the operations and pairs of the program, independent of loop counts; to process a layout
 * piecewise, keep the cursor. */
void layout_cursor_init(struct layout_cursor *cursor, const struct layout *layout,
                        uint64_t position_bytes);
/* The next piece of at most max_bytes (> 0): its offset from the base and its length. False at the
 * end. */
bool layout_cursor_next(struct layout_cursor *cursor, uint64_t max_bytes, int64_t *ret_offset_bytes,
                        uint64_t *ret_length_bytes);

/* A one-line description: "64 x 256 B every 4096 B (16 KiB)". Truncated to size, always
 * NUL-terminated. */
void layout_describe(const struct layout *layout, char *text, size_t size);
