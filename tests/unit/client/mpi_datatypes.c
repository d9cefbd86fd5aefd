/*
 * Random datatypes, converted to layouts (client/mpi/datatype.h), must be packed and unpacked to
 * the same bytes as by the MPI that made them.
 *
 * usage: mpi_datatypes [SEED]; a failure prints the seed of the datatype.
 */
#include <errno.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/mpi/datatype.h"

enum {
    TYPES = 3000,
    DEPTH_MAX = 4,
    BLOCKS_MAX = 6,
    ARENA = 1 << 18,
    EXTENT_MAX = ARENA / 8,
    SIZE_MAX_BYTES = 1 << 14,
    KEPT = 64,
};

static uint64_t state, seed;
static unsigned contiguous, layouts, fallbacks, refused;

static uint32_t any(uint32_t below)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 33) % below;
}

static int between(int low, int high)
{
    return low + (int)any((uint32_t)(high - low + 1));
}

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf(stderr, "%s:%d: seed %llu: %s\n", __FILE__, __LINE__,                          \
                    (unsigned long long)seed, #what);                                              \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static void release(MPI_Datatype *type)
{
    int combiner;
#ifdef OPEN_MPI
    int ints, addresses, types;
    MPI_Type_get_envelope(*type, &ints, &addresses, &types, &combiner);
#else
    MPI_Count ints, addresses, counts, types;
    MPI_Type_get_envelope_c(*type, &ints, &addresses, &counts, &types, &combiner);
#endif
    if (combiner == MPI_COMBINER_NAMED || combiner == MPI_COMBINER_F90_REAL ||
        combiner == MPI_COMBINER_F90_INTEGER || combiner == MPI_COMBINER_F90_COMPLEX)
        return;
    datatype_freed(*type);
    MPI_Type_free(type);
}

/* ---- random datatypes ---- */

/* Open MPI 4.1 takes a stride of -1 byte for none. */
static int stride(int low, int high)
{
    int chosen = between(low, high);
    return chosen == -1 ? -2 : chosen;
}

static MPI_Datatype random_named(void)
{
    const MPI_Datatype named[] = {
#ifdef OPEN_MPI /* MPICH may leave out the padding of a long double */
        MPI_LONG_DOUBLE,
        MPI_C_LONG_DOUBLE_COMPLEX,
        MPI_LONG_DOUBLE_INT,
#endif
        MPI_BYTE,
        MPI_CHAR,
        MPI_SHORT,
        MPI_INT,
        MPI_DOUBLE,
        MPI_FLOAT,
        MPI_C_DOUBLE_COMPLEX,
        MPI_DOUBLE_INT,
        MPI_SHORT_INT,
        MPI_FLOAT_INT,
        MPI_LONG_INT,
        MPI_2INT,
        MPI_INTEGER,
        MPI_REAL,
        MPI_REAL8,
        MPI_DOUBLE_PRECISION,
        MPI_COMPLEX,
        MPI_DOUBLE_COMPLEX,
        MPI_INTEGER8,
        MPI_LOGICAL,
        MPI_CHARACTER,
        MPI_2INTEGER,
        MPI_2REAL,
        MPI_C_BOOL,
        MPI_WCHAR,
        MPI_AINT,
        MPI_COUNT,
        MPI_INT8_T,
        MPI_UINT64_T,
        MPI_2DOUBLE_PRECISION,
        MPI_PACKED,
    };
    MPI_Datatype type = named[any(sizeof(named) / sizeof(named[0]))];
    switch (any(30)) {
    case 0:
        MPI_Type_create_f90_real(15, 307, &type);
        break;
    case 1:
        MPI_Type_create_f90_integer(9, &type);
        break;
    case 2:
        MPI_Type_create_f90_complex(6, MPI_UNDEFINED, &type);
        break;
    default:
        break;
    }
    return type == MPI_DATATYPE_NULL ? MPI_INT : type;
}

static MPI_Datatype random_type(int depth);

static MPI_Datatype random_indexed(MPI_Datatype inner)
{
    int count = between(0, BLOCKS_MAX), lengths[BLOCKS_MAX], offsets[BLOCKS_MAX];
    MPI_Aint bytes[BLOCKS_MAX];
    MPI_Datatype made;
    for (int i = 0; i < count; i++) {
        lengths[i] = between(0, 3);
        offsets[i] = between(-6, 12);
        bytes[i] = between(-64, 160);
    }
    switch (any(4)) {
    case 0:
        MPI_Type_indexed(count, lengths, offsets, inner, &made);
        break;
    case 1:
        MPI_Type_create_hindexed(count, lengths, bytes, inner, &made);
        break;
    case 2:
        MPI_Type_create_indexed_block(count, between(0, 3), offsets, inner, &made);
        break;
    default:
        MPI_Type_create_hindexed_block(count, between(0, 3), bytes, inner, &made);
    }
    return made;
}

static MPI_Datatype random_struct(int depth)
{
    int count = between(0, BLOCKS_MAX), lengths[BLOCKS_MAX] = {0};
    MPI_Aint bytes[BLOCKS_MAX] = {0};
    MPI_Datatype types[BLOCKS_MAX] = {0}, made;
    for (int i = 0; i < count; i++) {
        lengths[i] = between(0, 3);
        bytes[i] = between(-64, 400);
        types[i] = random_type(depth - 1);
#ifndef OPEN_MPI /* whose header has none */
        if (any(12) == 0) {
            release(&types[i]);
            types[i] = any(2) ? MPI_LB : MPI_UB;
        }
#endif
    }
    MPI_Type_create_struct(count, lengths, bytes, types, &made);
    for (int i = 0; i < count; i++)
        release(&types[i]);
    return made;
}

enum { DIMENSIONS_MAX = 3 };

static MPI_Datatype random_subarray(MPI_Datatype inner)
{
    int dimensions = between(1, DIMENSIONS_MAX), sizes[DIMENSIONS_MAX], boxes[DIMENSIONS_MAX],
        starts[DIMENSIONS_MAX];
    MPI_Datatype made;
    for (int i = 0; i < dimensions; i++) {
        sizes[i] = between(1, 6);
        boxes[i] = between(1, sizes[i]);
        starts[i] = between(0, sizes[i] - boxes[i]);
    }
    MPI_Type_create_subarray(dimensions, sizes, boxes, starts,
                             any(2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN, inner, &made);
    return made;
}

static MPI_Datatype random_darray(MPI_Datatype inner)
{
    int dimensions = between(1, DIMENSIONS_MAX), sizes[DIMENSIONS_MAX], kinds[DIMENSIONS_MAX],
        arguments[DIMENSIONS_MAX], grid[DIMENSIONS_MAX], processes = 1;
    MPI_Datatype made;
    for (int i = 0; i < dimensions; i++) {
        sizes[i] = between(1, 9);
        grid[i] = between(1, 3);
        arguments[i] = MPI_DISTRIBUTE_DFLT_DARG;
        switch (any(3)) {
        case 0:
            kinds[i] = MPI_DISTRIBUTE_NONE;
            grid[i] = 1;
            break;
        case 1:
            kinds[i] = MPI_DISTRIBUTE_BLOCK;
            if (any(2))
                arguments[i] = (sizes[i] + grid[i] - 1) / grid[i] + between(0, 2);
            break;
        default:
            kinds[i] = MPI_DISTRIBUTE_CYCLIC;
            if (any(2))
                arguments[i] = between(1, 4);
        }
        processes *= grid[i];
    }
    if (MPI_Type_create_darray(processes, (int)any((uint32_t)processes), dimensions, sizes, kinds,
                               arguments, grid, any(2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN, inner,
                               &made) != MPI_SUCCESS) {
        refused++; /* Open MPI 4.1 cannot do some of them */
        MPI_Type_dup(inner, &made);
    }
    return made;
}

#ifndef OPEN_MPI
static MPI_Datatype random_large(MPI_Datatype inner)
{
    MPI_Count lengths[BLOCKS_MAX], offsets[BLOCKS_MAX], sizes[2], boxes[2], starts[2];
    int count = between(0, BLOCKS_MAX);
    MPI_Datatype made, types[BLOCKS_MAX];
    for (int i = 0; i < count; i++) {
        lengths[i] = between(0, 3);
        offsets[i] = between(0, 100);
        types[i] = inner;
    }
    for (int i = 0; i < 2; i++) {
        sizes[i] = between(1, 6);
        boxes[i] = between(1, (int)sizes[i]);
        starts[i] = between(0, (int)(sizes[i] - boxes[i]));
    }
    switch (any(8)) {
    case 0:
        MPI_Type_contiguous_c(between(0, 4), inner, &made);
        break;
    case 1:
        MPI_Type_vector_c(between(0, 5), between(0, 3), stride(-4, 8), inner, &made);
        break;
    case 2:
        MPI_Type_create_hvector_c(between(0, 5), between(0, 3), between(-40, 80), inner, &made);
        break;
    case 3:
        MPI_Type_create_hindexed_c(count, lengths, offsets, inner, &made);
        break;
    case 4:
        MPI_Type_create_struct_c(count, lengths, offsets, types, &made);
        break;
    case 5:
        MPI_Type_create_subarray_c(2, sizes, boxes, starts,
                                   any(2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN, inner, &made);
        break;
    case 6:
        MPI_Type_create_indexed_block_c(count, between(0, 3), offsets, inner, &made);
        break;
    default:
        MPI_Type_create_darray_c(
            4, between(0, 3), 2, sizes, (const int[]){MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK},
            (const int[]){between(1, 3), MPI_DISTRIBUTE_DFLT_DARG}, (const int[]){2, 2},
            any(2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN, inner, &made);
    }
    return made;
}
#endif

static MPI_Datatype random_derived(MPI_Datatype inner)
{
    MPI_Datatype made;
    switch (any(10)) {
    case 0:
        MPI_Type_contiguous(between(0, 4), inner, &made);
        break;
    case 1:
        MPI_Type_vector(between(0, 5), between(0, 3), stride(-4, 8), inner, &made);
        break;
    case 2:
        MPI_Type_create_hvector(between(0, 5), between(0, 3), stride(-80, 160), inner, &made);
        break;
    case 3:
        made = random_subarray(inner);
        break;
    case 4:
        made = random_darray(inner);
        break;
    case 5:
        MPI_Type_create_resized(inner, between(-32, 32), between(-64, 128), &made);
        break;
    case 6:
        MPI_Type_dup(inner, &made);
        break;
#ifndef OPEN_MPI
    case 7:
        made = random_large(inner);
        break;
#endif
    default:
        made = random_indexed(inner);
    }
    return made;
}

/* What the MPIs themselves do wrongly: Open MPI 4.1 forgets the gaps between copies of a structure
 * that has an empty part, and MPICH 4.0 divides by its size; MPICH also packs contiguous copies of
 * a datatype with a negative extent elsewhere than its extent says. */
static bool mistaken(MPI_Datatype type)
{
    MPI_Count lower, extent, size;
    MPI_Type_get_extent_x(type, &lower, &extent);
    MPI_Type_size_x(type, &size);
#ifdef OPEN_MPI
    return size == 0;
#else
    return size == 0 || extent < 0;
#endif
}

static MPI_Datatype random_type(int depth)
{
    if (depth == 0 || any(6) == 0)
        return random_named();
    MPI_Datatype made, inner;
    if (any(4) == 0) {
        made = random_struct(depth);
    } else {
        inner = random_type(depth - 1);
        made = random_derived(inner);
        release(&inner);
    }
    if (mistaken(made)) {
        release(&made);
        made = MPI_INT;
    }
    return made;
}

/* ---- comparison ---- */

/* A use and what the MPI made of it. */
struct kept {
    struct datatype_use use;
    uint8_t *arena;  /* whose middle is the base */
    uint8_t *packed; /* by the MPI */
    uint8_t *unpacked;
};

static void pack(struct datatype_use *use, uint8_t *to)
{
    uint64_t position = 0;
    CHECK(datatype_use_start(use) == 0);
    if (use->buffer.layout)
        CHECK(tca_pack(use->buffer.layout, use->buffer.address, to, use->bytes, &position) == 0);
    else if (use->bytes > 0)
        memcpy(to, use->buffer.address, use->bytes);
}

static void unpack(struct datatype_use *use, const uint8_t *from)
{
    uint64_t position = 0;
    CHECK(datatype_use_start(use) == 0);
    if (use->buffer.layout)
        CHECK(tca_unpack(use->buffer.layout, use->buffer.address, from, use->bytes, &position) ==
              0);
    else if (use->bytes > 0)
        memcpy(use->buffer.address, from, use->bytes);
    CHECK(datatype_use_finish(use) == 0);
}

static void check(struct kept *kept)
{
    uint8_t *packed = malloc(kept->use.bytes + 1);
    pack(&kept->use, packed);
    if (memcmp(packed, kept->packed, kept->use.bytes) != 0) {
        char text[200] = "contiguous";
        if (kept->use.buffer.layout)
            tca_layout_describe(kept->use.buffer.layout, text, sizeof(text));
        fprintf(stderr, "%s at %td\n", text,
                (uint8_t *)kept->use.buffer.address - kept->arena - ARENA / 2);
        CHECK(!"packed to the same bytes");
    }
    if (kept->unpacked) {
        memset(kept->arena, 0xa5, ARENA);
        unpack(&kept->use, kept->packed);
        CHECK(memcmp(kept->arena, kept->unpacked, ARENA) == 0);
    }
    free(packed);
}

static void drop(struct kept *kept)
{
    if (!kept->arena)
        return;
    check(kept); /* again, long after the datatype has been freed */
    datatype_use_deinit(&kept->use);
    free(kept->arena);
    free(kept->packed);
    free(kept->unpacked);
}

static void fill(uint8_t *arena)
{
    uint64_t word = seed;
    for (size_t i = 0; i < ARENA; i++) {
        word = word * UINT64_C(6364136223846793005) + 1;
        arena[i] = (uint8_t)(word >> 56);
    }
}

/* What the MPI makes of it; `unpacked` only where the result is defined: no byte occurs twice. */
static void let_mpi(struct kept *kept, void *base, int count, MPI_Datatype type)
{
    int bytes = (int)kept->use.bytes, position = 0;
    kept->packed = malloc((size_t)bytes + 1);
    CHECK(MPI_Pack(base, count, type, kept->packed, bytes, &position, MPI_COMM_SELF) ==
          MPI_SUCCESS);
    CHECK(position == bytes);
    uint8_t *saved = malloc(ARENA), *again = malloc((size_t)bytes + 1);
    memcpy(saved, kept->arena, ARENA);
    memset(kept->arena, 0xa5, ARENA);
    uint8_t *other = malloc((size_t)bytes + 1);
    for (int i = 0; i < bytes; i++)
        other[i] = (uint8_t)(i * 7 + i / 256);
    position = 0;
    MPI_Unpack(other, bytes, &position, base, count, type, MPI_COMM_SELF);
    position = 0;
    MPI_Pack(base, count, type, again, bytes, &position, MPI_COMM_SELF);
    if (memcmp(again, other, (size_t)bytes) == 0) {
        memset(kept->arena, 0xa5, ARENA);
        position = 0;
        MPI_Unpack(kept->packed, bytes, &position, base, count, type, MPI_COMM_SELF);
        kept->unpacked = malloc(ARENA);
        memcpy(kept->unpacked, kept->arena, ARENA);
    }
    memcpy(kept->arena, saved, ARENA);
    free(saved);
    free(again);
    free(other);
}

static bool fits(MPI_Datatype type, int count)
{
    MPI_Count lower, extent, size, lb, each;
    MPI_Type_get_true_extent_x(type, &lower, &extent);
    MPI_Type_get_extent_x(type, &lb, &each);
    MPI_Type_size_x(type, &size);
    return size * count <= SIZE_MAX_BYTES &&
           llabs(lower) + extent + llabs(each) * count <= EXTENT_MAX;
}

/* The same datatype for absolute addresses. */
static MPI_Datatype at_address(void *base, int count, MPI_Datatype type)
{
    MPI_Aint address;
    MPI_Datatype made;
    MPI_Get_address(base, &address);
    MPI_Type_create_hindexed(1, &count, &address, type, &made);
    return made;
}

static bool try_one(struct kept *kept)
{
    int count = between(0, 4);
    MPI_Datatype type = random_type(between(1, DEPTH_MAX));
    if (!fits(type, count)) {
        release(&type);
        return false;
    }
    kept->arena = malloc(ARENA);
    fill(kept->arena);
    void *base = kept->arena + ARENA / 2;
    MPI_Type_commit(&type);
    if (any(5) == 0) { /* MPICH's MPI_Pack() refuses MPI_BOTTOM */
        MPI_Datatype absolute = at_address(base, count, type);
        MPI_Type_commit(&absolute);
        CHECK(datatype_use_init(&kept->use, MPI_BOTTOM, 1, absolute, DATATYPE_RECEIVE) == 0);
        release(&absolute);
    } else {
        CHECK(datatype_use_init(&kept->use, base, count, type, DATATYPE_RECEIVE) == 0);
    }
    let_mpi(kept, base, count, type);
    *(kept->use.packed ? &fallbacks : kept->use.buffer.layout ? &layouts : &contiguous) += 1;
    check(kept);
    release(&type);
    return true;
}

/* ---- single ones ---- */

/* More irregular blocks than a layout may have: packed by the MPI; a short message leaves the rest
 * as it was. */
static void too_irregular(bool absolute)
{
    enum { BLOCKS = (1 << 20) + 100000 };
    int *offsets = malloc(BLOCKS * sizeof(*offsets));
    uint8_t *arena = calloc(1, 8 * BLOCKS);
    for (int i = 0; i < BLOCKS; i++)
        offsets[i] = 3 * i + (int)any(2);
    MPI_Datatype type;
    MPI_Type_create_indexed_block(BLOCKS, 1, offsets, MPI_SHORT, &type);
    if (absolute) {
        MPI_Datatype relative = type;
        type = at_address(arena, 1, relative);
        release(&relative);
    }
    MPI_Type_commit(&type);
    struct datatype_use use;
    CHECK(datatype_use_init(&use, absolute ? MPI_BOTTOM : arena, 1, type, DATATYPE_RECEIVE) == 0);
    CHECK(use.packed && use.bytes == 2 * BLOCKS);
    release(&type);
    memset(arena, 7, 8 * BLOCKS);
    CHECK(datatype_use_start(&use) == 0);
    memset(use.buffer.address, 9, 1001);
    CHECK(datatype_use_finish(&use) == 0);
    for (int i = 0; i < BLOCKS; i++) {
        CHECK(arena[2 * offsets[i]] == (i < 501 ? 9 : 7));
        CHECK(arena[2 * offsets[i] + 1] == (i < 500 ? 9 : 7));
    }
    datatype_use_deinit(&use);
    free(arena);
    free(offsets);
}

/* Nothing is copied here: only the numbers count. */
static void huge(void)
{
    MPI_Datatype row, rows;
    struct datatype_use use;
    MPI_Type_vector(1 << 20, 1 << 10, 1 << 12, MPI_DOUBLE, &row);
    MPI_Type_contiguous(1 << 8, row, &rows);
    MPI_Type_commit(&rows);
    CHECK(datatype_use_init(&use, NULL, 1 << 20, rows, DATATYPE_SEND) == 0);
    CHECK(use.bytes == UINT64_C(1) << 61 && use.buffer.layout);
    CHECK(tca_layout_size(use.buffer.layout) == use.bytes);
    datatype_use_deinit(&use);
    CHECK(datatype_use_init(&use, NULL, 1 << 22, rows, DATATYPE_SEND) == -EOVERFLOW);
    CHECK(datatype_use_init(&use, NULL, INT32_MAX, MPI_DOUBLE, DATATYPE_SEND) == 0);
    CHECK(use.bytes == UINT64_C(8) * INT32_MAX && !use.value);
    release(&row);
    release(&rows);
    CHECK(datatype_use_init(&use, NULL, 1, MPI_DATATYPE_NULL, DATATYPE_SEND) == -EINVAL);
}

/* A program that makes and frees equal types gets the layout of the first. */
static void found_again(void)
{
    struct datatype_counts before = {0};
    for (int i = 0; i < 1000; i++) {
        MPI_Datatype inner, type;
        struct datatype_use use;
        MPI_Type_vector(5, 2, 7, MPI_DOUBLE, &inner);
        MPI_Type_create_resized(inner, 0, 8 * (40 + i % 3), &type);
        MPI_Type_commit(&type);
        CHECK(datatype_use_init(&use, &before, 2, type, DATATYPE_SEND) == 0);
        CHECK(use.buffer.layout);
        datatype_use_deinit(&use);
        release(&inner);
        release(&type);
        if (i == 2)
            before = datatype_counts();
    }
    CHECK(datatype_counts().converted == before.converted);
    CHECK(datatype_counts().found > before.found);
}

int main(int argc, char **argv)
{
    static struct kept kept[KEPT];
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    const uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    const unsigned wanted = argc > 1 ? 1 : TYPES;
    unsigned tried = 0;
    for (uint64_t i = 0; tried < wanted; i++) {
        seed = state = first + i;
        any(1);
        struct kept *place = &kept[i % KEPT];
        drop(place);
        *place = (struct kept){0};
        tried += try_one(place);
    }
    for (unsigned i = 0; i < KEPT; i++)
        drop(&kept[i]);
    too_irregular(false);
    too_irregular(true);
    huge();
    found_again();
    datatype_deinit();
    printf(
        "%u datatypes: %u contiguous, %u layouts, %u packed by the MPI; %llu converted, %llu found "
        "again\n",
        tried, contiguous, layouts, fallbacks, (unsigned long long)datatype_counts().converted,
        (unsigned long long)datatype_counts().found);
    MPI_Finalize();
    return 0;
}
