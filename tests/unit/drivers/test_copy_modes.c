/* The guess of the copy mode near and far, and the modes worth a trial. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "drivers/shm/copy_modes.h"

static struct layout *contiguous(uint64_t bytes)
{
    struct layout *layout;
    cr_assert(layout_contiguous(bytes, &layout) == 0);
    return layout;
}

static struct layout *strided(uint64_t count, uint64_t bytes, int64_t stride)
{
    struct layout *block = contiguous(bytes), *layout;
    cr_assert(layout_repeat(block, count, stride, &layout) == 0);
    free(block);
    return layout;
}

/* n columns of n words each, of a matrix stored by rows. */
static struct layout *columns(uint64_t n)
{
    struct layout *column = strided(n, 8, (int64_t)(n * 8)), *layout;
    cr_assert(layout_repeat(column, n, 8, &layout) == 0);
    free(column);
    return layout;
}

static struct copy_choice choose(struct layout *target, struct layout *source)
{
    struct copy_choice choice = copy_choose(target, source);
    free(target);
    if (source != target)
        free(source);
    return choice;
}

static bool chooses(struct layout *layout, enum copy_method near, enum copy_method far)
{
    struct copy_choice choice = choose(layout, layout);
    return choice.near == near && choice.far == far;
}

Test(copy_modes, the_ring_is_best_nearly_everywhere)
{
    cr_assert(chooses(contiguous(8192), COPY_RING, COPY_RING));
    cr_assert(chooses(strided(1024, 8, 64), COPY_RING, COPY_RING));
    cr_assert(chooses(strided(256, 256, 512), COPY_RING, COPY_RING));
    cr_assert(chooses(columns(16), COPY_RING, COPY_RING));
}

Test(copy_modes, halves_are_for_much_near)
{
    cr_assert(chooses(strided(1023, 512, 4096), COPY_RING, COPY_RING));
    cr_assert(chooses(strided(1024, 512, 4096), COPY_HALF, COPY_RING));
    cr_assert(chooses(strided(1 << 14, 64, 128), COPY_HALF, COPY_RING));
    cr_assert(chooses(strided(1 << 17, 8, 128), COPY_RING, COPY_RING), "scattered over more lines");
    cr_assert(chooses(strided(1 << 20, 1, 1 << 20), COPY_RING, COPY_RING));
}

Test(copy_modes, large_blocks_are_pushed_far)
{
    cr_assert(chooses(contiguous(65536), COPY_RING, COPY_PUSH));
    cr_assert(chooses(contiguous(1 << 20), COPY_HALF, COPY_PUSH));
    cr_assert(chooses(contiguous(UINT64_C(1) << 40), COPY_HALF, COPY_PUSH));
    cr_assert(chooses(strided(16, 8192, 16384), COPY_RING, COPY_PUSH));
    struct copy_choice choice = choose(strided(8192, 8, 64), contiguous(65536));
    cr_assert(choice.near == COPY_RING && choice.far == COPY_RING,
              "from many into one is not large");
}

Test(copy_modes, transposes_are_done_by_halves)
{
    struct copy_choice choice = choose(columns(128), contiguous(128 * 128 * 8));
    cr_assert(choice.near == COPY_HALF && choice.far == COPY_HALF);
    choice = choose(contiguous(128 * 128 * 8), columns(128));
    cr_assert(choice.near == COPY_HALF && choice.far == COPY_HALF);
    choice = choose(columns(16), contiguous(16 * 16 * 8));
    cr_assert(choice.near == COPY_RING, "all of its lines stay in the cache");
}

static bool pays(struct layout *layout)
{
    bool result = copy_share_pays(layout, layout);
    free(layout);
    return result;
}

Test(copy_modes, sharing_pays_from_some_lines_on)
{
    cr_assert(!pays(contiguous(0)) && !pays(contiguous(8)) && !pays(contiguous(1024)));
    cr_assert(!pays(strided(1024, 1, 1)) && !pays(strided(16, 8, 4096)));
    cr_assert(pays(contiguous(2048)) && pays(strided(1024, 8, 4096)));
    cr_assert(pays(strided(1 << 20, 1024, 4096)));
    cr_assert(pays(contiguous(UINT64_C(1) << 32)) && pays(strided(1 << 20, 8192, 16384)));
}

/* ---- candidates ---- */

static unsigned count_of(enum copy_method method, struct layout *target, struct layout *source,
                         bool mapped)
{
    struct copy_mode modes[COPY_MODES_MAX];
    const unsigned all = copy_mode_candidates(target, source, mapped, modes);
    unsigned count = 0;
    for (unsigned i = 0; i < all; i++) {
        count += modes[i].method == method;
        cr_assert(modes[i].method != COPY_RING ||
                  (modes[i].piece_bytes > 0 && modes[i].piece_bytes <= LANE_SLOT_BYTES));
        for (unsigned j = 0; j < i; j++)
            cr_assert(!copy_mode_equal(&modes[i], &modes[j]));
    }
    if (source != target)
        free(source);
    free(target);
    return count;
}

static unsigned count_alike(enum copy_method method, struct layout *layout, bool mapped)
{
    return count_of(method, layout, layout, mapped);
}

Test(copy_modes, all_ways_are_tried)
{
    for (enum copy_method method = COPY_PUSH; method < COPY_COUNT; method++) {
        cr_assert(count_alike(method, contiguous(65536), true) > 0);
        cr_assert(count_alike(method, strided(1024, 8, 64), true) > 0);
        cr_assert(count_alike(method, contiguous(UINT64_C(1) << 30), true) > 0);
    }
}

Test(copy_modes, streaming_stores_are_tried_where_lines_are_whole)
{
    cr_assert(count_alike(COPY_PUSH, contiguous(65536), true) == 2);
    cr_assert(count_alike(COPY_HALF, contiguous(65536), true) == 2);
    cr_assert(count_alike(COPY_PUSH, contiguous(2048), true) == 1);
    cr_assert(count_alike(COPY_PUSH, strided(1024, 8, 64), true) == 1);
}

Test(copy_modes, transposes_are_not_staged)
{
    cr_assert(count_of(COPY_RING, columns(128), contiguous(128 * 128 * 8), true) == 0);
    cr_assert(count_of(COPY_RING, contiguous(128 * 128 * 8), columns(128), true) == 0);
    cr_assert(count_alike(COPY_RING, columns(16), true) > 0);
}

Test(copy_modes, what_the_receiver_cannot_read_it_does_not_copy)
{
    cr_assert(count_alike(COPY_PULL, contiguous(65536), false) == 0);
    cr_assert(count_alike(COPY_HALF, contiguous(65536), false) == 0);
    cr_assert(count_alike(COPY_RING, contiguous(65536), false) == 2);
}
