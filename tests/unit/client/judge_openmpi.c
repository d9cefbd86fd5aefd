/*
 * An outside judge: the same random layouts made by an MPI library and by libtca must have the same
 * size, bounds and extent, and must pack and unpack to the same bytes.
 *
 * A failure prints its seed; TCA_TEST_SEED=n repeats just that one. Exit status 77: MPI cannot run
 * here.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/client/shapes.h"

enum { SHAPES = 4000, DEPTH_MAX = 4, GUARD = 64 };

static MPI_Datatype element(enum tca_type type)
{
    switch (type) {
    case TCA_TYPE_CHAR:
        return MPI_CHAR;
    case TCA_TYPE_BOOL:
        return MPI_C_BOOL;
    case TCA_TYPE_INT8:
        return MPI_INT8_T;
    case TCA_TYPE_INT16:
        return MPI_INT16_T;
    case TCA_TYPE_INT32:
        return MPI_INT32_T;
    case TCA_TYPE_INT64:
        return MPI_INT64_T;
    case TCA_TYPE_UINT8:
        return MPI_UINT8_T;
    case TCA_TYPE_UINT16:
        return MPI_UINT16_T;
    case TCA_TYPE_UINT32:
        return MPI_UINT32_T;
    case TCA_TYPE_UINT64:
        return MPI_UINT64_T;
    case TCA_TYPE_FLOAT:
        return MPI_FLOAT;
    case TCA_TYPE_DOUBLE:
        return MPI_DOUBLE;
    case TCA_TYPE_LONG_DOUBLE:
        return MPI_LONG_DOUBLE;
    case TCA_TYPE_COMPLEX_FLOAT:
        return MPI_C_FLOAT_COMPLEX;
    case TCA_TYPE_COMPLEX_DOUBLE:
        return MPI_C_DOUBLE_COMPLEX;
    default:
        return MPI_BYTE;
    }
}

static MPI_Datatype datatype(const struct shape *s);

static MPI_Datatype datatype_struct(const struct shape *s)
{
    MPI_Datatype types[SHAPE_BLOCKS_MAX], made;
    int lengths[SHAPE_BLOCKS_MAX];
    MPI_Aint offsets[SHAPE_BLOCKS_MAX];
    for (uint64_t i = 0; i < s->count; i++) {
        types[i] = datatype(s->inners[i]);
        lengths[i] = (int)s->lengths[i];
        offsets[i] = s->offsets[i];
    }
    MPI_Type_create_struct((int)s->count, lengths, offsets, types, &made);
    for (uint64_t i = 0; i < s->count; i++)
        MPI_Type_free(&types[i]);
    return made;
}

static MPI_Datatype datatype_indexed(const struct shape *s, MPI_Datatype inner)
{
    int lengths[SHAPE_BLOCKS_MAX], extents[SHAPE_BLOCKS_MAX];
    MPI_Aint bytes[SHAPE_BLOCKS_MAX];
    MPI_Datatype made;
    const int count = (int)s->count, length = (int)s->length;
    for (int i = 0; i < count; i++) {
        lengths[i] = (int)s->lengths[i];
        extents[i] = (int)s->offsets[i];
        bytes[i] = s->offsets[i];
    }
    if (s->kind == SHAPE_INDEXED)
        MPI_Type_indexed(count, lengths, extents, inner, &made);
    else if (s->kind == SHAPE_HINDEXED)
        MPI_Type_create_hindexed(count, lengths, bytes, inner, &made);
    else if (s->kind == SHAPE_INDEXED_BLOCK)
        MPI_Type_create_indexed_block(count, length, extents, inner, &made);
    else
        MPI_Type_create_hindexed_block(count, length, bytes, inner, &made);
    return made;
}

static MPI_Datatype datatype_box(const struct shape *s, MPI_Datatype inner)
{
    int sizes[SHAPE_DIMENSIONS_MAX], subsizes[SHAPE_DIMENSIONS_MAX], starts[SHAPE_DIMENSIONS_MAX];
    MPI_Datatype made;
    for (uint32_t i = 0; i < s->dimensions; i++) {
        sizes[i] = (int)s->sizes[i];
        subsizes[i] = (int)s->subsizes[i];
        starts[i] = (int)s->starts[i];
    }
    MPI_Type_create_subarray((int)s->dimensions, sizes, subsizes, starts,
                             s->order == TCA_ORDER_C ? MPI_ORDER_C : MPI_ORDER_FORTRAN, inner,
                             &made);
    return made;
}

static MPI_Datatype datatype(const struct shape *s)
{
    MPI_Datatype inner, made;
    if (s->kind == SHAPE_STRUCT)
        return datatype_struct(s);
    if (s->kind == SHAPE_ELEMENT) {
        MPI_Type_dup(element(s->type), &made);
        return made;
    }
    inner = datatype(s->inner);
    if (s->kind == SHAPE_ARRAY)
        MPI_Type_contiguous((int)s->count, inner, &made);
    else if (s->kind == SHAPE_VECTOR)
        MPI_Type_vector((int)s->count, (int)s->length, (int)s->stride, inner, &made);
    else if (s->kind == SHAPE_HVECTOR)
        MPI_Type_create_hvector((int)s->count, (int)s->length, s->stride, inner, &made);
    else if (s->kind == SHAPE_SUBARRAY)
        made = datatype_box(s, inner);
    else if (s->kind == SHAPE_RESIZED)
        MPI_Type_create_resized(inner, s->lower, s->extent, &made);
    else if (s->kind == SHAPE_DUP)
        MPI_Type_dup(inner, &made);
    else
        made = datatype_indexed(s, inner);
    MPI_Type_free(&inner);
    return made;
}

static int failures;

static void fail(uint64_t seed, const struct shape *shape, const char *what, long ours, long theirs)
{
    char text[8000];
    shape_print(shape, text, sizeof(text));
    printf("seed %lu: %s: ours %ld, MPI's %ld: %s\n", seed, what, ours, theirs, text);
    failures++;
}

static void compare_numbers(uint64_t seed, const struct shape *shape,
                            const struct tca_layout *layout, MPI_Datatype type,
                            const struct map *map)
{
    MPI_Count size;
    MPI_Aint lower, extent;
    int64_t own_lower, own_upper, own_extent;
    MPI_Type_size_x(type, &size);
    if ((uint64_t)size != tca_layout_size(layout))
        fail(seed, shape, "size", (long)tca_layout_size(layout), (long)size);
    tca_layout_bounds(layout, &own_lower, &own_upper);
    MPI_Type_get_true_extent(type, &lower, &extent);
    if (size > 0 && (own_lower != lower || own_upper != lower + extent))
        fail(seed, shape, "true extent", own_upper - own_lower, extent);
    tca_layout_extent(layout, &own_lower, &own_extent);
    MPI_Type_get_extent(type, &lower, &extent);
    if (own_lower != lower)
        fail(seed, shape, "lower bound", own_lower, lower);
    if (own_extent != extent)
        fail(seed, shape, "extent", own_extent, extent);
}

static void fill(struct random *random, uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)random_next(random);
}

static void compare_bytes(uint64_t seed, struct random *random, const struct shape *shape,
                          const struct tca_layout *layout, MPI_Datatype type, const struct map *map)
{
    int64_t lower, upper;
    map_bounds(map, &lower, &upper);
    const size_t span = (size_t)(upper - lower) + 2 * GUARD, size = tca_layout_size(layout);
    uint8_t *a = malloc(span), *b = malloc(span), *packed_a = calloc(1, size + 1),
            *packed_b = calloc(1, size + 1);
    uint8_t *base_a = (uint8_t *)((uintptr_t)a + GUARD - (uintptr_t)lower),
            *base_b = (uint8_t *)((uintptr_t)b + GUARD - (uintptr_t)lower);
    uint64_t ours = 0;
    int theirs = 0;
    fill(random, a, span);
    memcpy(b, a, span);
    tca_pack(layout, base_a, packed_a, size, &ours);
    MPI_Pack(base_b, 1, type, packed_b, (int)size, &theirs, MPI_COMM_SELF);
    if ((uint64_t)theirs != ours || memcmp(packed_a, packed_b, size) != 0)
        fail(seed, shape, "packed", (long)ours, theirs);
    if (!map_overlaps(map)) {
        ours = 0;
        theirs = 0;
        fill(random, packed_a, size);
        tca_unpack(layout, base_a, packed_a, size, &ours);
        MPI_Unpack(packed_a, (int)size, &theirs, base_b, 1, type, MPI_COMM_SELF);
        if ((uint64_t)theirs != ours || memcmp(a, b, span) != 0)
            fail(seed, shape, "unpacked", (long)ours, theirs);
    }
    free(a);
    free(b);
    free(packed_a);
    free(packed_b);
}

static void compare(uint64_t seed)
{
    struct random random = {seed};
    static const uint32_t alignments[] = {0, 1, 2, 4, 8, 16};
    struct shape_choice choice = {.mpi = true, .alignment = alignments[seed % 6]};
    struct shape *shape =
        shape_random(&random, 1 + (unsigned)random_below(&random, DEPTH_MAX), choice);
    struct tca_layout *layout;
    struct map map;
    if (shape_map(shape, &map)) {
        if (shape_layout(shape, &layout) < 0) {
            printf("seed %lu: %s\n", seed, tca_error_text());
            exit(1);
        }
        MPI_Datatype type = datatype(shape);
        MPI_Type_commit(&type);
        compare_numbers(seed, shape, layout, type, &map);
        compare_bytes(seed, &random, shape, layout, type, &map);
        MPI_Type_free(&type);
        tca_layout_free(layout);
        map_free(&map);
    }
    shape_free(shape);
}

int main(int argc, char **argv)
{
    if (MPI_Init(&argc, &argv) != MPI_SUCCESS)
        return 77;
    const char *only = getenv("TCA_TEST_SEED");
    uint64_t first = only ? strtoull(only, NULL, 0) : random_seed();
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(version, &length);
    printf("%.60s\nseeds from %lu on\n", version, first);
    for (uint64_t seed = first; seed < first + (only ? 1 : SHAPES) && failures < 10; seed++)
        compare(seed);
    MPI_Finalize();
    return failures > 0;
}
