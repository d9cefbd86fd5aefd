/* The public layout functions, on top of proto/layout.h. */
#include "client/layout/layout.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/core/error.h"
#include "client/core/layouts.h"
#include "drivers/copy/copy.h"

/* A program that does not check the call that makes `inner` passes on a NULL. */
static int check_inner(const struct tca_layout *inner)
{
    return inner ? 0
                 : error_static(-EINVAL,
                                "layout: the inner layout is NULL: check the call that makes it");
}

static int64_t extent_of(const struct tca_layout *inner)
{
    return inner ? layout_extent(inner->program) : 0;
}

static int explain(int code)
{
    switch (code) {
    case -ENOMEM:
        return error_static(code, "layout: out of memory");
    case -EOVERFLOW:
        return error_static(code, "layout: an offset needs more than 63 bits");
    case -E2BIG:
        return error_set(code,
                         "layout: more than %d nested loops, or more than %d operations or "
                         "irregular blocks: divide it into several layouts",
                         LAYOUT_DEPTH_MAX, LAYOUT_OPS_MAX);
    default:
        return error_static(code, "layout: invalid blocks");
    }
}

/* Wraps the result of a constructor of proto/layout.h: the error r, or the program, of which it
 * takes ownership. */
static int wrap(int r, struct layout *program, const struct types *types,
                struct tca_layout **ret_layout)
{
    if (r < 0)
        return explain(r);
    struct tca_layout *layout = malloc(sizeof(*layout));
    if (!layout) {
        free(program);
        return explain(-ENOMEM);
    }
    *layout = (struct tca_layout){.program = program, .refs = 1, .types = *types};
    *ret_layout = layout;
    return 0;
}

/* The same, for a program of `copies` copies of inner. */
static int wrap_copies(int r, struct layout *program, const struct tca_layout *inner,
                       uint64_t copies, struct tca_layout **ret_layout)
{
    struct types types = types_of(TCA_TYPE_BYTE, 0);
    if (copies > 0)
        types_append(&types, &inner->types, copies);
    return wrap(r, program, &types, ret_layout);
}

/* ---- elements and copies of them ---- */

int tca_layout_element(enum tca_type type, struct tca_layout **ret_layout)
{
    const struct element_info *info = element_info((uint32_t)type);
    if (!info)
        return error_set(-EINVAL, "layout: invalid element type %d", (int)type);
    struct layout *program = NULL;
    struct types types = types_of(type, 1);
    int r = layout_element((uint32_t)type, info->size_bytes, info->alignment, &program);
    return wrap(r, program, &types, ret_layout);
}

int tca_layout_contiguous(uint64_t bytes, struct tca_layout **ret_layout)
{
    struct layout *program = NULL;
    struct types types = types_of(TCA_TYPE_BYTE, bytes);
    int r = layout_contiguous(bytes, &program);
    return wrap(r, program, &types, ret_layout);
}

int tca_layout_repeat(const struct tca_layout *inner, uint64_t count, int64_t stride_bytes,
                      struct tca_layout **ret_layout)
{
    struct layout *program = NULL;
    int r = check_inner(inner);
    if (r < 0)
        return r;
    r = layout_repeat(inner->program, count, stride_bytes, &program);
    return wrap_copies(r, program, inner, count, ret_layout);
}

int tca_layout_array(const struct tca_layout *inner, uint64_t count, struct tca_layout **ret_layout)
{
    return tca_layout_repeat(inner, count, extent_of(inner), ret_layout);
}

int tca_layout_strided(uint64_t count, uint64_t block_bytes, int64_t stride_bytes,
                       struct tca_layout **ret_layout)
{
    struct tca_layout *block;
    int r = tca_layout_contiguous(block_bytes, &block);
    if (r < 0)
        return r;
    r = tca_layout_repeat(block, count, stride_bytes, ret_layout);
    tca_layout_free(block);
    return r;
}

int tca_layout_hvector(const struct tca_layout *inner, uint64_t count, uint64_t length,
                       int64_t stride_bytes, struct tca_layout **ret_layout)
{
    struct layout *program = NULL;
    int r = check_inner(inner);
    if (r < 0)
        return r;
    r = layout_hvector(inner->program, count, length, stride_bytes, &program);
    return wrap_copies(r, program, inner, count * length, ret_layout);
}

int tca_layout_vector(const struct tca_layout *inner, uint64_t count, uint64_t length,
                      int64_t stride, struct tca_layout **ret_layout)
{
    int64_t stride_bytes;
    if (__builtin_mul_overflow(stride, extent_of(inner), &stride_bytes))
        return explain(-EOVERFLOW);
    return tca_layout_hvector(inner, count, length, stride_bytes, ret_layout);
}

