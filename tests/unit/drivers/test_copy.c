/* Copy kernels, compared with a byte-wise reference with its own model of the shapes. */
#include <criterion/criterion.h>
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "drivers/copy/copy.h"
#include "drivers/copy/kernels.h"
#include "drivers/copy/pieces.h"
#include "tests/unit/drivers/kit.h"
#include "tests/unit/proto/layout_parts.h"

enum { MEMORY = 64 << 10, BASE = 24 << 10, PACKED_MAX = 8 << 10, GUARD = 64 };

static _Alignas(64) uint8_t source[MEMORY], target[MEMORY], expected[MEMORY];

/* Neither blocks nor rows overlap, because then the result would depend on the order of copying. */
static struct shape random_shape(uint32_t *state, uint64_t bytes)
{
    static const uint64_t blocks[] = {1, 2, 3, 4, 8, 12, 16, 24, 32, 48};
    struct shape shape = {.block = bytes, .count = 1, .outer = 1};
    uint64_t block = blocks[next_random(state) % 10];
    if (bytes % block == 0 && next_random(state) % 4 != 0) {
        shape.block = block;
        shape.count = bytes / block;
        shape.stride = (int64_t)(block + next_random(state) % 3);
        if (shape.count % 3 == 0 && next_random(state) % 2) {
            shape.count /= 3;
            shape.outer = 3;
            shape.outer_stride =
                (int64_t)shape.count * shape.stride + (int64_t)(next_random(state) % 100);
        }
        if (next_random(state) % 4 == 0) {
            shape.offset = (int64_t)(shape.count - 1) * shape.stride;
            shape.stride = -shape.stride;
        }
    }
    shape.offset += (int64_t)(next_random(state) % 64) - 32;
    return shape;
}

Test(copy, programs_like_the_reference)
{
    uint32_t state = 12345;
    for (unsigned round = 0; round < 3000; round++) {
        uint64_t bytes = next_random(&state) % 97 * 48 % PACKED_MAX;
        if (bytes == 0)
            bytes = 48;
        struct shape from = random_shape(&state, bytes), to = random_shape(&state, bytes);
        struct layout *source_layout = shape_layout(&from), *target_layout = shape_layout(&to);
        struct copy_program *program;
        fill(source, MEMORY, round);
        memset(target, 0x5a, MEMORY);
        memset(expected, 0x5a, MEMORY);

        /* a piece of it, then all of it: as drivers do */
        uint64_t position = next_random(&state) % (bytes + 1),
                 length = next_random(&state) % (bytes - position + 1);
        cr_assert(copy_program_new(target_layout, source_layout, &program) == 0);
        for (uint64_t i = position; i < position + length; i++)
            expected[BASE + shape_place(&to, i)] = source[BASE + shape_place(&from, i)];
        copy_program_run(program, target + BASE, source + BASE, position, length);
        cr_assert(memcmp(target, expected, MEMORY) == 0, "round %u: piece", round);

        for (uint64_t i = 0; i < bytes; i++)
            expected[BASE + shape_place(&to, i)] = source[BASE + shape_place(&from, i)];
        copy_program_run(program, target + BASE, source + BASE, 0, bytes);
        cr_assert(memcmp(target, expected, MEMORY) == 0, "round %u: whole", round);

        /* through a buffer, in two pieces */
        static uint8_t buffer[PACKED_MAX];
        memset(target, 0x5a, MEMORY);
        copy_program_pack(program, buffer, source + BASE, 0, position);
        copy_program_unpack(program, target + BASE, buffer, 0, position);
        copy_program_pack(program, buffer, source + BASE, position, bytes - position);
        copy_program_unpack(program, target + BASE, buffer, position, bytes - position);
        cr_assert(memcmp(target, expected, MEMORY) == 0, "round %u: buffer", round);
        copy_program_free(program);
        free(source_layout);
        free(target_layout);
    }
}

