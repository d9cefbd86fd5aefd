/* Random pairs of layouts with every set of kernels, compared with a copy byte by byte. A failure
 * prints its seed; TCA_TEST_SEED=n repeats just that one. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "drivers/copy/copy.h"
#include "drivers/copy/kernels.h"
#include "tests/unit/drivers/kit.h"
#include "tests/unit/drivers/random_layout.h"

enum { PAIRS = 1500, GUARD = 128, BYTES_MAX = 6000 };

struct pair {
    struct random_layout target, source;
    uint8_t *target_memory, *expected, *source_memory, *packed;
    size_t target_bytes, source_bytes, bytes; /* memory, without the guards; packed */
};

/* Sizes with many divisors, so that the two layouts often have common loops. */
static uint32_t random_bytes(struct random *random)
{
    uint32_t bytes = 1;
    while (bytes < BYTES_MAX / 7 && random_below(random, 12) > 0)
        bytes *= (uint32_t)(1 + random_below(random, 7));
    return bytes;
}

static struct pair pair_new(struct random *random, uint32_t seed)
{
    struct pair pair = {.bytes = random_bytes(random)};
    pair.target = random_layout_new(random, (uint32_t)pair.bytes, false);
    pair.source = random_layout_new(random, (uint32_t)pair.bytes, random_below(random, 3) == 0);
    pair.target_bytes = (size_t)pair.target.layout->upper_bytes;
    pair.source_bytes = (size_t)pair.source.layout->upper_bytes;
    pair.target_memory = malloc(pair.target_bytes + 2 * GUARD);
    pair.expected = malloc(pair.target_bytes + 2 * GUARD);
    pair.source_memory =
        malloc(pair.source_bytes); /* exact size, so that a sanitizer detects reads beyond it */
    pair.packed = malloc(pair.bytes);
    fill(pair.source_memory, pair.source_bytes, seed);
    return pair;
}

static void pair_free(struct pair *pair)
{
    random_layout_free(&pair->target);
    random_layout_free(&pair->source);
    free(pair->target_memory);
    free(pair->expected);
    free(pair->source_memory);
    free(pair->packed);
}

static void clear(struct pair *pair)
{
    memset(pair->target_memory, 0x5a, pair->target_bytes + 2 * GUARD);
    memset(pair->expected, 0x5a, pair->target_bytes + 2 * GUARD);
}

static void expect(struct pair *pair, uint64_t position, uint64_t length)
{
    for (uint64_t i = position; i < position + length; i++)
        pair->expected[GUARD + pair->target.places[i]] =
            pair->source_memory[pair->source.places[i]];
}

static void compare(const struct pair *pair, const char *what, const char *set, uint64_t seed)
{
    cr_assert(memcmp(pair->target_memory, pair->expected, pair->target_bytes + 2 * GUARD) == 0,
              "%s, %s: seed %lu", what, set, seed);
}

static void test_piece(struct pair *pair, const struct copy_program *program, uint64_t position,
                       uint64_t length)
{
    copy_program_run(program, pair->target_memory + GUARD, pair->source_memory, position, length);
}

/* In several pieces, in random order. */
static void test_run(struct pair *pair, const struct copy_program *program, struct random *random,
                     uint64_t seed, const char *set)
{
    clear(pair);
    uint64_t position = random_below(random, pair->bytes + 1),
             length = random_below(random, pair->bytes - position + 1);
    expect(pair, position, length);
    test_piece(pair, program, position, length);
    compare(pair, "a piece", set, seed);
    expect(pair, 0, pair->bytes);
    test_piece(pair, program, position + length, pair->bytes - position - length);
    test_piece(pair, program, 0, position);
    compare(pair, "all in three pieces", set, seed);
    clear(pair);
    expect(pair, 0, pair->bytes);
    test_piece(pair, program, 0, pair->bytes);
    compare(pair, "all", set, seed);
    clear(pair);
    expect(pair, position, length);
    copy_program_run_stream(program, pair->target_memory + GUARD, pair->source_memory, position,
                            length);
    compare(pair, "a piece past the caches", set, seed);
}

