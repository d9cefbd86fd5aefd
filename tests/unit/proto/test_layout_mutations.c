/* Corrupted programs from the constructors: refused, or consistent with their own headers. A
 * failure prints its seed; TCA_TEST_SEED=n repeats just that one. */
#include "proto/layout.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/proto/random.h"

enum { PROGRAMS = 400, DAMAGES = 200, BLOCKS_MAX = 120, WALK_MAX = 3000 };

/* Irregular blocks, some of one length, in a loop, beside a regular stretch. */
static struct layout *random_program(struct random *random)
{
    uint64_t lengths[BLOCKS_MAX], count = 1 + random_below(random, BLOCKS_MAX);
    int64_t offsets[BLOCKS_MAX], at = 0, step = 2;
    const bool equal = random_below(random, 2);
    struct layout *element, *list, *loop;
    for (uint64_t i = 0; i < count; i++) {
        if (i < count / 3 || random_below(random, 4) == 0)
            step = 1 + (int64_t)random_below(random, 9);
        lengths[i] = equal ? 3 : 1 + random_below(random, 3);
        offsets[i] = at;
        at += (int64_t)lengths[i] + step;
    }
    cr_assert_eq(layout_element(5, 4, 4, &element), 0);
    cr_assert_eq(layout_indexed(&(struct layout_blocks){.count = count,
                                                        .inner = element,
                                                        .lengths = lengths,
                                                        .offsets = offsets,
                                                        .unit_bytes = 4},
                                &list),
                 0);
    cr_assert_eq(layout_repeat(list, 1 + random_below(random, 4), 5000, &loop), 0);
    free(element);
    free(list);
    return loop;
}

/* Changes one field to an unusual value. */
static void damage(struct random *random, struct layout *layout, size_t size)
{
    static const uint64_t strange[] = {
        0,          1,          2,          3,         16,
        0x7fffffff, 0x80000000, 0xffffffff, INT64_MAX, (uint64_t)INT64_MAX + 1,
        UINT64_MAX, -8ull};
    uint8_t *bytes = (uint8_t *)layout;
    switch (random_below(random, 4)) {
    case 0:
        bytes[random_below(random, size)] ^= (uint8_t)(1 << random_below(random, 8));
        break;
    case 1:
        memcpy(bytes + random_below(random, size / 8) * 8,
               &strange[random_below(random, sizeof(strange) / sizeof(strange[0]))], 8);
        break;
    case 2:
        memcpy(bytes + random_below(random, size / 4) * 4,
               &strange[random_below(random, sizeof(strange) / sizeof(strange[0]))], 4);
        break;
    default:
        memmove(bytes + random_below(random, size / 8) * 8,
                bytes + random_below(random, size / 8) * 8, 8);
    }
}

/* From a position on, at most WALK_MAX pieces: all inside the bounds, and none longer than the
 * rest. */
static void walk(const struct layout *layout, uint64_t from, uint64_t seed)
{
    struct layout_cursor cursor;
    int64_t offset;
    uint64_t length, at = from;
    layout_cursor_init(&cursor, layout, from);
    for (int i = 0; i < WALK_MAX; i++) {
        if (!layout_cursor_next(&cursor, UINT64_MAX, &offset, &length)) {
            cr_assert_eq(at, layout->size_bytes, "seed %lu", seed);
            return;
        }
        cr_assert(length > 0 && length <= layout->size_bytes - at, "seed %lu", seed);
        cr_assert(offset >= layout->lower_bytes && offset < layout->upper_bytes, "seed %lu", seed);
        cr_assert_leq(length, (uint64_t)layout->upper_bytes - (uint64_t)offset, "seed %lu", seed);
        at += length;
    }
}

static void use(const struct layout *layout, struct random *random, uint64_t seed)
{
    char text[100];
    layout_describe(layout, text, sizeof(text));
    cr_assert_not_null(memchr(text, 0, sizeof(text)));
    walk(layout, 0, seed);
    if (layout->size_bytes > 0)
        walk(layout, random_below(random, layout->size_bytes), seed);
    layout_extent(layout);
}

Test(layout_mutations, are_refused_or_true)
{
    const char *only = getenv("TCA_TEST_SEED");
    const uint64_t first = only ? strtoull(only, NULL, 0) : random_seed();
    unsigned accepted = 0, refused = 0;
    for (uint64_t seed = first; seed < first + (only ? 1 : PROGRAMS); seed++) {
        struct random random = {seed};
        struct layout *good = random_program(&random);
        const size_t bytes = layout_bytes(good);
        cr_assert_eq(layout_check(good, bytes, NULL), 0, "seed %lu", seed);
        for (int i = 0; i < DAMAGES; i++) {
            struct layout *bad = malloc(bytes); /* so that ASan detects reads beyond its end */
            memcpy(bad, good, bytes);
            for (uint64_t n = random_below(&random, 3) + 1; n > 0; n--)
                damage(&random, bad, bytes);
            bool ok = layout_check(bad, bytes, NULL) == 0;
            if (ok)
                use(bad, &random, seed);
            accepted += ok;
            refused += !ok;
            free(bad);
        }
        free(good);
    }
    cr_assert(accepted > 0 && refused > accepted);
}
