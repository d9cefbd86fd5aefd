/*
 * Layouts: where the bytes of a transfer lie, relative to a base address.
 *
 * A committed layout is a *program*: a short flat list of operations that enumerates byte blocks in
 * packed order. It contains no pointers, so it goes over sockets and through shared memory as it
 * is; whoever receives one checks it once with layout_check() and may then run it without further
 * care, as long as the bounds fit the memory.
 *
 *   BLOCK  length bytes at offset
 *   LOOP   count times, at offset + i * stride: the `body` operations that follow
 *   LIST   count blocks of a table: (offset, length) pairs behind the operations
 *
 * The constructors below make programs in normal form: adjacent blocks are merged, loops over
 * contiguous blocks folded, nested loops that go on where the inner one stops made one, loops of
 * one iteration dissolved. Blocks side by side are a list, but for regular ones: all of them, or
 * sixteen and more in a row, are a loop; and sixty-four and more in a row of one length have a list
 * of their own, which says so. Inside a loop the first operation lies at offset 0. A program of one
 * BLOCK is contiguous, LOOP + BLOCK is block-stride.
 *
 * The rest of the world speaks of the *packed position*: byte n of the data in the order the
 * program yields it.
 *
 * A layout is a type map as MPI has it, too: what counts when it is repeated is its lower and upper
 * bound (lb, ub), which are those of its blocks, or, where layout_resized() was used, marks that
 * may lie anywhere; and the types of its elements, of which only a signature remains. The program
 * does not depend on any of that.
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
    uint32_t body;  /* LOOP: how many of the following operations it repeats; LIST: index of its
                       first pair */
    uint64_t count; /* BLOCK: bytes; LOOP: iterations; LIST: pairs */
    int64_t offset_bytes; /* relative to the enclosing loop's current place */
    union {
        int64_t stride_bytes; /* LOOP */
        /* LIST: the length of every pair, when it is known to be one; else 0 */
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
    uint32_t pair_count;  /* pairs that follow the operations */
    uint64_t size_bytes;  /* all blocks together: the packed size */
    uint64_t block_count; /* how many blocks the program yields */
    int64_t lower_bytes;  /* first byte touched, relative to the base (0 when size is 0) */
    int64_t upper_bytes;  /* one past the last byte touched */
    int64_t lb_bytes;     /* bounds of the type map: where copies of it start and end */
    int64_t ub_bytes;
    uint64_t signature; /* of the basic element types in packed order; 0: plain bytes */
    uint32_t alignment; /* of its strictest element: 1, 2, 4, 8 or 16 */
    uint32_t marked;    /* 1: lb and ub were set, and alignment adds nothing; else 0 */
    struct layout_op ops[];
};
static_assert(sizeof(struct layout) == 80, "wire format");
static_assert(offsetof(struct layout, ops) % _Alignof(max_align_t) == 0,
              "the table lies as malloc gave the program");

/* Bytes of the whole program: header, operations, pairs. */
size_t layout_bytes(const struct layout *layout);

/* The distance at which the next copy starts when a layout is repeated: from lb to ub, and, unless
 * that was set, as far on as alignment demands. Negative only where it was set so. */
int64_t layout_extent(const struct layout *layout);

/* Constructors (layout_build.c): 0 and a program from malloc (the caller frees it), or -EOVERFLOW
 * (bounds or size beyond 63 or 64 bits), -E2BIG (nested too deep; more than LAYOUT_OPS_MAX
 * operations or irregular blocks), -EINVAL, -ENOMEM. What they are given has been made by them, or
 * checked by layout_check(). Zero counts give the empty layout. */

/* Plain bytes, without a type. */
int layout_contiguous(uint64_t bytes, struct layout **ret);
/* One element. type: a number of its own, > 0; alignment: see above. */
int layout_element(uint32_t type, uint64_t size_bytes, uint32_t alignment, struct layout **ret);
/* `count` copies of `inner`, their starts stride bytes apart (any sign). Of a contiguous layout
 * that is block-stride. */
int layout_repeat(const struct layout *inner, uint64_t count, int64_t stride_bytes,
                  struct layout **ret);
