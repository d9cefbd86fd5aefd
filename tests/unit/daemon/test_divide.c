/* How colours and keys divide a group. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/groups/divide.h"

static uint64_t seed;

static uint32_t pick(uint32_t below)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed >> 33) % below;
}

static bool precedes(const struct divide_choice *choices, uint32_t a, uint32_t b)
{
    return choices[a].key != choices[b].key ? choices[a].key < choices[b].key : a < b;
}

/* The place of a rank in its part. */
static uint32_t place_of(const struct divide_choice *choices, uint32_t size, uint32_t rank)
{
    uint32_t before = 0;
    for (uint32_t other = 0; other < size; other++)
        before += choices[other].colour == choices[rank].colour && precedes(choices, other, rank);
    return before;
}

static void expect_division(const struct divide_choice *choices, uint32_t size,
                            const uint32_t *ranks, uint32_t count)
{
    struct divided *divided = calloc(size + count, sizeof(*divided));
    bool *seen = calloc(size, sizeof(*seen));
    const uint32_t found = divide((const uint8_t *)choices, size, ranks, count, divided);

    for (uint32_t i = 0, length; i < found; i += length) {
        length = divide_part(divided + i, found - i);
        bool here = false;
        for (uint32_t k = 0; k < length; k++) {
            const uint32_t rank = divided[i + k].rank;
            cr_assert_lt(rank, size);
            cr_assert_eq(choices[rank].colour, divided[i].colour);
            cr_assert_eq(place_of(choices, size, rank), k);
            cr_assert_not(seen[rank]);
            seen[rank] = true;
            for (uint32_t own = 0; own < count; own++)
                here |= ranks[own] == rank;
        }
        cr_assert(here, "nobody here needs it");
    }
    for (uint32_t own = 0; own < count; own++)
        for (uint32_t rank = 0; rank < size; rank++)
            if (choices[ranks[own]].colour == choices[rank].colour)
                cr_assert_eq(seen[rank], choices[rank].colour != DIVIDE_NONE);
    free(seen);
    free(divided);
}

Test(divide, every_rank_finds_those_of_its_colour)
{
    static const uint32_t sizes[] = {1, 2, 3, 16, 100, 500};
    for (uint32_t k = 0; k < 60; k++) {
        const uint32_t size = sizes[k % 6], colours = 1 + pick(size);
        struct divide_choice *choices = calloc(size, sizeof(*choices));
        uint32_t *own = calloc(size, sizeof(*own)), count = 0;
        seed += k;
        for (uint32_t rank = 0; rank < size; rank++) {
            choices[rank] = (struct divide_choice){pick(colours), (int32_t)pick(5) - 2};
            if (pick(8) == 0)
                choices[rank].colour = DIVIDE_NONE - pick(2);
            if (k < 6 || pick(3) == 0)
                own[count++] = rank;
        }
        expect_division(choices, size, own, count);
        free(own);
        free(choices);
    }
}

Test(divide, without_a_colour_there_is_no_part)
{
    const struct divide_choice choices[3] = {{DIVIDE_NONE, 0}, {DIVIDE_NONE, 0}, {7, 0}};
    const uint32_t own[2] = {0, 1};
    struct divided divided[5];
    cr_assert_eq(divide((const uint8_t *)choices, 3, own, 2, divided), 0);
}