/* Through a buffer of exactly that length. */
static void test_buffer(struct pair *pair, const struct copy_program *program,
                        struct random *random, uint64_t seed, const char *set)
{
    clear(pair);
    expect(pair, 0, pair->bytes);
    for (uint64_t position = 0; position < pair->bytes;) {
        uint64_t length = 1 + random_below(random, pair->bytes - position);
        uint8_t *buffer = malloc(length);
        copy_program_pack(program, buffer, pair->source_memory, position, length);
        for (uint64_t i = 0; i < length; i++)
            cr_assert_eq(buffer[i], pair->source_memory[pair->source.places[position + i]],
                         "pack, %s: seed %lu", set, seed);
        copy_program_unpack(program, pair->target_memory + GUARD, buffer, position, length);
        for (uint64_t i = 0; i < length; i++)
            cr_assert_eq(pair->target_memory[GUARD + pair->target.places[position + i]], buffer[i],
                         "unpack, %s: seed %lu", set, seed);
        free(buffer);
        position += length;
    }
    compare(pair, "pack and unpack", set, seed);
}

/* Overlapping source and target: the bytes are unspecified, all others must not change. */
static void test_overlap(struct pair *pair, const struct copy_program *program, uint64_t seed,
                         const char *set)
{
    size_t bytes =
        pair->target_bytes > pair->source_bytes ? pair->target_bytes : pair->source_bytes;
    uint8_t *memory = malloc(bytes), *hit = calloc(bytes, 1);
    memset(memory, 0xa5, bytes);
    for (size_t i = 0; i < pair->bytes; i++)
        hit[pair->target.places[i]] = 1;
    for (size_t i = 0; i < bytes; i++)
        memory[i] = hit[i] ? 0 : 0xa5;
    copy_program_run(program, memory, memory, 0, pair->bytes);
    for (size_t i = 0; i < bytes; i++)
        cr_assert(hit[i] || memory[i] == 0xa5, "overlap, %s: seed %lu", set, seed);
    free(memory);
    free(hit);
}

/* Programs for limited uses, and one that is completed later. */
static void test_uses(struct pair *pair, struct random *random, uint64_t seed, const char *set)
{
    struct copy_program *program;
    uint8_t *buffer = malloc(pair->bytes + 1);
    const struct layout *to = pair->target.layout, *from = pair->source.layout;
    cr_assert_eq(copy_program_new_unpack(to, from, &program), 0);
    test_run(pair, program, random, seed, set);
    clear(pair);
    expect(pair, 0, pair->bytes);
    for (uint64_t i = 0; i < pair->bytes; i++)
        buffer[i] = pair->source_memory[pair->source.places[i]];
    copy_program_unpack(program, pair->target_memory + GUARD, buffer, 0, pair->bytes);
    compare(pair, "unpack alone", set, seed);
    cr_assert_eq(copy_program_complete(program, to, from), 0);
    test_buffer(pair, program, random, seed, set);
    copy_program_free(program);
    cr_assert_eq(copy_program_new_run(to, from, &program), 0);
    test_run(pair, program, random, seed, set);
    copy_program_free(program);
    free(buffer);
}

static void test_pair(uint64_t seed)
{
    struct random random = {seed};
    struct pair pair = pair_new(&random, (uint32_t)seed);
    const char *set;
    for (unsigned i = 0; (set = copy_kernels_name(i)); i++) {
        if (!copy_kernels_use(set))
            continue;
        struct copy_program *program;
        cr_assert_eq(copy_program_new(pair.target.layout, pair.source.layout, &program), 0);
        test_run(&pair, program, &random, seed, set);
        test_buffer(&pair, program, &random, seed, set);
        test_overlap(&pair, program, seed, set);
        copy_program_free(program);
        test_uses(&pair, &random, seed, set);
    }
    pair_free(&pair);
}

Test(copy_random, equals_a_copy_byte_by_byte, .timeout = 240)
{
    const char *only = getenv("TCA_TEST_SEED");
    uint64_t seed = only ? strtoull(only, NULL, 0) : random_seed();
    for (uint64_t last = seed + (only ? 1 : PAIRS); seed < last; seed++)
        test_pair(seed);
}

