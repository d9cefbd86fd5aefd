/*
 * The loops that move bytes, and which of them this processor has.
 *
 * The same sources are compiled once for each instruction set; copy_kernels() is the best set that
 * runs here. Source and target may overlap (both are a user's): the bytes are then unspecified, and
 * nothing else happens. No kernel touches a byte outside the blocks that it was given.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* `rows` times `count` blocks of block_bytes; strides of any sign. */
struct copy_nest {
    uint64_t block_bytes;
    uint64_t count; /* the inner loop */
    int64_t target_stride_bytes;
    int64_t source_stride_bytes;
    uint64_t rows; /* the outer one */
    int64_t target_row_bytes;
    int64_t source_row_bytes;
};
typedef void copy_nest_kernel(uint8_t *target, const uint8_t *source, const struct copy_nest *nest);

/* Blocks at places of their own. A side without places is packed. */
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
    /* the kernel for this shape; the nest may still have fewer rows, or blocks in a row, when it
     * runs */
    copy_nest_kernel *(*nest)(const struct copy_nest *nest);
    /* For rows that share lines of the target while blocks of a row share those of the source;
     * NULL: none for that size. */
    copy_nest_kernel *(*nest_transpose)(const struct copy_nest *nest);
    copy_list_kernel *(*list)(const struct copy_list *list);
    /* The same with stores past the caches; NULL when that is nothing for this shape. stream_end()
     * behind the last. */
    copy_nest_kernel *(*nest_stream)(const struct copy_nest *nest);
    copy_list_kernel *(*list_stream)(const struct copy_list *list);
    void (*stream)(uint8_t *target, const uint8_t *source, uint64_t bytes);
    void (*stream_end)(void);
};

const struct copy_kernels *copy_kernels(void);
/* For tests and measurements: from now on that set for new programs. False when the processor lacks
 * it. */
bool copy_kernels_use(const char *name);
/* The names there are, best first; NULL behind the last. */
const char *copy_kernels_name(unsigned index);