Test(copy, packs_and_unpacks_like_the_reference)
{
    uint32_t state = 777;
    for (unsigned round = 0; round < 3000; round++) {
        uint64_t bytes = (next_random(&state) % 100 + 1) * 48;
        struct shape shape = random_shape(&state, bytes);
        struct layout *layout = shape_layout(&shape);
        static uint8_t packed[PACKED_MAX + 2 * GUARD], packed_expected[PACKED_MAX + 2 * GUARD];
        uint64_t position = next_random(&state) % (bytes + 1),
                 length = next_random(&state) % (bytes - position + 1);

        fill(source, MEMORY, round);
        memset(packed, 0xc3, sizeof(packed));
        memset(packed_expected, 0xc3, sizeof(packed_expected));
        for (uint64_t i = 0; i < length; i++)
            packed_expected[GUARD + i] = source[BASE + shape_place(&shape, position + i)];
        copy_pack(packed + GUARD, source + BASE, layout, position, length);
        cr_assert(memcmp(packed, packed_expected, sizeof(packed)) == 0, "round %u: pack", round);

        memset(target, 0x3c, MEMORY);
        memset(expected, 0x3c, MEMORY);
        for (uint64_t i = 0; i < length; i++)
            expected[BASE + shape_place(&shape, position + i)] = packed[GUARD + i];
        copy_unpack(target + BASE, layout, position, packed + GUARD, length);
        cr_assert(memcmp(target, expected, MEMORY) == 0, "round %u: unpack", round);
        free(layout);
    }
}

static void compare_whole(const struct shape *to, const struct shape *from, const char *set)
{
    struct layout *source_layout = shape_layout(from), *target_layout = shape_layout(to);
    struct copy_program *program;
    memset(expected, 0x5a, MEMORY);
    for (uint64_t i = 0; i < shape_bytes(to); i++)
        expected[BASE + shape_place(to, i)] = source[BASE + shape_place(from, i)];
    cr_assert(copy_program_new(target_layout, source_layout, &program) == 0);
    for (int stream = 0; stream < 2; stream++) {
        memset(target, 0x5a, MEMORY);
        (stream ? copy_program_run_stream : copy_program_run)(program, target + BASE, source + BASE,
                                                              0, shape_bytes(to));
        cr_assert(memcmp(target, expected, MEMORY) == 0,
                  "%s%s: %lu x %lu x %lu B to %ld and %ld apart", set, stream ? ", stream" : "",
                  to->outer, to->count, to->block, to->stride, to->outer_stride);
    }
    copy_program_free(program);
    free(source_layout);
    free(target_layout);
}

/* Packed, strided, and transposed, in both directions. */
static void compare_shapes(uint64_t block, uint64_t count, uint64_t outer, const char *set)
{
    const int64_t bytes = (int64_t)block, row = (bytes + 3) * (int64_t)count + 70,
                  column = (bytes + 1) * (int64_t)outer + 65;
    const struct shape packed = {.block = block * count * outer, .count = 1, .outer = 1};
    const struct shape apart = {
        .block = block, .count = count, .stride = bytes + 3, .outer = outer, .outer_stride = row};
    const struct shape opposite = {.block = block,
                                   .count = count,
                                   .stride = column,
                                   .outer = outer,
                                   .outer_stride = bytes + 1};
    const struct shape *shapes[] = {&packed, &apart, &opposite};
    for (int to = 0; to < 3; to++)
        for (int from = 0; from < 3; from++)
            compare_whole(shapes[to], shapes[from], set);
}

/* Blocks that are whole cache lines of the target, or nearly. */
static void compare_lines(const char *set)
{
    for (uint64_t block = 64; block <= 640; block += 32) {
        for (int64_t offset = 0; offset <= 64; offset += 16) {
            const struct shape to = {.block = block,
                                     .count = 5,
                                     .stride = 704,
                                     .outer = 3,
                                     .outer_stride = 8192,
                                     .offset = offset};
            const struct shape from = {
                .block = block, .count = 5, .stride = 701, .outer = 3, .outer_stride = 4001};
            compare_whole(&to, &from, set);
        }
    }
}

Test(copy, every_block_size_in_every_set)
{
    uint32_t state = 99;
    const char *set;
    fill(source, MEMORY, 4);
    for (unsigned i = 0; (set = copy_kernels_name(i)); i++) {
        if (!copy_kernels_use(set))
            continue;
        for (uint64_t block = 1; block <= 140; block++)
            compare_shapes(block, 1 + next_random(&state) % 9, 1 + next_random(&state) % 20, set);
        for (uint64_t block = 1; block <= 34; block++)
            compare_shapes(block, 1 + next_random(&state) % 20, 1 + next_random(&state) % 34, set);
        compare_shapes(3000, 2, 3, set);
        compare_lines(set);
    }
}

Test(copy, sizes_must_agree)
{
    struct copy_program *program = NULL;
    struct layout *a, *b;
    cr_assert(layout_contiguous(8, &a) == 0 && layout_contiguous(9, &b) == 0);
    cr_assert(copy_program_new(a, b, &program) == -EMSGSIZE);
    cr_assert(program == NULL);
    free(a);
    free(b);
}

