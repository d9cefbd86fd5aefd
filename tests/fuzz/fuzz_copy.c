/*
 * Copies between two layouts that no constructor would make: loops with zero stride, lists in
 * loops, overlapping blocks, none of it normalised. The input describes both; the second one is cut
 * to the size of the first. Memory is exactly what the layouts touch, and the copied bytes must
 * match two cursors.
 */
#include <string.h>

#include "drivers/copy/copy.h"
#include "drivers/copy/kernels.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/proto/layout_parts.h"

enum { OPS_MAX = 60, PAIRS_MAX = 400, BYTES_MAX = 3000, DEPTH_MAX = 4 };

/* The rest of the input: zeros after its end. */
struct input {
    const uint8_t *at, *end;
};

static unsigned next(struct input *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

/* ---- two layouts ---- */

struct parts {
    struct layout_op ops[OPS_MAX];
    struct layout_pair pairs[PAIRS_MAX];
    uint32_t op_count, pair_count;
};

static int64_t next_offset(struct input *in)
{
    return (int8_t)next(in) * 8 + (int64_t)(next(in) % 8);
}

static uint64_t add_list(struct parts *parts, struct input *in, uint64_t bytes)
{
    struct layout_op *list = &parts->ops[parts->op_count++];
    const unsigned most = 1 + next(in) % 24, length_bits = next(in);
    *list = (struct layout_op){
        .kind = LAYOUT_LIST, .body = parts->pair_count, .offset_bytes = next_offset(in)};
    uint64_t taken = 0;
    list->each_bytes = 1 + length_bits % 16;
    for (; list->count < most && taken < bytes && parts->pair_count < PAIRS_MAX; list->count++) {
        uint64_t length = 1 + (length_bits & 128 ? next(in) % 40 : length_bits % 16);
        if (length > bytes - taken)
            length = bytes - taken;
        if (length != list->each_bytes)
            list->each_bytes = 0;
        parts->pairs[parts->pair_count++] = (struct layout_pair){next_offset(in), length};
        taken += length;
    }
    return taken;
}

static void fill(struct parts *parts, struct input *in, uint64_t bytes, unsigned depth);

static uint64_t add_loop(struct parts *parts, struct input *in, uint64_t bytes, unsigned depth)
{
    const uint32_t at = parts->op_count++;
    const uint64_t most = bytes < 200 ? bytes : 200, count = 1 + next(in) % most,
                   body_bytes = 1 + next(in) * 13 % (bytes / count);
    parts->ops[at] = (struct layout_op){.kind = LAYOUT_LOOP,
                                        .count = count,
                                        .offset_bytes = next_offset(in),
                                        .stride_bytes = (int8_t)next(in) * 3};
    fill(parts, in, body_bytes, depth + 1);
    parts->ops[at].body = parts->op_count - at - 1;
    return count * body_bytes;
}

static uint64_t add_block(struct parts *parts, uint64_t bytes, int64_t offset)
{
    parts->ops[parts->op_count++] =
        (struct layout_op){.kind = LAYOUT_BLOCK, .count = bytes, .offset_bytes = offset};
    return bytes;
}

/* Operations that yield exactly so many bytes. */
static void fill(struct parts *parts, struct input *in, uint64_t bytes, unsigned depth)
{
    while (bytes > 0) {
        const unsigned what = next(in) % 4;
        if (parts->op_count >= OPS_MAX - 2 * (DEPTH_MAX + 1) || parts->pair_count == PAIRS_MAX)
            bytes -= add_block(parts, bytes, 0);
        else if (what == 0)
            bytes -= add_list(parts, in, bytes);
        else if (what < 3 && depth < DEPTH_MAX)
            bytes -= add_loop(parts, in, bytes, depth);
        else
            bytes -= add_block(parts, 1 + next(in) % bytes, next_offset(in));
    }
}

static struct layout *build(struct input *in, uint64_t bytes)
{
    struct parts parts;
    parts.op_count = parts.pair_count = 0;
    fill(&parts, in, bytes, 0);
    struct layout *layout =
        layout_of_parts(parts.ops, parts.op_count, parts.pairs, parts.pair_count);
    FUZZ_REQUIRE(layout && layout->size_bytes == bytes);
    return layout;
}

/* ---- one side ---- */

struct side {
    struct layout *layout;
    size_t bytes;
    uint8_t *memory;           /* that much */
    uint8_t *base;             /* of the layout */
    int64_t places[BYTES_MAX]; /* of each packed byte, in memory */
};

static void side_init(struct side *side, struct layout *layout)
{
    struct layout_cursor cursor;
    int64_t offset;
    uint64_t length, at = 0;
    side->layout = layout;
    side->bytes = (size_t)(layout->upper_bytes - layout->lower_bytes);
    side->memory = malloc(side->bytes);
    FUZZ_REQUIRE(side->memory);
    side->base = (uint8_t *)((uintptr_t)side->memory - (uint64_t)layout->lower_bytes);
    layout_cursor_init(&cursor, layout, 0);
    while (layout_cursor_next(&cursor, BYTES_MAX, &offset, &length))
        for (uint64_t i = 0; i < length; i++)
            side->places[at++] = offset - layout->lower_bytes + (int64_t)i;
    FUZZ_REQUIRE(at == layout->size_bytes);
}

static void side_deinit(struct side *side)
{
    free(side->memory);
    free(side->layout);
}

/* ---- what must hold ---- */

enum { UNTOUCHED = 0xa5 };

/* The packed bytes from .. to have been copied, and nothing else was written. A place that has
 * several bytes holds one of them. */
static void check(const struct side *target, const uint8_t *packed, uint64_t from, uint64_t to)
{
    uint8_t *right = calloc(target->bytes, 1), *hit = calloc(target->bytes, 1);
    FUZZ_REQUIRE(right && hit);
    for (uint64_t i = from; i < to; i++) {
        const int64_t place = target->places[i];
        hit[place] = 1;
        right[place] |= target->memory[place] == packed[i];
    }
    for (size_t i = 0; i < target->bytes; i++)
        FUZZ_REQUIRE(hit[i] ? right[i] : target->memory[i] == UNTOUCHED);
    free(right);
    free(hit);
}

static void run_piece(const struct copy_program *program, const struct side *target,
                      const struct side *source, const uint8_t *packed, uint64_t from, uint64_t to,
                      bool stream)
{
    memset(target->memory, UNTOUCHED, target->bytes);
    if (stream)
        copy_program_run_stream(program, target->base, source->base, from, to - from);
    else
        copy_program_run(program, target->base, source->base, from, to - from);
    check(target, packed, from, to);
}

static void unpack_piece(const struct copy_program *program, const struct side *target,
                         const uint8_t *packed, uint64_t from, uint64_t to)
{
    memset(target->memory, UNTOUCHED, target->bytes);
    if (program)
        copy_program_unpack(program, target->base, packed + from, from, to - from);
    else
        copy_unpack(target->base, target->layout, from, packed + from, to - from);
    check(target, packed, from, to);
}

static void pack_piece(const struct copy_program *program, const struct side *source,
                       const uint8_t *packed, uint64_t from, uint64_t to)
{
    uint8_t *buffer = malloc(to - from + 1);
    FUZZ_REQUIRE(buffer);
    if (program)
        copy_program_pack(program, buffer, source->base, from, to - from);
    else
        copy_pack(buffer, source->base, source->layout, from, to - from);
    FUZZ_REQUIRE(memcmp(buffer, packed + from, to - from) == 0);
    free(buffer);
}

static void use(struct input *in, const struct side *target, const struct side *source,
                const uint8_t *packed)
{
    const uint64_t size = source->layout->size_bytes;
    uint64_t from = (next(in) * 256 + next(in)) % (size + 1),
             to = from + (next(in) * 256 + next(in)) % (size - from + 1);
    const bool stream = next(in) & 1;
    struct copy_program *program;
    FUZZ_REQUIRE(copy_program_new_run(target->layout, source->layout, &program) == 0);
    run_piece(program, target, source, packed, from, to, stream);
    run_piece(program, target, source, packed, 0, size, stream);
    FUZZ_REQUIRE(copy_program_complete(program, target->layout, source->layout) == 0);
    pack_piece(program, source, packed, from, to);
    pack_piece(NULL, source, packed, from, to);
    copy_program_free(program);
    FUZZ_REQUIRE(copy_program_new_unpack(target->layout, source->layout, &program) == 0);
    unpack_piece(program, target, packed, from, to);
    unpack_piece(NULL, target, packed, from, to);
    run_piece(program, target, source, packed, to, size, !stream);
    copy_program_free(program);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct side target, source;
    static uint8_t packed[BYTES_MAX];
    struct input in = {data, data + bytes};
    const char *set = copy_kernels_name(next(&in) % 3);
    if (!set || !copy_kernels_use(set))
        copy_kernels_use(copy_kernels_name(0));
    const uint64_t size = 1 + (next(&in) * 256 + next(&in)) % BYTES_MAX;
    side_init(&source, build(&in, size));
    side_init(&target, build(&in, size));
    for (size_t i = 0; i < source.bytes; i++)
        source.memory[i] = (uint8_t)(i * 7 + i / 251);
    for (uint64_t i = 0; i < size; i++)
        packed[i] = source.memory[source.places[i]];
    use(&in, &target, &source, packed);
    side_deinit(&source);
    side_deinit(&target);
    return 0;
}
