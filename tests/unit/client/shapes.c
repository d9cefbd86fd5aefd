/* Random shapes, made by libtca and as text. */
#include "tests/unit/client/shapes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    uint32_t bytes, alignment;
    bool mpi;
} types[] = {
    [TCA_TYPE_BYTE] = {1, 1, true},
    [TCA_TYPE_CHAR] = {1, 1, true},
    [TCA_TYPE_BOOL] = {1, 1, true},
    [TCA_TYPE_INT8] = {1, 1, true},
    [TCA_TYPE_INT16] = {2, 2, true},
    [TCA_TYPE_INT32] = {4, 4, true},
    [TCA_TYPE_INT64] = {8, 8, true},
    [TCA_TYPE_INT128] = {16, 16, false},
    [TCA_TYPE_UINT8] = {1, 1, true},
    [TCA_TYPE_UINT16] = {2, 2, true},
    [TCA_TYPE_UINT32] = {4, 4, true},
    [TCA_TYPE_UINT64] = {8, 8, true},
    [TCA_TYPE_UINT128] = {16, 16, false},
    [TCA_TYPE_FLOAT16] = {2, 2, false},
    [TCA_TYPE_FLOAT] = {4, 4, true},
    [TCA_TYPE_DOUBLE] = {8, 8, true},
    [TCA_TYPE_LONG_DOUBLE] = {16, 16, true},
    [TCA_TYPE_COMPLEX_FLOAT] = {8, 4, true},
    [TCA_TYPE_COMPLEX_DOUBLE] = {16, 8, true},
};
enum { TYPE_COUNT = sizeof(types) / sizeof(types[0]) };

uint32_t shape_type_bytes(enum tca_type type)
{
    return types[type].bytes;
}

uint32_t shape_type_alignment(enum tca_type type)
{
    return types[type].alignment;
}

/* ---- chance ---- */

static int64_t random_between(struct random *random, int64_t low, int64_t high)
{
    return low + (int64_t)random_below(random, (uint64_t)(high - low + 1));
}

/* Mostly small, now and then 0 or many. */
static uint64_t random_count(struct random *random, uint64_t most)
{
    switch (random_below(random, 10)) {
    case 0:
        return 0;
    case 1:
        return 1 + random_below(random, most);
    default:
        return 1 + random_below(random, most < 5 ? most : 5);
    }
}

static bool chosen(struct shape_choice choice, enum tca_type type)
{
    return !choice.mpi || (types[type].mpi &&
                           (choice.alignment == 0 || types[type].alignment == choice.alignment));
}

static void random_element(struct random *random, struct shape *shape, struct shape_choice choice)
{
    do
        shape->type = (enum tca_type)random_below(random, TYPE_COUNT);
    while (!chosen(choice, shape->type));
}

/* Anywhere; or regular for a while, which makes loops; or adjacent, which makes one block. */
static void random_blocks(struct random *random, struct shape *shape)
{
    int64_t at = random_between(random, -20, 20), step = random_between(random, -40, 40);
    uint64_t length = random_count(random, 6);
    for (uint64_t i = 0; i < shape->count; i++) {
        uint64_t way = random_below(random, 16);
        if (way == 0)
            length = random_count(random, 6);
        if (way <= 1)
            step = random_between(random, -40, 40);
        if (way == 2)
            step = (int64_t)length;
        if (way == 3)
            at = random_between(random, -300, 300);
        shape->lengths[i] = length;
        shape->offsets[i] = at;
        at += step;
    }
}

static void random_box(struct random *random, struct shape *shape, struct shape_choice choice)
{
    shape->dimensions = 1 + (uint32_t)random_below(random, SHAPE_DIMENSIONS_MAX);
    shape->order = random_below(random, 2) ? TCA_ORDER_FORTRAN : TCA_ORDER_C;
    for (uint32_t i = 0; i < shape->dimensions; i++) {
        bool none = !choice.mpi && random_below(random, 20) == 0;
        uint64_t size = shape->sizes[i] = 1 + random_below(random, 6);
        uint64_t subsize = random_below(random, 3) == 0 ? size : 1 + random_below(random, size);
        shape->subsizes[i] = none ? 0 : subsize;
        shape->starts[i] = random_below(random, size - shape->subsizes[i] + 1);
    }
}

static bool offsets_are_bytes(const struct shape *shape)
{
    return shape->kind == SHAPE_HINDEXED || shape->kind == SHAPE_HINDEXED_BLOCK ||
           shape->kind == SHAPE_STRUCT;
}

static void multiply(struct shape *shape, int64_t unit)
{
    for (uint64_t i = 0; i < shape->count && offsets_are_bytes(shape); i++)
        shape->offsets[i] *= unit;
    shape->stride *= shape->kind == SHAPE_HVECTOR ? unit : 1;
    shape->lower *= unit;
    shape->extent *= unit;
}

static void begin_at_0(struct shape *shape)
{
    for (uint64_t i = 0; i < SHAPE_BLOCKS_MAX; i++)
        shape->offsets[i] = i == 0 ? 0 : llabs(shape->offsets[i]);
    shape->stride = llabs(shape->stride);
}

static void suit_mpi(struct shape *shape, uint32_t alignment)
{
    shape->count += shape->count == 0;
    shape->length += shape->length == 0;
    shape->lengths[0] += shape->lengths[0] == 0;
    shape->stride -= shape->stride == -1; /* Open MPI 4.1 takes a stride of -1 bytes for none */
    if (alignment == 0)
        begin_at_0(shape);
    multiply(shape, alignment > 0 ? alignment : 16);
}

