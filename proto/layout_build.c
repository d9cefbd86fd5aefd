/* The constructors. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/layout_builder.h"
#include "proto/layout_type.h"

/* ---- from builder to layout ---- */

/* Reuses the memory of the pairs for the program: large tables would otherwise fault in new
 * pages. */
static int assemble(struct builder *b, const struct layout *header, struct layout **ret)
{
    const size_t op_bytes = b->op_count * sizeof(*b->ops),
                 pair_bytes = b->pair_count * sizeof(*b->pairs),
                 front_bytes = sizeof(*header) + op_bytes;
    uint8_t *program = realloc(b->pairs, front_bytes + pair_bytes);
    if (!program)
        return -ENOMEM;
    b->pairs = NULL;
    memmove(program + front_bytes, program, pair_bytes);
    memcpy(program, header, sizeof(*header));
    if (op_bytes > 0)
        memcpy(program + sizeof(*header), b->ops, op_bytes);
    *ret = (struct layout *)program;
    return 0;
}

static int make(struct builder *b, const struct type *type, struct layout **ret)
{
    struct layout_sum sum;
    const char *why;
    int r = layout_sum(b->ops, b->op_count, b->pairs, b->pair_count, &sum, &why);
    if (r < 0)
        return r;
    const struct layout header = {
        .magic = LAYOUT_MAGIC,
        .version = PROTO_VERSION,
        .depth = sum.depth,
        .op_count = b->op_count,
        .pair_count = b->pair_count,
        .size_bytes = sum.size_bytes,
        .block_count = sum.block_count,
        .lower_bytes = sum.lower_bytes,
        .upper_bytes = sum.upper_bytes,
        .lb_bytes = type->lb,
        .ub_bytes = type->ub,
        .signature = type->signature,
        .alignment = type->alignment,
        .marked = type->marked,
    };
    return layout_type_valid(&header) ? assemble(b, &header, ret) : -EOVERFLOW;
}

int layout_finish(struct builder *b, int r, const struct type *type, struct layout **ret)
{
    if (r == 0)
        r = builder_flush(b);
    if (r == 0)
        r = make(b, type, ret);
    builder_deinit(b);
    return r;
}

/* ---- constructors ---- */

static int contiguous(uint64_t bytes, uint64_t signature, uint32_t alignment, struct layout **ret)
{
    struct builder b = {0};
    struct type type = {.ub = (int64_t)bytes, .alignment = alignment, .signature = signature};
    return layout_finish(&b, builder_add_block(&b, 0, bytes), &type, ret);
}

int layout_contiguous(uint64_t bytes, struct layout **ret)
{
    return contiguous(bytes, 0, 1, ret);
}

int layout_element(uint32_t type, uint64_t size_bytes, uint32_t alignment, struct layout **ret)
{
    return contiguous(size_bytes, type, alignment, ret);
}

int layout_repeat(const struct layout *inner, uint64_t count, int64_t stride_bytes,
                  struct layout **ret)
{
    if (count == 0)
        return layout_contiguous(0, ret);
    struct builder b = {0};
    struct type type = type_of(inner);
    type.signature = signature_repeat(inner->signature, inner->size_bytes, count);
    int r = type_spread(&type, 0, count, stride_bytes);
    if (r == 0)
        r = builder_add_loop(&b, inner->ops, inner->op_count, layout_pairs(inner), count,
                             stride_bytes, 0);
    return layout_finish(&b, r, &type, ret);
}

int layout_hvector(const struct layout *inner, uint64_t count, uint64_t block_count,
                   int64_t stride_bytes, struct layout **ret)
{
    struct layout *block;
    int r = layout_repeat(inner, block_count, layout_extent(inner), &block);
    if (r < 0)
        return r;
    r = layout_repeat(block, count, stride_bytes, ret);
    free(block);
    return r;
}

int layout_shift(const struct layout *inner, int64_t offset_bytes, struct layout **ret)
{
    struct builder b = {0};
    struct type type = type_of(inner);
    int r = type_spread(&type, offset_bytes, 1, 0);
    if (r == 0)
        r = builder_add_ops(&b, inner->ops, inner->op_count, layout_pairs(inner), offset_bytes);
    return layout_finish(&b, r, &type, ret);
}

int layout_dup(const struct layout *layout, struct layout **ret)
{
    size_t bytes = layout_bytes(layout);
    struct layout *copy = malloc(bytes);
    if (!copy)
        return -ENOMEM;
    memcpy(copy, layout, bytes);
    *ret = copy;
    return 0;
}

int layout_resized(const struct layout *inner, int64_t lb_bytes, int64_t extent_bytes,
                   struct layout **ret)
{
    int64_t ub;
    if (__builtin_add_overflow(lb_bytes, extent_bytes, &ub))
        return -EOVERFLOW;
    struct layout *layout;
    int r = layout_dup(inner, &layout);
    if (r < 0)
        return r;
    layout->lb_bytes = lb_bytes;
    layout->ub_bytes = ub;
    layout->marked = 1;
    *ret = layout;
    return 0;
}