/* ---- blocks anywhere ---- */

static int indexed(const struct tca_layout *inner, struct layout_blocks blocks,
                   struct tca_layout **ret_layout)
{
    struct layout *program = NULL;
    int r = check_inner(inner);
    if (r < 0)
        return r;
    uint64_t copies = blocks.lengths ? 0 : blocks.count * blocks.length;
    for (uint64_t i = 0; blocks.lengths && i < blocks.count; i++)
        copies += blocks.lengths[i];
    blocks.inner = inner->program;
    r = layout_indexed(&blocks, &program);
    return wrap_copies(r, program, inner, copies, ret_layout);
}

int tca_layout_indexed(const struct tca_layout *inner, uint64_t count, const uint64_t *lengths,
                       const int64_t *offsets, struct tca_layout **ret_layout)
{
    return indexed(
        inner,
        (struct layout_blocks){
            .count = count, .lengths = lengths, .offsets = offsets, .unit_bytes = extent_of(inner)},
        ret_layout);
}

int tca_layout_hindexed(const struct tca_layout *inner, uint64_t count, const uint64_t *lengths,
                        const int64_t *offsets_bytes, struct tca_layout **ret_layout)
{
    return indexed(
        inner,
        (struct layout_blocks){
            .count = count, .lengths = lengths, .offsets = offsets_bytes, .unit_bytes = 1},
        ret_layout);
}

int tca_layout_indexed_block(const struct tca_layout *inner, uint64_t count, uint64_t length,
                             const int64_t *offsets, struct tca_layout **ret_layout)
{
    return indexed(
        inner,
        (struct layout_blocks){
            .count = count, .length = length, .offsets = offsets, .unit_bytes = extent_of(inner)},
        ret_layout);
}

int tca_layout_hindexed_block(const struct tca_layout *inner, uint64_t count, uint64_t length,
                              const int64_t *offsets_bytes, struct tca_layout **ret_layout)
{
    return indexed(inner,
                   (struct layout_blocks){
                       .count = count, .length = length, .offsets = offsets_bytes, .unit_bytes = 1},
                   ret_layout);
}

int tca_layout_struct(uint64_t count, const struct tca_layout *const *inners,
                      const uint64_t *lengths, const int64_t *offsets_bytes,
                      struct tca_layout **ret_layout)
{
    struct types types = types_of(TCA_TYPE_BYTE, 0);
    struct layout *program = NULL;
    int r = 0;
    for (uint64_t i = 0; i < count && r == 0; i++)
        r = check_inner(inners[i]);
    if (r < 0)
        return r;
    const struct layout **programs = calloc(count + 1, sizeof(*programs));
    if (!programs)
        return explain(-ENOMEM);
    for (uint64_t i = 0; i < count; i++) {
        programs[i] = inners[i]->program;
        if (lengths[i] > 0)
            types_append(&types, &inners[i]->types, lengths[i]);
    }
    r = layout_indexed(&(struct layout_blocks){.count = count,
                                               .inners = programs,
                                               .lengths = lengths,
                                               .offsets = offsets_bytes,
                                               .unit_bytes = 1},
                       &program);
    free(programs);
    return wrap(r, program, &types, ret_layout);
}

static int check_box(uint32_t dimensions, const uint64_t *sizes, const uint64_t *subsizes,
                     const uint64_t *starts)
{
    if (dimensions == 0)
        return error_static(-EINVAL, "layout: a subarray without dimensions");
    for (uint32_t i = 0; i < dimensions; i++)
        if (subsizes[i] > sizes[i] || starts[i] > sizes[i] - subsizes[i])
            return error_set(-EINVAL,
                             "layout: a subarray of %llu elements from index %llu on exceeds "
                             "dimension %u of an array, which has %llu",
                             (unsigned long long)subsizes[i], (unsigned long long)starts[i], i,
                             (unsigned long long)sizes[i]);
    return 0;
}

