#include <stdlib.h>
#include <string.h>

#include "tests/integration/mpi/random_messages.h"

enum { SPACE = 64 };

static MPI_Datatype basic_type(enum basic basic, struct dice *dice)
{
    MPI_Datatype pair, resized;
    switch (basic) {
    case BASIC_INT:
        return MPI_INT;
    case BASIC_DOUBLE:
        return MPI_DOUBLE;
    case BASIC_PAIR:
        if (roll(dice, 2))
            return MPI_DOUBLE_INT;
        MPI_Type_create_struct(2, (const int[]){1, 1}, (const MPI_Aint[]){0, 12},
                               (const MPI_Datatype[]){MPI_DOUBLE, MPI_INT}, &pair);
        MPI_Type_create_resized(pair, 0, 24, &resized);
        MPI_Type_free(&pair);
        return resized;
    default:
        return MPI_BYTE;
    }
}

static int divisor(int of, struct dice *dice)
{
    for (int tries = 0; tries < 8; tries++) {
        int candidate = 1 + roll(dice, of < 64 ? of : 64);
        if (of % candidate == 0)
            return candidate;
    }
    return 1;
}

/* Places in any order, with gaps, that do not overlap. */
static void places(int *offsets, int count, int length, struct dice *dice)
{
    int at = roll(dice, 3);
    for (int i = 0; i < count; i++) {
        offsets[i] = at;
        at += length + roll(dice, 3);
    }
    if (roll(dice, 2))
        return;
    for (int i = count - 1; i > 0; i--) {
        int j = roll(dice, i + 1), other = offsets[i];
        offsets[i] = offsets[j];
        offsets[j] = other;
    }
}

static MPI_Datatype scattered(MPI_Datatype inner, int elements, struct dice *dice)
{
    int length = divisor(elements, dice), count = elements / length;
    if (count > 4096) {
        length = elements;
        count = 1;
    }
    int *offsets = calloc((size_t)count, sizeof(*offsets));
    int *lengths = calloc((size_t)count, sizeof(*lengths));
    MPI_Aint *bytes = calloc((size_t)count, sizeof(*bytes)), lower, extent;
    MPI_Datatype made, *types = calloc((size_t)count, sizeof(*types));
    places(offsets, count, length, dice);
    MPI_Type_get_extent(inner, &lower, &extent);
    for (int i = 0; i < count; i++) {
        lengths[i] = length;
        bytes[i] = offsets[i] * extent;
        types[i] = inner;
    }
    switch (roll(dice, 5)) {
    case 0:
        MPI_Type_indexed(count, lengths, offsets, inner, &made);
        break;
    case 1:
        MPI_Type_create_hindexed(count, lengths, bytes, inner, &made);
        break;
    case 2:
        MPI_Type_create_indexed_block(count, length, offsets, inner, &made);
        break;
    case 3:
        MPI_Type_create_struct(count, lengths, bytes, types, &made);
        break;
    default:
        MPI_Type_create_hindexed_block(count, length, bytes, inner, &made);
    }
    free(offsets);
    free(lengths);
    free(bytes);
    free(types);
    return made;
}

/* `elements` of an inner datatype, in some form. */
static MPI_Datatype some_form(MPI_Datatype inner, int elements, struct dice *dice)
{
    int length = divisor(elements, dice), count = elements / length;
    MPI_Aint lower, extent;
    MPI_Datatype made, flat;
    MPI_Type_get_extent(inner, &lower, &extent);
    switch (roll(dice, 7)) {
    case 0:
        MPI_Type_contiguous(elements, inner, &made);
        break;
    case 1:
        MPI_Type_vector(count, length, length + roll(dice, 4), inner, &made);
        break;
    case 2: /* backwards; Open MPI 4.1 takes a stride of -1 byte for none */
        MPI_Type_create_hvector(count, length, -(length + (extent == 1) + roll(dice, 3)) * extent,
                                inner, &made);
        break;
    case 3:
        MPI_Type_create_subarray(2, (const int[]){count + 2, length + 3},
                                 (const int[]){count, length}, (const int[]){1, 2}, MPI_ORDER_C,
                                 inner, &made);
        break;
    case 4:
        MPI_Type_contiguous(elements, inner, &flat);
        MPI_Type_create_resized(flat, -8, elements * extent + 24, &made);
        MPI_Type_free(&flat);
        break;
    default:
        made = scattered(inner, elements, dice);
    }
    return made;
}

