/* The guess of the copy mode near and far, and the modes worth a trial. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "drivers/shm/ways.h"

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

static struct way_choice choose(struct layout *target, struct layout *source)
{
    struct way_choice choice = way_choose(target, source);
    free(target);
    if (source != target)
        free(source);
    return choice;
}

static bool chooses(struct layout *layout, enum way near, enum way far)
{
    struct way_choice choice = choose(layout, layout);
    return choice.near == near && choice.far == far;
}

Test(ways, the_ring_is_best_nearly_everywhere)
{
    cr_assert(chooses(contiguous(8192), WAY_RING, WAY_RING));
    cr_assert(chooses(strided(1024, 8, 64), WAY_RING, WAY_RING));
    cr_assert(chooses(strided(256, 256, 512), WAY_RING, WAY_RING));
    cr_assert(chooses(columns(16), WAY_RING, WAY_RING));
}

Test(ways, halves_are_for_much_near)
{
    cr_assert(chooses(strided(1023, 512, 4096), WAY_RING, WAY_RING));
    cr_assert(chooses(strided(1024, 512, 4096), WAY_HALF, WAY_RING));
    cr_assert(chooses(strided(1 << 14, 64, 128), WAY_HALF, WAY_RING));
    cr_assert(chooses(strided(1 << 17, 8, 128), WAY_RING, WAY_RING), "scattered over more lines");
    cr_assert(chooses(strided(1 << 20, 1, 1 << 20), WAY_RING, WAY_RING));
}

Test(ways, large_blocks_are_pushed_far)
{
    cr_assert(chooses(contiguous(65536), WAY_RING, WAY_PUSH));
    cr_assert(chooses(contiguous(1 << 20), WAY_HALF, WAY_PUSH));
    cr_assert(chooses(contiguous(UINT64_C(1) << 40), WAY_HALF, WAY_PUSH));
    cr_assert(chooses(strided(16, 8192, 16384), WAY_RING, WAY_PUSH));
    struct way_choice choice = choose(strided(8192, 8, 64), contiguous(65536));
    cr_assert(choice.near == WAY_RING && choice.far == WAY_RING, "from many into one is not large");
}

Test(ways, transposes_are_done_by_halves)
{
    struct way_choice choice = choose(columns(128), contiguous(128 * 128 * 8));
    cr_assert(choice.near == WAY_HALF && choice.far == WAY_HALF);
    choice = choose(contiguous(128 * 128 * 8), columns(128));
    cr_assert(choice.near == WAY_HALF && choice.far == WAY_HALF);
    choice = choose(columns(16), contiguous(16 * 16 * 8));
    cr_assert(choice.near == WAY_RING, "all of its lines stay in the cache");
}

static bool pays(struct layout *layout)
{
    bool result = way_share_pays(layout, layout);
    free(layout);
    return result;
}

Test(ways, sharing_pays_from_some_lines_on)
{
    cr_assert(!pays(contiguous(0)) && !pays(contiguous(8)) && !pays(contiguous(1024)));
    cr_assert(!pays(strided(1024, 1, 1)) && !pays(strided(16, 8, 4096)));
    cr_assert(pays(contiguous(2048)) && pays(strided(1024, 8, 4096)));
    cr_assert(pays(strided(1 << 20, 1024, 4096)));
    cr_assert(pays(contiguous(UINT64_C(1) << 32)) && pays(strided(1 << 20, 8192, 16384)));
}

/* ---- candidates ---- */

static unsigned count_of(enum way way, struct layout *target, struct layout *source, bool mapped)
{
    struct copy_mode modes[COPY_MODES_MAX];
    const unsigned all = copy_mode_candidates(target, source, mapped, modes);
    unsigned count = 0;
    for (unsigned i = 0; i < all; i++) {
        count += modes[i].way == way;
        cr_assert(modes[i].way != WAY_RING ||
                  (modes[i].piece_bytes > 0 && modes[i].piece_bytes <= LANE_SLOT_BYTES));
        for (unsigned j = 0; j < i; j++)
            cr_assert(!copy_mode_equal(&modes[i], &modes[j]));
    }
    if (source != target)
        free(source);
    free(target);
    return count;
}

static unsigned count_alike(enum way way, struct layout *layout, bool mapped)
{
    return count_of(way, layout, layout, mapped);
}

Test(ways, all_ways_are_tried)
{
    for (enum way way = WAY_PUSH; way < WAY_COUNT; way++) {
        cr_assert(count_alike(way, contiguous(65536), true) > 0);
        cr_assert(count_alike(way, strided(1024, 8, 64), true) > 0);
        cr_assert(count_alike(way, contiguous(UINT64_C(1) << 30), true) > 0);
    }
}

Test(ways, streaming_stores_are_tried_where_lines_are_whole)
{
    cr_assert(count_alike(WAY_PUSH, contiguous(65536), true) == 2);
    cr_assert(count_alike(WAY_HALF, contiguous(65536), true) == 2);
    cr_assert(count_alike(WAY_PUSH, contiguous(2048), true) == 1);
    cr_assert(count_alike(WAY_PUSH, strided(1024, 8, 64), true) == 1);
}

Test(ways, transposes_are_not_staged)
{
    cr_assert(count_of(WAY_RING, columns(128), contiguous(128 * 128 * 8), true) == 0);
    cr_assert(count_of(WAY_RING, contiguous(128 * 128 * 8), columns(128), true) == 0);
    cr_assert(count_alike(WAY_RING, columns(16), true) > 0);
}

Test(ways, what_the_receiver_cannot_read_it_does_not_copy)
{
    cr_assert(count_alike(WAY_PULL, contiguous(65536), false) == 0);
    cr_assert(count_alike(WAY_HALF, contiguous(65536), false) == 0);
    cr_assert(count_alike(WAY_RING, contiguous(65536), false) == 2);
}
