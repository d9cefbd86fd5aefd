#include <criterion/criterion.h>
#include <errno.h>

#include "daemon/sessions/space.h"

#define BASE 0x200000000000ull
#define UNIT ((uint64_t)SPACE_ALIGN_BYTES)

Test(space, takes_what_was_free_longest)
{
    struct space *space;
    uint64_t a, b, c, d;
    cr_assert_eq(space_new(BASE, 8 * UNIT, &space), 0);
    cr_assert_eq(space_take(space, 1, &a), 0);
    cr_assert_eq(space_take(space, 2 * UNIT, &b), 0);
    cr_assert_eq(space_take(space, UNIT, &c), 0);
    cr_assert_eq(a, BASE);
    cr_assert_eq(b, BASE + UNIT);
    cr_assert_eq(c, BASE + 3 * UNIT);
    space_give(space, b);
    cr_assert_eq(space_take(space, UNIT, &d), 0);
    cr_assert_eq(d, BASE + 4 * UNIT, "the gap is not used before the end is reached");
    space_give(space, d);
    cr_assert_eq(space_take(space, 2 * UNIT, &d), 0);
    cr_assert_eq(d, BASE + 5 * UNIT);
    cr_assert_eq(space_take(space, UNIT + 1, &d), 0);
    cr_assert_eq(d, b, "fits the gap of two exactly");
    cr_assert_eq(space_take(space, UNIT, &d), 0);
    cr_assert_eq(d, BASE + 4 * UNIT);
    space_free(space);
}

Test(space, says_when_it_is_full)
{
    struct space *space;
    uint64_t at[8], more;
    cr_assert_eq(space_new(BASE, 8 * UNIT, &space), 0);
    for (int i = 0; i < 8; i++)
        cr_assert_eq(space_take(space, UNIT, &at[i]), 0);
    cr_assert_eq(space_take(space, 1, &more), -ENOSPC);
    space_give(space, at[3]);
    cr_assert_eq(space_take(space, UNIT + 1, &more), -ENOSPC);
    cr_assert_eq(space_take(space, UNIT, &more), 0);
    cr_assert_eq(more, at[3]);
    cr_assert_eq(space_take(space, 0, &more), -EINVAL);
    cr_assert_eq(space_take(space, UINT64_MAX, &more), -ENOSPC);
    space_free(space);
}

Test(space, rejects_nonsense)
{
    struct space *space;
    cr_assert_eq(space_new(BASE + 1, 8 * UNIT, &space), -EINVAL);
    cr_assert_eq(space_new(BASE, UNIT - 1, &space), -EINVAL);
    cr_assert_eq(space_new(UINT64_MAX - UNIT + 1, 2 * UNIT, &space), -EINVAL);
}

/* Random allocations and releases, compared with a plain map of units. */
Test(space, agrees_with_a_map)
{
    enum { UNITS = 200, LIVE = 64 };
    struct space *space;
    unsigned char used[UNITS] = {0};
    struct {
        uint64_t address, units;
    } live[LIVE] = {{0}};
    unsigned seed = 12345;
    int next = 0;

    cr_assert_eq(space_new(BASE, UNITS * UNIT, &space), 0);
    for (int round = 0; round < 20000; round++) {
        int i = rand_r(&seed) % LIVE;
        if (live[i].units) {
            space_give(space, live[i].address);
            for (uint64_t u = 0; u < live[i].units; u++)
                used[(live[i].address - BASE) / UNIT + u] = 0;
            live[i].units = 0;
            continue;
        }
        uint64_t units = 1 + (uint64_t)rand_r(&seed) % 9, address;
        int first = -1;
        for (int from = next; first < 0 && from >= 0; from = from > 0 ? 0 : -1)
            for (int at = from, run = 0; at < UNITS && first < 0; at++) {
                run = used[at] ? 0 : run + 1;
                if (run == (int)units)
                    first = at - (int)units + 1;
            }
        int r = space_take(space, units * UNIT - (uint64_t)rand_r(&seed) % UNIT, &address);
        cr_assert_eq(r, first < 0 ? -ENOSPC : 0, "round %d", round);
        if (r < 0)
            continue;
        cr_assert_eq(address, BASE + (uint64_t)first * UNIT, "round %d", round);
        live[i].address = address;
        live[i].units = units;
        next = first + (int)units;
        for (uint64_t u = 0; u < units; u++)
            used[first + (int)u] = 1;
    }
    space_free(space);
}
