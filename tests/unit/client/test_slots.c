/* The library's slots: random users never share one, none is a program's, and those that come back
 * are given again before new ones. */
#include "client/core/slots.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#include "client/core/session.h"
#include "tests/unit/proto/random.h"

enum {
    TAKERS = 200,
    ROUNDS = 20000,
    COUNT_MAX = 9,
    ALL = TAKERS * COUNT_MAX * (COUNT_MAX + 1) / 2
};

static struct taker {
    uint32_t slot, count; /* 0: none */
} takers[TAKERS];
static uint8_t owners[ALL];

static void set_owner(const struct taker *taker, uint8_t before, uint8_t after)
{
    for (uint32_t i = 0; i < taker->count; i++) {
        const uint32_t index = taker->slot + i - SLOT_LIBRARY_FIRST;
        cr_assert(index < ALL, "slot %u, although others have come back", taker->slot + i);
        cr_assert(owners[index] == before, "slot %u is owned by %u", index, owners[index]);
        owners[index] = after;
    }
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
        taker->count = 1 + (uint32_t)random_below(&random, COUNT_MAX);
        taker->slot = slots_take(session, taker->count);
        set_owner(taker, 0, number + 1);
    }
    slots_end(session);
    free(session);
}
