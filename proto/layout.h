/*
 * Layouts: where the bytes of a transfer lie, relative to a base address.
 *
 * A committed layout is a *program*: a short flat list of operations that enumerates byte blocks in packed order. It
 * contains no pointers, so it goes over sockets and through shared memory as it is; whoever receives one checks it
 * once with layout_check() and may then run it without further care, as long as the bounds fit the memory.
 *
 *   BLOCK  length bytes at offset
 *   LOOP   count times, at offset + i * stride: the `body` operations that follow
 *   LIST   count blocks of a table: (offset, length) pairs behind the operations
 *
 * Programs are kept normalised: adjacent blocks merged, loops over contiguous blocks folded, loops of one iteration
 * dissolved. A program of one BLOCK is contiguous, LOOP + BLOCK is block-stride.
 *
 * The rest of the world speaks of the *packed position*: byte n of the data in the order the program yields it.
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
    uint32_t body;         /* LOOP: how many of the following operations it repeats; LIST: index of its first pair */
    uint64_t count;        /* BLOCK: bytes; LOOP: iterations; LIST: pairs */
    int64_t offset_bytes;  /* relative to the enclosing loop's current place */
    int64_t stride_bytes;  /* LOOP only */
};
static_assert(sizeof(struct layout_op) == 32, "wire format");

struct layout_pair {
    int64_t offset_bytes;
    uint64_t length_bytes;
};

struct layout {
    uint32_t magic;
    uint16_t version;
    uint16_t depth;        /* of nested loops, at most LAYOUT_DEPTH_MAX */
    uint32_t op_count;
    uint32_t pair_count;   /* pairs that follow the operations */
    uint64_t size_bytes;   /* all blocks together: the packed size */
    uint64_t block_count;  /* how many blocks the program yields */
    int64_t lower_bytes;   /* first byte touched, relative to the base (0 when size is 0) */
    int64_t upper_bytes;   /* one past the last byte touched */
    int64_t extent_bytes;  /* distance at which the next copy of this layout starts when it is repeated */
    uint64_t signature;    /* of the basic element types in packed order; 0: plain bytes */
    struct layout_op ops[];
};
static_assert(sizeof(struct layout) == 64, "wire format");

/* Bytes of the whole program: header, operations, pairs. */
size_t layout_bytes(const struct layout *layout);

/* Constructors: 0 and a program from malloc (the caller frees it), or -EOVERFLOW (bounds or size beyond 63 or 64 bits),
 * -E2BIG (nested too deep), -ENOMEM. What they are given has been made by them, or checked by layout_check(). */
int layout_contiguous(uint64_t bytes, struct layout **ret);
/* `count` copies of `inner`, their starts stride bytes apart (any sign). Of a contiguous layout that is
 * block-stride. 0 copies are the empty layout. */
int layout_repeat(const struct layout *inner, uint64_t count, int64_t stride_bytes, struct layout **ret);
/* `inner` moved by offset bytes. */
int layout_shift(const struct layout *inner, int64_t offset_bytes, struct layout **ret);
int layout_dup(const struct layout *layout, struct layout **ret);

/* Checks `bytes` bytes of hostile data as a program: shape, depth, and that size, blocks and bounds are what the
 * operations really yield, without overflow. 0, or -EINVAL, -EPROTO (version), -E2BIG. *ret_why (may be NULL) is
 * then a static text that says what is wrong. The data must not change afterwards: copy it to private memory first. */
int layout_check(const void *data, size_t bytes, const char **ret_why);

/* True when every byte of the layout, with its base at offset, lies in 0 .. length. */
bool layout_fits(const struct layout *layout, uint64_t offset_bytes, uint64_t length_bytes);

/* The block-stride form: count blocks of block_bytes, stride apart, the first at offset. False when it is none.
 * Contiguous layouts yield count 1. */
struct layout_strided {
    uint64_t count;
    uint64_t block_bytes;
    int64_t stride_bytes;
    int64_t offset_bytes;
};
bool layout_as_strided(const struct layout *layout, struct layout_strided *ret);

/* Walks the blocks from any packed position on. No allocation; the layout must outlive the cursor. */
struct layout_cursor {
    const struct layout *layout;
    uint64_t position_bytes; /* packed position of the next block */
    uint32_t op;             /* current operation */
    uint32_t depth;
    uint64_t done_bytes;     /* of the current block (BLOCK or LIST pair) */
    uint64_t pair;           /* LIST: index in its pairs */
    int64_t base_bytes;      /* sum of the enclosing loops' offsets */
    struct {
        uint32_t op;
        uint64_t iteration;
    } loops[LAYOUT_DEPTH_MAX];
};
/* position_bytes at most size. Seeking costs the length of the program, whatever its counts are; to 0 it is free. */
void layout_cursor_init(struct layout_cursor *cursor, const struct layout *layout, uint64_t position_bytes);
/* The next piece of at most max_bytes (> 0): offset relative to the base, and its length. False at the end. */
bool layout_cursor_next(struct layout_cursor *cursor, uint64_t max_bytes, int64_t *ret_offset_bytes,
                        uint64_t *ret_length_bytes);

/* One line for people: "64 x 256 B every 4096 B (16 KiB)". Truncates to size, always NUL-terminated. */
void layout_describe(const struct layout *layout, char *text, size_t size);