/* `count` blocks, each of block_count copies of `inner`, one extent apart; the blocks' starts
 * stride bytes apart. */
int layout_hvector(const struct layout *inner, uint64_t count, uint64_t block_count,
                   int64_t stride_bytes, struct layout **ret);
/* Blocks of copies of a layout, one extent apart, anywhere. */
struct layout_blocks {
    uint64_t count;
    const struct layout *inner;         /* of all blocks; NULL: see inners */
    const struct layout *const *inners; /* one for each block */
    const uint64_t *lengths;            /* copies in each block; NULL: `length` in all */
    uint64_t length;
    const int64_t *offsets; /* of each block, in units */
    int64_t unit_bytes;
};
int layout_indexed(const struct layout_blocks *blocks, struct layout **ret);
/* A box of subsizes[] elements out of an array of sizes[], beginning at starts[]; its bounds are
 * the whole array's. The last index runs fastest, or, if fortran, the first. -EINVAL: no dimension,
 * or a box that sticks out. */
int layout_subarray(const struct layout *inner, uint32_t dimensions, const uint64_t *sizes,
                    const uint64_t *subsizes, const uint64_t *starts, bool fortran,
                    struct layout **ret);
/* `inner` with other bounds: lb and ub = lb + extent (any sign). */
int layout_resized(const struct layout *inner, int64_t lb_bytes, int64_t extent_bytes,
                   struct layout **ret);
/* `inner` moved by offset bytes. */
int layout_shift(const struct layout *inner, int64_t offset_bytes, struct layout **ret);
int layout_dup(const struct layout *layout, struct layout **ret);

/* Checks `bytes` bytes of hostile data as a program: shape, depth, and that size, blocks and bounds
 * are what the operations really yield, without overflow. 0, or -EINVAL, -EPROTO (version), -E2BIG.
 * *ret_why (may be NULL) is then a static text that says what is wrong. The data must not change
 * afterwards: copy it to private memory first. */
int layout_check(const void *data, size_t bytes, const char **ret_why);

/* True when every byte of the layout, with its base at offset, lies in 0 .. length. */
bool layout_fits(const struct layout *layout, uint64_t offset_bytes, uint64_t length_bytes);

/* Whether two layouts, their bases at these addresses, touch a byte in common. All addresses that
 * they touch are below LAYOUT_ADDRESS_MAX. Comparing costs a unit of *budget for each pair of blocks
 * that may have to be looked at (regular ones count once); when the budget is too small for that,
 * the answer is true. Exact within it; block-strides that lie between each other's blocks because of
 * their strides are told apart whatever the budget is. */
#define LAYOUT_ADDRESS_MAX (UINT64_C(1) << 61)
bool layout_overlap(const struct layout *a, uint64_t a_base, const struct layout *b,
                    uint64_t b_base, unsigned *budget);

/* The block-stride form: count blocks of block_bytes, stride apart, the first at offset. False when
 * it is none. Contiguous layouts yield count 1. */
struct layout_strided {
    uint64_t count;
    uint64_t block_bytes;
    int64_t stride_bytes;
    int64_t offset_bytes;
};
bool layout_as_strided(const struct layout *layout, struct layout_strided *ret);

/* Walks the blocks from any packed position on. No allocation; the layout must outlive the cursor.
 */
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
/* position_bytes at most size. Seeking costs the length of the program, and of lists of unequal
 * blocks, whatever the counts of loops are; to 0 it is free. Who goes through a layout in pieces
 * keeps the cursor. */
void layout_cursor_init(struct layout_cursor *cursor, const struct layout *layout,
                        uint64_t position_bytes);
/* The next piece of at most max_bytes (> 0): offset relative to the base, and its length. False at
 * the end. */
bool layout_cursor_next(struct layout_cursor *cursor, uint64_t max_bytes, int64_t *ret_offset_bytes,
                        uint64_t *ret_length_bytes);

/* One line for people: "64 x 256 B every 4096 B (16 KiB)". Truncates to size, always
 * NUL-terminated. */
void layout_describe(const struct layout *layout, char *text, size_t size);
