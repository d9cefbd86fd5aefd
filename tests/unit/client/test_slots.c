/* The library's slots: random users never share one, and the slots of programs stay free. */
#include "client/core/slots.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "client/core/session.h"
#include "tests/unit/proto/random.h"

enum { TAKERS = 200, ROUNDS = 20000, COUNT_MAX = 9 };

static struct taker {
    uint32_t slot, count; /* 0: none */
} takers[TAKERS];
static uint8_t owners[SLOTS_PER_SOURCE];

static void set_owner(const struct taker *taker, uint8_t before, uint8_t after)
{
    for (uint32_t i = 0; i < taker->count; i++) {
        uint32_t index = 0;
        cr_assert(slot_index(taker->slot + i, &index));
        cr_assert(index >= SLOTS_PROGRAM && index < SLOTS_PER_SOURCE);
        cr_assert(owners[index] == before, "slot %u is owned by %u", index, owners[index]);
        owners[index] = after;
    }
}

static uint32_t longest_gap(void)
{
    uint32_t longest = 0, gap = 0;
    for (uint32_t i = SLOTS_PROGRAM; i < SLOTS_PER_SOURCE; i++) {
        gap = owners[i] ? 0 : gap + 1;
        longest = gap > longest ? gap : longest;
    }
    return longest;
}

/* Slots that may still be notified are not given again, and an error says how many they are. */
Test(slots, are_lost)
{
    struct tca *session = calloc(1, sizeof(*session));
    uint32_t lost, slot;

    cr_assert(slots_take(session, 3, &lost) == 0);
    slots_lose(session, lost, 3);
    for (int i = 3; i < SLOTS_LIBRARY; i++) {
        cr_assert(slots_take(session, 1, &slot) == 0);
        cr_assert(slot < lost || slot >= lost + 3);
    }
    cr_assert(slots_take(session, 1, &slot) == -EBUSY);
    cr_assert(strstr(tca_error_text(), "3 of them cannot be used again"), "%s", tca_error_text());
    free(session);
}

Test(slots, are_shared_out)
{
    struct tca *session = calloc(1, sizeof(*session));
    struct random random = {20261123};

    for (unsigned round = 0; round < ROUNDS; round++) {
        const uint8_t number = (uint8_t)random_below(&random, TAKERS);
        struct taker *taker = &takers[number];
        if (taker->count > 0) {
            set_owner(taker, number + 1, 0);
            slots_return(session, taker->slot, taker->count);
            taker->count = 0;
            continue;
        }
        uint32_t count = 1 + (uint32_t)random_below(&random, COUNT_MAX);
        if (slots_take(session, count, &taker->slot) == 0) {
            taker->count = count;
            set_owner(taker, 0, number + 1);
        } else {
            cr_assert(longest_gap() < count, "refused, although %u are free", longest_gap());
        }
    }
    free(session);
}

Test(slots, can_be_taken_at_once)
{
    struct tca *session = calloc(1, sizeof(*session));
    uint32_t slot = 0;

    cr_assert(slots_take(session, 0, &slot) == -EBUSY);
    cr_assert(slots_take(session, SLOTS_LIBRARY + 1, &slot) == -EBUSY);
    cr_assert(slots_take(session, SLOTS_LIBRARY, &slot) == 0);
    cr_assert(slots_take(session, 1, &slot) == -EBUSY);
    slots_return(session, slot, SLOTS_LIBRARY);
    cr_assert(slots_take(session, 1, &slot) == 0);
    free(session);
}

Test(slots, have_one_index_each)
{
    uint32_t seen = 0, index = 0;

    for (uint32_t slot = 0; slot < 2 * SLOT_LIBRARY_FIRST; slot++)
        seen += slot_index(slot, &index) && index < SLOTS_PER_SOURCE;
    cr_assert_eq(seen, SLOTS_PER_SOURCE);
    for (uint32_t slot = 0; slot < SLOTS_PROGRAM; slot++)
        cr_assert(slot_index(slot, &index) && index == slot);
    cr_assert(!slot_index(UINT32_MAX, &index));
}