static bool is_named(MPI_Datatype type)
{
    int ints, addresses, types, combiner;
    MPI_Type_get_envelope(type, &ints, &addresses, &types, &combiner);
    return combiner == MPI_COMBINER_NAMED;
}

static void make_type(struct memory *memory, enum basic basic, int elements, struct dice *dice)
{
    memory->type = basic_type(basic, dice);
    memory->count = elements;
    if (elements > 0 && roll(dice, 3) != 0) {
        int each = roll(dice, 2) ? elements : divisor(elements, dice);
        memory->count = elements / each;
        MPI_Datatype inner = memory->type, other;
        memory->type = some_form(inner, each, dice);
        if (!is_named(inner))
            MPI_Type_free(&inner);
        if (roll(dice, 6) == 0) {
            other = memory->type;
            MPI_Type_dup(other, &memory->type);
            MPI_Type_free(&other);
        }
    }
    memory->derived = !is_named(memory->type);
    if (memory->derived)
        MPI_Type_commit(&memory->type);
}

void memory_init(struct memory *memory, enum basic basic, int elements, uint64_t seed)
{
    struct dice dice = {seed};
    make_type(memory, basic, elements, &dice);
    MPI_Aint lower, bytes, start, extent;
    MPI_Type_get_true_extent(memory->type, &lower, &bytes);
    MPI_Type_get_extent(memory->type, &start, &extent);
    MPI_Aint last = memory->count > 1 ? (memory->count - 1) * extent : 0;
    MPI_Aint before = lower + (last < 0 ? last : 0), behind = lower + bytes + (last > 0 ? last : 0);
    memory->size = (size_t)(behind - before) + 2 * SPACE;
    memory->bytes = malloc(memory->size);
    memory->base = memory->bytes + SPACE - before;
}

void memory_fill(struct memory *memory, uint64_t seed)
{
    for (size_t i = 0; i < memory->size; i += 8) {
        uint64_t word = mix(seed, i);
        memcpy(memory->bytes + i, &word, memory->size - i < 8 ? memory->size - i : 8);
    }
}

uint64_t memory_digest(const struct memory *memory)
{
    uint64_t digest = memory->size;
    for (size_t i = 0; i < memory->size; i += 8) {
        uint64_t word = 0;
        memcpy(&word, memory->bytes + i, memory->size - i < 8 ? memory->size - i : 8);
        digest = mix(digest, word);
    }
    return digest;
}

void memory_receive(struct memory *to, const struct memory *from)
{
    int to_size, from_size, position = 0;
    MPI_Type_size(to->type, &to_size);
    MPI_Type_size(from->type, &from_size);
    const int to_bytes = to_size * to->count, from_bytes = from_size * from->count;
    uint8_t *packed = malloc((size_t)to_bytes + 1);
    MPI_Pack(to->base, to->count, to->type, packed, to_bytes, &position, MPI_COMM_SELF);
    position = 0;
    MPI_Pack(from->base, from->count, from->type, packed, from_bytes, &position, MPI_COMM_SELF);
    position = 0;
    MPI_Unpack(packed, to_bytes, &position, to->base, to->count, to->type, MPI_COMM_SELF);
    free(packed);
}

void memory_forget_type(struct memory *memory)
{
    if (memory->derived)
        MPI_Type_free(&memory->type);
    memory->derived = false;
}

void memory_deinit(struct memory *memory)
{
    memory_forget_type(memory);
    free(memory->bytes);
    memory->bytes = NULL;
}
