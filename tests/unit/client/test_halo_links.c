/* The schedules of halo exchanges, for all ranks of thousands of random grids, without a daemon. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "client/halo/links.h"
#include "tests/unit/client/halo_world.h"

enum { GRIDS = 2000, CELLS_MAX = 60000 };

/* ---- each cell is written once, by its owner */

struct memory {
    uint64_t *values; /* [cells] */
    uint32_t *writes;
};

static uint64_t cells_of(const struct world *world)
{
    uint64_t cells = 0;

    for (uint32_t rank = 0; rank < world->ranks; rank++)
        cells += world->cells[rank];
    return cells;
}

static void fill(const struct world *world, struct memory *memory)
{
    for (uint32_t rank = 0; rank < world->ranks; rank++) {
        memory[rank].values = calloc(world->cells[rank], sizeof(uint64_t));
        memory[rank].writes = calloc(world->cells[rank], sizeof(uint32_t));
        for (uint64_t cell = 0; cell < world->cells[rank]; cell++) {
            bool own;
            uint64_t value = world_expected(world, rank, cell, &own);
            if (own)
                memory[rank].values[cell] = value;
        }
    }
}

static void copy(const struct world *world, struct memory *memory, uint32_t from_rank,
                 const struct halo_box *from, uint32_t to_rank, const struct halo_box *to)
{
    uint32_t dimensions = world->grid.dimensions;

    for (uint64_t n = 0; n < halo_box_elements(dimensions, from); n++) {
        uint64_t source[TCA_HALO_DIMENSIONS], target[TCA_HALO_DIMENSIONS], rest = n;
        for (uint32_t d = dimensions; d-- > 0; rest /= from->sizes[d]) {
            source[d] = from->starts[d] + rest % from->sizes[d];
            target[d] = to->starts[d] + rest % from->sizes[d];
        }
        uint64_t in = world_cell(world, from_rank, source);
        uint64_t out = world_cell(world, to_rank, target);
        cr_assert(in != UINT64_MAX && out != UINT64_MAX, "a box is not inside its array");
        memory[to_rank].values[out] = memory[from_rank].values[in];
        memory[to_rank].writes[out]++;
    }
}

static void exchange(const struct world *world, struct memory *memory, struct halo_link *links)
{
    for (uint32_t rank = 0; rank < world->ranks; rank++) {
        uint32_t count = halo_links(&world->grid, rank, links);
        for (uint32_t i = 0; i < count; i++) {
            struct halo_box from, to;
            if (halo_boxes(world->grid.dimensions, &world->shapes[rank],
                           &world->shapes[links[i].rank], links[i].direction, &from, &to))
                copy(world, memory, rank, &from, links[i].rank, &to);
        }
    }
}

static void check(const struct world *world, struct memory *memory, uint64_t seed)
{
    for (uint32_t rank = 0; rank < world->ranks; rank++) {
        for (uint64_t cell = 0; cell < world->cells[rank]; cell++) {
            bool own;
            uint64_t value = world_expected(world, rank, cell, &own);
            cr_assert_eq(memory[rank].values[cell], value,
                         "seed %#lx: rank %u, cell %lu: %lu, not %lu", seed, rank, cell,
                         memory[rank].values[cell], value);
            cr_assert_eq(memory[rank].writes[cell], !own && value,
                         "seed %#lx: rank %u, cell %lu: %u writes", seed, rank, cell,
                         memory[rank].writes[cell]);
        }
        free(memory[rank].values);
        free(memory[rank].writes);
    }
}

Test(halo_links, each_cell_is_written_once_by_its_owner, .timeout = 300)
{
    struct halo_link *links = calloc(HALO_LINKS_MAX, sizeof(*links));
    struct world *world = malloc(sizeof(*world));
    struct memory memory[RANKS_MAX];
    uint64_t seed = random_seed();
    struct random random = {seed};

    for (uint32_t done = 0; done < GRIDS;) {
        world_random_grid(&random, 1 + done % TCA_HALO_DIMENSIONS, 0, world);
        world_random_shapes(&random, world);
        if (cells_of(world) > CELLS_MAX)
            continue;
        fill(world, memory);
        exchange(world, memory, links);
        check(world, memory, seed);
        done++;
    }
    free(world);
    free(links);
}

/* ---- all small grids */

/* Extents of two elements, so that any width fits. */
static void small_world(struct world *world, uint32_t number, uint64_t low, uint64_t high)
{
    *world = (struct world){.grid = {.dimensions = 3, .diagonals = 3}, .ranks = 1};
    for (uint32_t d = 0; d < 3; d++, number /= 6) {
        world->grid.sizes[d] = 1 + number % 3;
        world->grid.periodic[d] = number % 6 / 3;
        world->ranks *= world->grid.sizes[d];
        world->global[d] = 2 * world->grid.sizes[d];
        for (uint32_t at = 0; at < world->grid.sizes[d]; at++) {
            world->extents[d][at] = 2;
            world->offsets[d][at] = 2 * at;
        }
    }
    for (uint32_t rank = 0; rank < world->ranks; rank++) {
        struct halo_shape *shape = &world->shapes[rank];
        for (uint32_t d = 0; d < 3; d++) {
            shape->extents[d] = 2;
            shape->low[d] = low;
            shape->high[d] = high;
        }
        halo_elements(shape, 3, 1, &world->cells[rank]);
    }
}

