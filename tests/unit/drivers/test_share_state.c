/* The states of a start of a shared put. */
#include <criterion/criterion.h>

#include "drivers/shm/shm.h"

static bool expected_to_follow(enum share_state from, enum share_state to)
{
    static const enum share_state half[] = {SHARE_IDLE,      SHARE_ORDERING, SHARE_COPYING,
                                            SHARE_NOTIFYING, SHARE_DRAINING, SHARE_IDLE};
    static const enum share_state ring[] = {SHARE_IDLE, SHARE_COPYING, SHARE_NOTIFYING, SHARE_IDLE};
    for (unsigned i = 1; i < sizeof(half) / sizeof(half[0]); i++)
        if (half[i - 1] == from && half[i] == to)
            return true;
    for (unsigned i = 1; i < sizeof(ring) / sizeof(ring[0]); i++)
        if (ring[i - 1] == from && ring[i] == to)
            return true;
    return from > SHARE_IDLE && from < SHARE_STATES && to == SHARE_IDLE; /* cancelled, or failed */
}

Test(share_state, every_pair)
{
    for (int from = 0; from <= SHARE_STATES; from++)
        for (int to = 0; to <= SHARE_STATES; to++)
            cr_assert_eq(shm_share_legal(from, to), expected_to_follow(from, to), "%d to %d", from,
                         to);
}
