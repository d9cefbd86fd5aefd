/* Whether two layouts overlap, against a comparison of every byte. */
#include <string.h>

#include "tests/unit/proto/layouts.h"
#include "tests/unit/proto/random.h"

enum { SPACE = 4096, PLENTY = 1 << 20 };

static bool overlap(const struct layout *a, uint64_t a_base, const struct layout *b,
                    uint64_t b_base, unsigned budget)
{
    bool one = layout_overlap(a, a_base, b, b_base, &(unsigned){budget});
    bool other = layout_overlap(b, b_base, a, a_base, &(unsigned){budget});
    if (budget == PLENTY)
        cr_assert_eq(one, other);
    return one;
}

static void touch(const struct layout *layout, uint64_t base, uint8_t *bytes)
{
    struct layout_cursor cursor;
    int64_t offset;
    uint64_t length;
    layout_cursor_init(&cursor, layout, 0);
    while (layout_cursor_next(&cursor, UINT64_MAX, &offset, &length))
        memset(bytes + base + offset, 1, length);
}

static bool really_overlap(const struct layout *a, uint64_t a_base, const struct layout *b,
                           uint64_t b_base)
{
    uint8_t of_a[SPACE] = {0}, of_b[SPACE] = {0};
    touch(a, a_base, of_a);
    touch(b, b_base, of_b);
    for (unsigned i = 0; i < SPACE; i++)
        if (of_a[i] && of_b[i])
            return true;
    return false;
}

static struct layout *random_run(struct random *random)
{
    return repeat(bytes(1 + random_below(random, 12)), 1 + random_below(random, 12),
                  (int64_t)random_below(random, 81) - 40);
}

static struct layout *random_any(struct random *random)
{
    switch (random_below(random, 4)) {
    case 0:
        return bytes(random_below(random, 50));
    case 1:
        return repeat(random_run(random), 1 + random_below(random, 4),
                      (int64_t)random_below(random, 401) - 200);
    case 2: {
        struct layout *inner = bytes(1 + random_below(random, 9)), *made;
        uint64_t lengths[8];
        int64_t offsets[8];
        for (unsigned i = 0; i < 8; i++) {
            lengths[i] = random_below(random, 3);
            offsets[i] = (int64_t)random_below(random, 800) - 400;
        }
        cr_assert_eq(layout_indexed(&(struct layout_blocks){.count = 8,
                                                            .inner = inner,
                                                            .lengths = lengths,
                                                            .offsets = offsets,
                                                            .unit_bytes = 1},
                                    &made),
                     0);
        free(inner);
        return made;
    }
    default:
        return random_run(random);
    }
}

Test(layout_overlap, is_what_looking_at_every_byte_says)
{
    const uint64_t seed = random_seed();
    struct random random = {seed};
    unsigned met = 0;
    for (unsigned i = 0; i < 20000; i++) {
        struct layout *a = random_any(&random), *b = random_any(&random);
        const uint64_t a_base = 2000 + random_below(&random, 120),
                       b_base = 2000 + random_below(&random, 120);
        const bool expected = really_overlap(a, a_base, b, b_base);
        cr_assert_eq(overlap(a, a_base, b, b_base, PLENTY), expected,
                     "round %u of seed %llu: expected %d", i, (unsigned long long)seed, expected);
        if (expected) /* with a small budget, only false positives are allowed */
            cr_assert(overlap(a, a_base, b, b_base, (unsigned)random_below(&random, 6)),
                      "round %u of seed %llu, with a small budget", i, (unsigned long long)seed);
        met += expected;
        free(a);
        free(b);
    }
    cr_assert(met > 2000 && met < 18000, "%u of 20000 overlap: the test shows little", met);
}

/* However large the matrix is. */
Test(layout_overlap, columns_of_a_matrix_have_nothing_in_common)
{
    struct layout *column = repeat(bytes(8), 1000000, 8 * 4096);
    const uint64_t base = UINT64_C(1) << 46;
    cr_assert(!overlap(column, base, column, base + 8, 0));
    cr_assert(!overlap(column, base + 8 * 4095, column, base, 0));
    cr_assert(overlap(column, base, column, base + 7, PLENTY));
    cr_assert(overlap(column, base, column, base + 8 * 4096, 100));
    struct layout *every_other = repeat(bytes(8), 500000, 8 * 8192);
    cr_assert(!overlap(column, base, every_other, base + 8, 0));
    free(column);
    free(every_other);
}

/* One long put beside or between the blocks of another costs one look. */
Test(layout_overlap, a_block_is_told_apart_from_any_run)
{
    struct layout *run = repeat(bytes(100), 1000000, 1000), *block = bytes(900);
    cr_assert(!overlap(block, 100, run, 0, 1));
    cr_assert(!overlap(block, 5000100, run, 0, 1));
    cr_assert(overlap(block, 5000101, run, 0, 1));
    cr_assert(overlap(block, 5000099, run, 0, 1));
    free(run);
    free(block);
}

Test(layout_overlap, nothing_touches_nothing)
{
    struct layout *nothing = bytes(0), *some = bytes(10);
    cr_assert(!overlap(nothing, 5, some, 0, PLENTY));
    free(nothing);
    free(some);
}