int tca_layout_subarray(const struct tca_layout *inner, uint32_t dimensions, const uint64_t *sizes,
                        const uint64_t *subsizes, const uint64_t *starts, enum tca_order order,
                        struct tca_layout **ret_layout)
{
    int r = check_inner(inner);
    if (r < 0 || (r = check_box(dimensions, sizes, subsizes, starts)) < 0)
        return r;
    if (order != TCA_ORDER_C && order != TCA_ORDER_FORTRAN)
        return error_set(-EINVAL, "layout: order %d: it must be TCA_ORDER_C or TCA_ORDER_FORTRAN",
                         (int)order);
    struct layout *program = NULL;
    uint64_t copies = 1;
    for (uint32_t i = 0; i < dimensions; i++)
        copies *= subsizes[i];
    r = layout_subarray(inner->program, dimensions, sizes, subsizes, starts,
                        order == TCA_ORDER_FORTRAN, &program);
    return wrap_copies(r, program, inner, copies, ret_layout);
}

/* ---- the same data, elsewhere ---- */

int tca_layout_resized(const struct tca_layout *inner, int64_t lower_bytes, int64_t extent_bytes,
                       struct tca_layout **ret_layout)
{
    struct layout *program = NULL;
    int r = check_inner(inner);
    if (r < 0)
        return r;
    r = layout_resized(inner->program, lower_bytes, extent_bytes, &program);
    return wrap(r, program, &inner->types, ret_layout);
}

int tca_layout_shift(const struct tca_layout *inner, int64_t offset_bytes,
                     struct tca_layout **ret_layout)
{
    struct layout *program = NULL;
    int r = check_inner(inner);
    if (r < 0)
        return r;
    r = layout_shift(inner->program, offset_bytes, &program);
    return wrap(r, program, &inner->types, ret_layout);
}

int tca_layout_dup(const struct tca_layout *layout, struct tca_layout **ret_layout)
{
    struct layout *program = NULL;
    int r = check_inner(layout);
    if (r < 0)
        return r;
    r = layout_dup(layout->program, &program);
    return wrap(r, program, &layout->types, ret_layout);
}

struct tca_layout *tca_layout_free(struct tca_layout *layout)
{
    /* release: this thread's reads of it; acquire: those of all other threads */
    if (layout && atomic_fetch_sub_explicit(&layout->refs, 1, memory_order_acq_rel) == 1) {
        copy_program_free(layout->packer);
        copy_program_free(layout->unpacker);
        free(layout->program);
        free(layout);
    }
    return NULL;
}

/* ---- what it is ---- */

uint64_t tca_layout_size(const struct tca_layout *layout)
{
    return layout->program->size_bytes;
}

uint64_t tca_layout_blocks(const struct tca_layout *layout)
{
    return layout_runs(layout->program);
}

void tca_layout_bounds(const struct tca_layout *layout, int64_t *ret_lower_bytes,
                       int64_t *ret_upper_bytes)
{
    *ret_lower_bytes = layout->program->lower_bytes;
    *ret_upper_bytes = layout->program->upper_bytes;
}

void tca_layout_extent(const struct tca_layout *layout, int64_t *ret_lower_bytes,
                       int64_t *ret_extent_bytes)
{
    *ret_lower_bytes = layout->program->lb_bytes;
    *ret_extent_bytes = layout_extent(layout->program);
}

void tca_layout_describe(const struct tca_layout *layout, char *text, size_t text_bytes)
{
    layout_describe(layout->program, text, text_bytes);
    if (layout->program->signature == 0)
        return;
    char types[TYPES_TEXT_BYTES + 32];
    types_describe(&layout->types, types, sizeof(types));
    size_t used = text_bytes > 0 ? strlen(text) : 0;
    snprintf(text + used, text_bytes - used, ": %s", types);
}

/* ---- for other ranks ---- */

int layout_export(const struct tca_layout *layout, void *data, size_t room)
{
    const size_t bytes = layout_bytes(layout->program);
    if (bytes > room)
        return -E2BIG;
    memcpy(data, layout->program, bytes);
    return (int)bytes;
}

int layout_import(const void *data, size_t bytes, struct tca_layout **ret_layout)
{
    const char *why;
    struct layout *program = malloc(bytes);
    if (!program)
        return explain(-ENOMEM);
    memcpy(program, data, bytes);
    if (layout_check(program, bytes, &why) < 0) {
        free(program);
        return error_set(-EPROTO, "an invalid layout: %s", why);
    }
    program->signature = 0; /* untyped */
    const struct types types = types_of(TCA_TYPE_BYTE, program->size_bytes);
    return wrap(0, program, &types, ret_layout);
}

bool layout_same(const struct tca_layout *a, const struct tca_layout *b)
{
    if (!a || !b)
        return a == b;
    const size_t bytes = layout_bytes(a->program);
    return layout_bytes(b->program) == bytes && memcmp(a->program, b->program, bytes) == 0;
}
