/*
 * Two owners notify each other, each by both kinds of counters, and sleep on their doorbells in
 * between. Data must be visible after its notification, every notification must count once, and no
 * wake-up may be lost.
 */
#include "proto/notify.h"
#include "tests/unit/proto/random.h"
#include "tests/unit/proto/stress.h"

enum { SLOT_DIRECT = 0, SLOT_ROUTED = 1, SLOTS, BURST_MAX = 8 };

/* The memory of one owner. */
struct inbox {
    struct notify_segment segment;
    struct notify_line lines[SLOTS]; /* they are segment.lines */
    _Atomic uint64_t taken[SLOTS];
    /* Not atomic: the notifications order it. Which of the two is written alternates, as with any
     * double buffer. */
    uint64_t data[2];
};
static_assert(offsetof(struct inbox, lines) == sizeof(struct notify_segment),
              "where the segment has them");

static uint64_t data_of(uint64_t round)
{
    return round * 0x9e3779b97f4a7c15u;
}

static bool both_there(struct inbox *inbox, uint64_t count)
{
    return notify_arrived(&inbox->lines[SLOT_DIRECT]) - atomic_load(&inbox->taken[SLOT_DIRECT]) >=
               1 &&
           notify_arrived(&inbox->lines[SLOT_ROUTED]) - atomic_load(&inbox->taken[SLOT_ROUTED]) >=
               count;
}

static void wait_for(struct inbox *inbox, uint64_t round, uint64_t count, uint64_t patience)
{
    struct notify_segment *segment = &inbox->segment;
    while (!both_there(inbox, count)) {
        if (patience-- > 0)
            continue;
        patience = 0;
        uint32_t doorbell = notify_prepare_sleep(segment);
        if (both_there(inbox, count))
            notify_cancel_sleep(segment);
        else if (notify_sleep(segment, doorbell, STRESS_LOST_NS) == -ETIMEDOUT &&
                 both_there(inbox, count))
            stress_fail("a wake-up was lost in round %lu", (unsigned long)round);
    }
    if (!notify_take(&inbox->lines[SLOT_DIRECT], &inbox->taken[SLOT_DIRECT], 1) ||
        !notify_take(&inbox->lines[SLOT_ROUTED], &inbox->taken[SLOT_ROUTED], count))
        stress_fail("an arrived notification cannot be taken in round %lu", (unsigned long)round);
    if (inbox->data[round % 2] != data_of(round))
        stress_fail("notified before the data was there in round %lu", (unsigned long)round);
}

/* One direct notification and `count` routed ones, waking after each or only at the end. */
static void notify_peer(struct inbox *inbox, uint64_t round, uint64_t count, bool each)
{
    struct notify_segment *segment = &inbox->segment;
    inbox->data[round % 2] = data_of(round);
    notify_raise_direct(&inbox->lines[SLOT_DIRECT], round, 0);
    for (uint64_t i = 0; i < count; i++) {
        if (each)
            notify_wake(segment);
        notify_raise_routed(&inbox->lines[SLOT_ROUTED], 1, round);
    }
    notify_wake(segment);
}

/* After the last round nothing may be left over. */
static void expect_all_taken(struct inbox *inbox)
{
    for (uint32_t slot = 0; slot < SLOTS; slot++)
        if (notify_arrived(&inbox->lines[slot]) != atomic_load(&inbox->taken[slot]))
            stress_fail("slot %u: not as many taken as arrived", slot);
}

/* Both know how many routed ones belong to a round. */
static void party(struct stress *stress, unsigned self)
{
    struct inbox *inboxes = stress->shared;
    struct random common = {7}, own = {self};
    for (uint64_t round = 1; round <= stress->iterations; round++) {
        uint64_t count = 1 + random_below(&common, BURST_MAX), next = random_next(&own);
        uint64_t patience = next & 1 ? next >> 8 & 1023 : 0;
        notify_peer(&inboxes[!self], round, count, next & 2);
        wait_for(&inboxes[self], round, count, patience);
    }
    expect_all_taken(&inboxes[self]);
}

static void first(struct stress *stress)
{
    party(stress, 0);
}

static void second(struct stress *stress)
{
    party(stress, 1);
}

int main(int argc, char **argv)
{
    return stress_main(argc, argv, 2 * sizeof(struct inbox), first, second, -1);
}