Test(copy, nothing_to_copy)
{
    struct copy_program *program;
    struct layout *empty;
    cr_assert(layout_contiguous(0, &empty) == 0);
    cr_assert(copy_program_new(empty, empty, &program) == 0);
    copy_program_run(program, NULL, NULL, 0, 0);
    cr_assert(copy_program_free(program) == NULL);
    cr_assert(copy_program_free(NULL) == NULL);
    free(empty);
}

/* A hostile pair: each of many blocks spans another iteration of a loop around a list. It must not
 * be compiled block by block, but must copy correctly. */
Test(copy, lists_do_not_multiply)
{
    enum { TIMES = 300, PAIRS = 200 };
    static struct layout_op blocks[TIMES], loop[2];
    static struct layout_pair pairs[PAIRS];
    for (int i = 0; i < TIMES; i++)
        blocks[i] = (struct layout_op){
            .kind = LAYOUT_BLOCK, .count = PAIRS, .offset_bytes = i * (PAIRS + 2) + i % 2};
    for (int i = 0; i < PAIRS; i++)
        pairs[i] = (struct layout_pair){i * 3 + i % 2, 1};
    loop[0] = (struct layout_op){.kind = LAYOUT_LOOP, .body = 1, .count = TIMES, .stride_bytes = 5};
    loop[1] = (struct layout_op){.kind = LAYOUT_LIST, .count = PAIRS};
    struct layout *to = layout_of_parts(blocks, TIMES, NULL, 0),
                  *from = layout_of_parts(loop, 2, pairs, PAIRS);
    struct copy_pieces pieces = {0};
    struct copy_tree tree;
    cr_assert(to && from);
    cr_assert_eq(copy_tree_init(&tree, to, from, &pieces), -ENOTSUP);
    cr_assert_eq(copy_tree_init(&tree, from, to, &pieces), -ENOTSUP);
    copy_pieces_deinit(&pieces);

    struct copy_program *program;
    uint8_t *out = calloc(1, (size_t)to->upper_bytes);
    fill(source, MEMORY, 1);
    cr_assert_eq(copy_program_new_unpack(to, from, &program), 0);
    copy_program_run(program, out, source, 0, to->size_bytes);
    for (int i = 0; i < TIMES; i++)
        for (int j = 0; j < PAIRS; j++)
            cr_assert_eq(out[blocks[i].offset_bytes + j], source[i * 5 + pairs[j].offset_bytes],
                         "%d %d", i, j);
    copy_program_free(program);
    free(out);
    free(from);
    free(to);
}

static size_t allocated(void)
{
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

/* A program's reported memory is that allocated by malloc(), without its overhead. */
Test(copy, bytes_of_a_program)
{
    enum { BLOCKS = 5000 };
    static int64_t offsets[BLOCKS];
    static uint64_t lengths[BLOCKS];
    struct layout *list, *packed, *byte;
    struct copy_program *program;
    if (allocated() == 0)
        cr_skip_test("a sanitizer's malloc() does not count");
    cr_assert(layout_contiguous(1, &byte) == 0);
    for (unsigned far = 0; far < 2; far++) { /* far apart, each block is an operation of its own */
        uint64_t total = 0;
        for (unsigned i = 0; i < BLOCKS; i++) {
            offsets[i] = 100 * (int64_t)i + (far && i % 2 ? INT64_C(1) << 33 : 0);
            lengths[i] = 1 + i % 7;
            total += lengths[i];
        }
        const struct layout_blocks blocks = {.count = BLOCKS,
                                             .inner = byte,
                                             .lengths = lengths,
                                             .offsets = offsets,
                                             .unit_bytes = 1};
        cr_assert(layout_indexed(&blocks, &list) == 0);
        cr_assert(layout_contiguous(total, &packed) == 0);
        const size_t before = allocated();
        cr_assert(copy_program_new(list, packed, &program) == 0);
        const size_t taken = allocated() - before;
        const uint64_t said = copy_program_bytes(program);
        cr_assert(said <= taken && said + said / 10 + 16384 >= taken, "%zu bytes, not %zu", taken,
                  (size_t)said);
        cr_assert(!far || said > 10 * layout_bytes(list), "%zu bytes for a layout of %zu",
                  (size_t)said, (size_t)layout_bytes(list));
        copy_program_free(program);
        free(list);
        free(packed);
    }
    free(byte);
    cr_assert(copy_program_bytes(NULL) == 0);
}