/* In a dimension, a rank has a neighbour below, itself, and a neighbour above. */
static uint32_t directions(const struct world *world, uint32_t rank)
{
    uint32_t at[TCA_HALO_DIMENSIONS], count = 1;

    halo_grid_position(&world->grid, rank, at);
    for (uint32_t d = 0; d < 3; d++)
        count *= 1 + (world->grid.periodic[d] || at[d] > 0) +
                 (world->grid.periodic[d] || at[d] + 1 < world->grid.sizes[d]);
    return count - 1;
}

Test(halo_links, all_small_grids, .timeout = 300)
{
    struct halo_link *links = calloc(HALO_LINKS_MAX, sizeof(*links));
    struct world *world = malloc(sizeof(*world));
    struct memory memory[RANKS_MAX];

    for (uint32_t number = 0; number < 6 * 6 * 6; number++)
        for (uint32_t widths = 0; widths < 9; widths++) {
            small_world(world, number, widths % 3, widths / 3);
            for (uint32_t rank = 0; rank < world->ranks; rank++)
                cr_assert_eq(halo_links(&world->grid, rank, links), directions(world, rank),
                             "grid %u, rank %u", number, rank);
            fill(world, memory);
            exchange(world, memory, links);
            check(world, memory, number);
        }
    free(world);
    free(links);
}

/* ---- rounds */

static const struct halo_link *find(const struct halo_link *links, uint32_t count, uint32_t rank,
                                    uint32_t round)
{
    for (uint32_t i = 0; i < count; i++)
        if (links[i].round == round && links[i].rank == rank)
            return &links[i];
    return NULL;
}

static uint32_t order_of(const struct halo_link *link)
{
    uint32_t order = 0;

    for (uint32_t d = 0; d < TCA_HALO_DIMENSIONS; d++)
        order += link->direction[d] != 0;
    return order;
}

/* Pairs: in each round, a rank receives from the rank that it sends to, and from no other. */
static void check_rounds(const struct halo_grid *grid, uint32_t ranks, struct halo_link *links,
                         struct halo_link *back)
{
    for (uint32_t rank = 0; rank < ranks; rank++) {
        uint32_t count = halo_links(grid, rank, links);
        for (uint32_t i = 0; i < count; i++) {
            const struct halo_link *link = &links[i];
            if (i > 0) {
                cr_assert_leq(order_of(&links[i - 1]), order_of(link));
                cr_assert_leq(links[i - 1].round, link->round);
                cr_assert(links[i - 1].round < link->round || link->rank == rank,
                          "rank %u has two links in one round", rank);
            }
            uint32_t back_count = halo_links(grid, link->rank, back);
            cr_assert_not_null(find(back, back_count, rank, link->round),
                               "rank %u does not answer rank %u in its round", link->rank, rank);
        }
    }
}

Test(halo_links, rounds_are_pairs, .timeout = 300)
{
    struct halo_link *links = calloc(HALO_LINKS_MAX, sizeof(*links));
    struct halo_link *back = calloc(HALO_LINKS_MAX, sizeof(*back));
    struct random random = {random_seed()};
    struct world world;

    for (uint32_t done = 0; done < 200; done++) {
        world_random_grid(&random, 1 + done % 4, 0, &world);
        check_rounds(&world.grid, world.ranks, links, back);
    }
    free(links);
    free(back);
}

/* ---- the table of the paper, and limits */

static enum tca_halo_kind kind(uint32_t dimensions, uint32_t across, uint64_t width)
{
    struct halo_shape shape = {0};
    struct halo_box from, to;
    int8_t direction[TCA_HALO_DIMENSIONS] = {0};

    for (uint32_t d = 0; d < dimensions; d++)
        shape.extents[d] = 8;
    shape.low[across] = shape.high[across] = width;
    direction[across] = 1;
    cr_assert(halo_boxes(dimensions, &shape, &shape, direction, &from, &to));
    return halo_box_kind(dimensions, &shape, &from);
}

Test(halo_links, kinds_are_those_of_the_paper)
{
    cr_expect_eq(kind(2, 0, 1), TCA_HALO_BLOCK);
    cr_expect_eq(kind(2, 1, 1), TCA_HALO_STRIDE);
    cr_expect_eq(kind(2, 1, 2), TCA_HALO_BLOCK_STRIDE);
    cr_expect_eq(kind(3, 0, 1), TCA_HALO_BLOCK);        /* jk */
    cr_expect_eq(kind(3, 1, 1), TCA_HALO_BLOCK_STRIDE); /* ik */
    cr_expect_eq(kind(3, 2, 1), TCA_HALO_STRIDE);       /* ij */
    cr_expect_eq(kind(1, 0, 3), TCA_HALO_BLOCK);
}

Test(halo_links, impossible_sizes_are_noticed)
{
    struct halo_shape shape = {.extents = {1ull << 32, 1ull << 31}};
    uint64_t elements = 0;

    cr_expect_eq(halo_grid_processes(&(struct halo_grid){2, {1u << 16, 1u << 16}, {0}, 1}), 0);
    cr_expect_eq(halo_grid_processes(&(struct halo_grid){2, {4, 0}, {0}, 1}), 0);
    cr_expect_eq(halo_grid_processes(&(struct halo_grid){3, {4, 3, 2}, {0}, 1}), 24);
    cr_expect(halo_elements(&shape, 2, 1, &elements));
    cr_expect_eq(elements, 1ull << 63);
    cr_expect_not(halo_elements(&shape, 2, 2, &elements));
    shape.low[0] = UINT64_MAX;
    cr_expect_not(halo_elements(&shape, 2, 1, &elements));
    cr_expect_eq(elements, 1ull << 63);
}
