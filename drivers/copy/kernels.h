/*
 * The loops that move bytes, and their selection for this processor.
 *
 * The sources are compiled once for each instruction set; copy_kernels() returns the best set that
 * this processor supports. If source and target overlap, the bytes are unspecified, with no other
 * effect. No kernel touches a byte outside the blocks that it was given.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "drivers/copy/combine.h"

/* `rows` times `count` blocks of block_bytes; strides of any sign. */
struct copy_nest {
    uint64_t block_bytes;
    uint64_t count; /* iterations of the inner loop */
    int64_t target_stride_bytes;
    int64_t source_stride_bytes;
    uint64_t rows; /* iterations of the outer loop */
    int64_t target_row_bytes;
    int64_t source_row_bytes;
};
typedef void copy_nest_kernel(uint8_t *target, const uint8_t *source, const struct copy_nest *nest);

/* Blocks at arbitrary offsets. A side without offsets (NULL) is packed. */
struct copy_list {
    const int32_t *target_places; /* relative to the side's base */
    const int32_t *source_places;
    /* packed position of each block and of the end; NULL: all have block_bytes */
    const uint32_t *starts;
    uint64_t block_bytes;
};
static inline int64_t copy_list_start(const struct copy_list *list, uint64_t block)
{
    return list->starts ? list->starts[block] : (int64_t)(block * list->block_bytes);
}

static inline uint64_t copy_list_length(const struct copy_list *list, uint64_t block)
{
    return list->starts ? list->starts[block + 1] - list->starts[block] : list->block_bytes;
}

/* Blocks first .. first + count of the list. */
typedef void copy_list_kernel(uint8_t *target, const uint8_t *source, const struct copy_list *list,
                              uint64_t first, uint64_t count);

struct copy_kernels {
    const char *name;
    /* The kernel for this shape. It may be run with fewer rows or blocks per row. */
    copy_nest_kernel *(*nest)(const struct copy_nest *nest);
    /* For rows that share cache lines of the target while the blocks of a row share those of the
     * source; NULL: no such kernel for this block size. */
    copy_nest_kernel *(*nest_transpose)(const struct copy_nest *nest);
    copy_list_kernel *(*list)(const struct copy_list *list);
    /* The same with streaming stores; NULL: not worthwhile for this shape. Call stream_end() after
     * the last. */
    copy_nest_kernel *(*nest_stream)(const struct copy_nest *nest);
    copy_list_kernel *(*list_stream)(const struct copy_list *list);
    void (*stream)(uint8_t *target, const uint8_t *source, uint64_t bytes);
    void (*stream_end)(void);
    combine_kernel *(*combine)(enum element_operator number, enum element_type type);
};

const struct copy_kernels *copy_kernels(void);
/* For tests and measurements: selects the set for new programs. False: this processor does not
 * support it. */
bool copy_kernels_use(const char *name);
/* The names of the sets, best first; NULL after the last. */
const char *copy_kernels_name(unsigned index);