struct shape *shape_random(struct random *random, unsigned depth, struct shape_choice choice)
{
    struct shape *shape = calloc(1, sizeof(*shape));
    shape->kind = depth == 0 ? SHAPE_ELEMENT : (enum shape_kind)random_below(random, SHAPE_KINDS);
    shape->count = random_count(random, SHAPE_BLOCKS_MAX);
    shape->length = random_count(random, 8);
    shape->stride = random_between(random, -12, 12);
    if (shape->kind == SHAPE_HVECTOR)
        shape->stride = random_between(random, -200, 200);
    if (shape->kind == SHAPE_SUBARRAY)
        random_box(random, shape, choice);
    random_blocks(random, shape);
    shape->lower = random_between(random, -50, 50);
    shape->extent = random_between(random, random_below(random, 4) ? 0 : -100, 100);
    if (choice.mpi)
        suit_mpi(shape, choice.alignment);
    if (shape->kind == SHAPE_ELEMENT) {
        random_element(random, shape, choice);
    } else if (shape->kind == SHAPE_STRUCT) {
        for (uint64_t i = 0; i < shape->count; i++)
            shape->inners[i] = shape_random(random, (unsigned)random_below(random, depth), choice);
    } else {
        shape->inner = shape_random(random, depth - 1, choice);
    }
    return shape;
}

struct shape *shape_free(struct shape *shape)
{
    if (!shape)
        return NULL;
    shape_free(shape->inner);
    for (uint64_t i = 0; shape->kind == SHAPE_STRUCT && i < shape->count; i++)
        shape_free(shape->inners[i]);
    free(shape);
    return NULL;
}

/* ---- libtca ---- */

static int layout_struct(const struct shape *shape, struct tca_layout **ret_layout)
{
    struct tca_layout *inners[SHAPE_BLOCKS_MAX] = {0};
    int r = 0;
    for (uint64_t i = 0; i < shape->count && r == 0; i++)
        r = shape_layout(shape->inners[i], &inners[i]);
    if (r == 0)
        r = tca_layout_struct(shape->count, (const struct tca_layout *const *)inners,
                              shape->lengths, shape->offsets, ret_layout);
    for (uint64_t i = 0; i < shape->count; i++)
        tca_layout_free(inners[i]);
    return r;
}

static int layout_of_inner(const struct shape *s, const struct tca_layout *inner,
                           struct tca_layout **ret)
{
    switch (s->kind) {
    case SHAPE_ARRAY:
        return tca_layout_array(inner, s->count, ret);
    case SHAPE_VECTOR:
        return tca_layout_vector(inner, s->count, s->length, s->stride, ret);
    case SHAPE_HVECTOR:
        return tca_layout_hvector(inner, s->count, s->length, s->stride, ret);
    case SHAPE_INDEXED:
        return tca_layout_indexed(inner, s->count, s->lengths, s->offsets, ret);
    case SHAPE_HINDEXED:
        return tca_layout_hindexed(inner, s->count, s->lengths, s->offsets, ret);
    case SHAPE_INDEXED_BLOCK:
        return tca_layout_indexed_block(inner, s->count, s->length, s->offsets, ret);
    case SHAPE_HINDEXED_BLOCK:
        return tca_layout_hindexed_block(inner, s->count, s->length, s->offsets, ret);
    case SHAPE_SUBARRAY:
        return tca_layout_subarray(inner, s->dimensions, s->sizes, s->subsizes, s->starts, s->order,
                                   ret);
    case SHAPE_RESIZED:
        return tca_layout_resized(inner, s->lower, s->extent, ret);
    default:
        return tca_layout_dup(inner, ret);
    }
}

int shape_layout(const struct shape *shape, struct tca_layout **ret_layout)
{
    struct tca_layout *inner;
    if (shape->kind == SHAPE_ELEMENT)
        return tca_layout_element(shape->type, ret_layout);
    if (shape->kind == SHAPE_STRUCT)
        return layout_struct(shape, ret_layout);
    int r = shape_layout(shape->inner, &inner);
    if (r < 0)
        return r;
    r = layout_of_inner(shape, inner, ret_layout);
    tca_layout_free(inner);
    return r;
}

/* ---- text ---- */

void shape_print(const struct shape *s, char *text, size_t text_bytes)
{
    static const char *const names[] = {"element", "array",    "vector",        "hvector",
                                        "indexed", "hindexed", "indexed_block", "hindexed_block",
                                        "struct",  "subarray", "resized",       "dup"};
    char inner[2000] = "";
    if (s->inner)
        shape_print(s->inner, inner, sizeof(inner));
    if (s->kind == SHAPE_ELEMENT)
        snprintf(text, text_bytes, "%d", (int)s->type);
    else if (s->kind == SHAPE_RESIZED)
        snprintf(text, text_bytes, "resized(%ld %ld, %s)", s->lower, s->extent, inner);
    else
        snprintf(text, text_bytes, "%s(%lu %lu %ld, %s)", names[s->kind], s->count, s->length,
                 s->stride, inner);
    if (s->kind < SHAPE_INDEXED || s->kind > SHAPE_STRUCT)
        return;
    for (uint64_t i = 0; i < s->count; i++) {
        size_t used = strlen(text);
        if (s->kind == SHAPE_STRUCT)
            shape_print(s->inners[i], inner, sizeof(inner));
        snprintf(text + used, text_bytes - used, " [%lu at %ld%s%s]", s->lengths[i], s->offsets[i],
                 s->kind == SHAPE_STRUCT ? " of " : "", s->kind == SHAPE_STRUCT ? inner : "");
    }
}