/* ---- offsets and positions beyond 32 bits ---- */

static struct layout *repeated(uint64_t bytes, uint64_t count, int64_t stride)
{
    struct layout *block, *layout;
    cr_assert_eq(layout_contiguous(bytes, &block), 0);
    cr_assert_eq(layout_repeat(block, count, stride, &layout), 0);
    free(block);
    return layout;
}

Test(copy_random, positions_beyond_4_gib)
{
    enum { BLOCK = 4096 };
    static uint8_t block[BLOCK], buffer[3 * BLOCK];
    fill(block, BLOCK, 1);
    struct layout *layout = repeated(BLOCK, 1ull << 24, 0); /* 64 GiB, all blocks at one address */
    struct copy_program *program;
    cr_assert_eq(copy_program_new(layout, layout, &program), 0);
    for (uint64_t position = (1ull << 32) - 5000; position < 1ull << 36;
         position = position * 2 - 777) {
        copy_program_pack(program, buffer, block, position, 2 * BLOCK);
        for (uint64_t i = 0; i < 2 * BLOCK; i++)
            cr_assert_eq(buffer[i], block[(position + i) % BLOCK]);
    }
    copy_program_free(program);
    free(layout);
}

static struct layout *far_list(const struct layout_pair *pairs, uint32_t count)
{
    struct layout *layout =
        calloc(1, sizeof(*layout) + sizeof(struct layout_op) + count * sizeof(*pairs));
    *layout = (struct layout){.magic = LAYOUT_MAGIC,
                              .alignment = 1,
                              .version = PROTO_VERSION,
                              .op_count = 1,
                              .pair_count = count,
                              .block_count = count,
                              .lower_bytes = INT64_MAX,
                              .upper_bytes = INT64_MIN};
    layout->ops[0] = (struct layout_op){.kind = LAYOUT_LIST, .count = count};
    memcpy(&layout->ops[1], pairs, count * sizeof(*pairs));
    for (uint32_t i = 0; i < count; i++) {
        int64_t end = pairs[i].offset_bytes + (int64_t)pairs[i].length_bytes;
        layout->size_bytes += pairs[i].length_bytes;
        if (pairs[i].offset_bytes < layout->lower_bytes)
            layout->lower_bytes = pairs[i].offset_bytes;
        if (end > layout->upper_bytes)
            layout->upper_bytes = end;
    }
    const char *why = "";
    cr_assert_eq(layout_check(layout, layout_bytes(layout), &why), 0, "%s", why);
    return layout;
}

Test(copy_random, lists_wider_than_4_gib)
{
    const uint64_t span = 12ull << 30;
    const struct layout_pair pairs[] = {{6ll << 30, 12},      {0, 8},         {100, 8},
                                        {11ll << 30, 8},      {2ll << 30, 8}, {(2ll << 30) - 9, 8},
                                        {(4ll << 30) + 1, 30}};
    enum { COUNT = sizeof(pairs) / sizeof(*pairs) };
    uint8_t *memory = mmap(NULL, span, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    cr_assert_neq(memory, MAP_FAILED);
    struct layout *list = far_list(pairs, COUNT);
    struct copy_program *program;
    cr_assert_eq(copy_program_new(list, list, &program), 0);
    uint8_t packed[82], again[82];
    cr_assert_eq(list->size_bytes, sizeof(packed));
    fill(packed, sizeof(packed), 7);
    copy_program_unpack(program, memory, packed, 0, sizeof(packed));
    for (uint32_t i = 0, at = 0; i < COUNT; at += (uint32_t)pairs[i].length_bytes, i++)
        cr_assert_eq(memcmp(memory + pairs[i].offset_bytes, packed + at, pairs[i].length_bytes), 0);
    for (uint64_t at = 0; at < sizeof(packed); at += 41)
        copy_program_pack(program, again + at, memory, at, 41);
    cr_assert_eq(memcmp(again, packed, sizeof(packed)), 0);
    copy_program_free(program);
    free(list);
    munmap(memory, span);
}
