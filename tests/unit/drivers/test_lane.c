/* Both ends of a lane in one process: draining, locking, and hostile content. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "drivers/shm/lane.h"
#include "tests/unit/drivers/kit.h"

enum { SIZE = 40000, GUARD = 64 };

static struct lane_segment *segment;
static struct notify_segment *receivers;
static struct lane sender, receiver;
static struct layout *layout;
static struct copy_program *program;
static uint8_t *source, *target; /* with GUARD bytes before and behind */

static void *zeroes(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert(memory != MAP_FAILED);
    return memory;
}

static void set_up(void)
{
    segment = zeroes(sizeof(*segment));
    receivers = zeroes(sizeof(*receivers));
    lane_init(&sender, segment, LANE_SENDER);
    lane_init(&receiver, segment, LANE_RECEIVER);
    sender.receiver = receivers;
    cr_assert(layout_contiguous(SIZE, &layout) == 0);
    cr_assert(copy_program_new(layout, layout, &program) == 0);
    source = zeroes(SIZE + 2 * GUARD);
    target = zeroes(SIZE + 2 * GUARD);
    fill(source, SIZE + 2 * GUARD, 1);
}

static void tear_down(void)
{
    for (size_t i = 0; i < GUARD; i++)
        cr_assert(target[i] == 0 && target[GUARD + SIZE + i] == 0, "beside the target");
    lane_deinit(&sender);
    lane_deinit(&receiver);
    copy_program_free(program);
    free(layout);
    munmap(segment, sizeof(*segment));
    munmap(receivers, sizeof(*receivers));
    munmap(source, SIZE + 2 * GUARD);
    munmap(target, SIZE + 2 * GUARD);
}

static struct lane_put put_of(uint32_t id)
{
    return (struct lane_put){.id = id,
                             .size_bytes = SIZE,
                             .program = program,
                             .target = target + GUARD,
                             .source = source + GUARD};
}

static void stage(uint32_t id, uint64_t position, uint64_t length)
{
    memcpy(lane_slot(&sender), source + GUARD + position, length);
    lane_publish(&sender, id, LANE_STAGED, position, length);
}

static bool landed(uint64_t position, uint64_t length)
{
    return memcmp(target + GUARD + position, source + GUARD + position, length) == 0;
}

static bool untouched(uint64_t position, uint64_t length)
{
    for (uint64_t i = 0; i < length; i++)
        if (target[GUARD + position + i] != 0)
            return false;
    return true;
}

TestSuite(lane, .init = set_up, .fini = tear_down);

Test(lane, either_end_drains_in_order)
{
    struct lane_put ours = put_of(1), theirs = put_of(1);
    cr_assert(lane_add(&sender, &ours) == 0 && lane_add(&receiver, &theirs) == 0);
    cr_assert(lane_drain(&receiver) == 0 && lane_drain(&sender) == 0, "nothing is there");
    stage(1, 0, 100);
    lane_publish(&sender, 1, LANE_DIRECT, 100, 20000);
    stage(1, 30000, 4000);
    cr_assert(lane_backlog(&sender) == 3 && lane_pending(&receiver));
    cr_assert(lane_published(&receiver) == 3);
    cr_assert(lane_drain_one(&sender) == 1);
    cr_assert(landed(0, 100) && untouched(100, 1));
    cr_assert(lane_pending(&receiver), "the put is unknown here");
    cr_assert(lane_drain_one(&receiver) == 1);
    cr_assert(landed(100, 20000) && untouched(30000, 1));
    cr_assert(lane_drain(&receiver) == 0);
    cr_assert(landed(30000, 4000) && !lane_pending(&receiver) && lane_backlog(&sender) == 0);
}

Test(lane, wraps_and_fills)
{
    struct lane_put ours = put_of(7), theirs = put_of(7);
    cr_assert(lane_add(&sender, &ours) == 0 && lane_add(&receiver, &theirs) == 0);
    uint32_t dice = 5;
    for (uint64_t round = 0; round < 200; round++) {
        memset(target + GUARD, 0, SIZE);
        unsigned count = 0;
        for (; lane_has_room(&sender); count++)
            stage(7, count * 1000, 1000);
        cr_assert(count == LANE_ENTRIES);
        for (unsigned i = next_random(&dice) % (LANE_ENTRIES + 1); i > 0; i--)
            cr_assert(lane_drain_one(next_random(&dice) % 2 ? &sender : &receiver) == 1);
        cr_assert(lane_drain(&receiver) == 0 && landed(0, count * 1000));
        for (unsigned i = next_random(&dice) % LANE_ENTRIES; i > 0;
             i--) { /* from another offset next time */
            stage(7, 0, 8);
            cr_assert(lane_drain_one(&sender) == 1);
        }
    }
}

Test(lane, a_receiver_joins_late)
{
    struct lane_put ours = put_of(1), theirs = put_of(1);
    struct lane late;
    cr_assert(lane_add(&sender, &ours) == 0);
    for (unsigned i = 0; i < LANE_ENTRIES + 3; i++) {
        stage(1, 0, 8);
        cr_assert(lane_drain_one(&sender) == 1);
    }
    stage(1, 0, 5000);
    lane_init(&late, segment, LANE_RECEIVER);
    cr_assert(lane_add(&late, &theirs) == 0 && lane_pending(&late) && lane_drain(&late) == 0 &&
              landed(0, 5000));
    lane_deinit(&late);
}

Test(lane, ids)
{
    struct lane_put puts[] = {put_of(0),
                              put_of(5),
                              put_of(5 + LANE_PUTS_MAX),
                              put_of(LANE_PUTS_MAX - 1),
                              put_of(UINT32_MAX),
                              put_of(UINT32_MAX - LANE_PUTS_MAX + 6)};
    cr_assert(lane_add(&receiver, &puts[0]) == -EINVAL);
    cr_assert(lane_add(&receiver, &puts[1]) == 0);
    cr_assert(lane_add(&receiver, &puts[2]) == -EEXIST, "its index is taken");
    lane_remove(&receiver, &puts[2]); /* is not in the lane */
    cr_assert(lane_add(&receiver, &puts[2]) == -EEXIST);
    lane_remove(&receiver, &puts[1]);
    cr_assert(lane_add(&receiver, &puts[2]) == 0);
    cr_assert(lane_add(&receiver, &puts[3]) == 0);

    stage(5, 0, 100); /* was removed: skipped */
    stage(5 + LANE_PUTS_MAX, 100, 100);
    cr_assert(lane_drain(&receiver) == 0 && untouched(0, 100) && landed(100, 100));
    stage(5 + 2 * LANE_PUTS_MAX, 0, 100); /* not yet added */
    cr_assert(lane_drain(&receiver) == -ENOENT && lane_backlog(&sender) == 1);
    lane_skip(&receiver, 5 + 2 * LANE_PUTS_MAX); /* and will not be */
    cr_assert(lane_drain(&receiver) == 0 && untouched(0, 100) && lane_backlog(&sender) == 0);
}

Test(lane, ids_wrap_around)
{
    struct lane_put last = put_of(UINT32_MAX), first = put_of(1);
    lane_skip(&receiver, INT32_MAX);
    lane_skip(&receiver, UINT32_MAX - 1);
    cr_assert(lane_add(&receiver, &last) == 0);
    stage(UINT32_MAX, 0, 100);
    stage(1, 100, 100);
    cr_assert(lane_drain(&receiver) == -ENOENT && landed(0, 100), "1 is younger than the last");
    cr_assert(lane_add(&receiver, &first) == 0);
    lane_remove(&receiver, &last);
    stage(UINT32_MAX, 200, 100);
    cr_assert(lane_drain(&receiver) == 0 && landed(100, 100) && untouched(200, 100),
              "and the last is older than 1");
}

Test(lane, one_at_a_time)
{
    struct lane_put ours = put_of(1), theirs = put_of(1);
    cr_assert(lane_add(&sender, &ours) == 0 && lane_add(&receiver, &theirs) == 0);
    stage(1, 0, 100);
    atomic_store(&segment->drainer, LANE_SENDER);
    cr_assert(lane_drain(&receiver) == -EAGAIN && untouched(0, 100));
    lane_take_over(&receiver); /* it has ended in the middle */
    cr_assert(lane_drain(&receiver) == 0 && landed(0, 100));
    stage(1, 100, 100);
    atomic_store(&segment->drainer, LANE_RECEIVER);
    lane_take_over(&receiver); /* only the sender's lock is released */
    cr_assert(lane_drain(&sender) == -EAGAIN && untouched(100, 100));
    atomic_store(&segment->drainer, 77);
    cr_assert(lane_drain(&sender) == -EAGAIN && lane_drain(&receiver) == -EAGAIN);
}

Test(lane, a_put_that_cannot_be_done_here)
{
    struct lane_put ours = put_of(1), theirs = {.id = 1};
    cr_assert(lane_add(&sender, &ours) == 0 && lane_add(&receiver, &theirs) == 0);
    stage(1, 0, 100);
    cr_assert(lane_drain(&receiver) == -ENXIO && lane_backlog(&sender) == 1);
    cr_assert(lane_drain(&sender) == 0 && landed(0, 100));
    cr_assert(lane_drain(&receiver) == 0 && !lane_pending(&receiver));
}

Test(lane, a_receiver_that_sleeps_is_woken)
{
    struct lane_put ours = put_of(1);
    cr_assert(lane_add(&sender, &ours) == 0);
    stage(1, 0, 100);
    atomic_store(&receivers->sleeping, 1);
    cr_assert(lane_drain_one(&sender) == 1);
    cr_assert(atomic_load(&receivers->sleeping) == 0 && atomic_load(&receivers->doorbell) == 1);
}

/* Both ends skip invalid entries and process those after them. */
Test(lane, hostile_entries)
{
    static const struct {
        uint32_t put, kind;
        uint64_t position, length;
    } entries[] = {
        {1, 0, 0, 100},
        {1, 3, 0, 100},
        {1, UINT32_MAX, 0, 100},
        {1, LANE_STAGED, SIZE + 1, 0},
        {1, LANE_STAGED, SIZE, 1},
        {1, LANE_STAGED, 0, LANE_SLOT_BYTES + 1},
        {1, LANE_STAGED, 1, UINT64_MAX},
        {1, LANE_STAGED, UINT64_MAX, 1},
        {1, LANE_STAGED, UINT64_MAX, UINT64_MAX},
        {1, LANE_DIRECT, 1, SIZE},
        {1, LANE_DIRECT, SIZE, UINT64_MAX},
        {1, LANE_DIRECT, UINT64_MAX - 99, 100},
        {1, LANE_DIRECT, 0, 0},
        {1, LANE_DIRECT, SIZE, 0},
        {0, LANE_DIRECT, 0, SIZE},
        {LANE_PUTS_MAX, LANE_DIRECT, 0, SIZE},
        {(uint32_t)-1, LANE_DIRECT, 0, SIZE},
        {1u << 31 | 1, LANE_DIRECT, 0, SIZE},
    };
    struct lane_put ours = put_of(1), theirs = put_of(1);
    cr_assert(lane_add(&sender, &ours) == 0 && lane_add(&receiver, &theirs) == 0);
    lane_skip(&receiver, LANE_PUTS_MAX); /* the others are older than 1 */
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
        lane_publish(&sender, entries[i].put, (enum lane_kind)entries[i].kind, entries[i].position,
                     entries[i].length);
        cr_assert(lane_drain_one(i % 2 ? &sender : &receiver) == 1, "entry %zu", i);
        cr_assert(untouched(0, SIZE), "entry %zu", i);
    }
    lane_publish(&sender, 4000000, LANE_DIRECT, 0,
                 SIZE); /* the sender knows that it has not published such a put */
    cr_assert(lane_drain_one(&receiver) == -ENOENT && lane_drain_one(&sender) == 1);
    stage(1, 100, 100);
    cr_assert(lane_drain(&receiver) == 0 && landed(100, 100) && untouched(0, 100));
}

/* Random content of the segment: every call returns, and only the target is written. */
Test(lane, random_segments)
{
    struct lane_put ours = put_of(1), theirs = put_of(1);
    uint32_t dice = 99;
    cr_assert(lane_add(&sender, &ours) == 0 && lane_add(&receiver, &theirs) == 0);
    for (unsigned round = 0; round < 20000; round++) {
        uint64_t head = next_random(&dice) % 4
                            ? next_random(&dice) % 16
                            : (uint64_t)next_random(&dice) << 32 | next_random(&dice);
        atomic_store(&segment->head, head);
        atomic_store(&segment->drainer, next_random(&dice) % 8 == 0);
        for (unsigned i = 0; i < LANE_ENTRIES; i++) {
            struct lane_entry *entry = &segment->entries[i];
            entry->sequence =
                next_random(&dice) % 3 ? head + next_random(&dice) % 10 : next_random(&dice);
            entry->put = next_random(&dice) % 4 ? 1 : next_random(&dice);
            entry->kind = next_random(&dice) % 4;
            entry->position_bytes = next_random(&dice) % 2 ? next_random(&dice) % (SIZE + 2)
                                                           : (uint64_t)next_random(&dice) << 33;
            entry->length_bytes = next_random(&dice) % 2 ? next_random(&dice) % (SIZE + 2)
                                                         : -(uint64_t)next_random(&dice);
        }
        struct lane *lane = next_random(&dice) % 2 ? &sender : &receiver;
        int r = lane_drain(lane);
        cr_assert(r == 0 || r == -EAGAIN || (lane == &receiver && r == -ENOENT), "%d", r);
        cr_assert(lane_backlog(&sender) <= LANE_ENTRIES);
        cr_assert(lane_published(&receiver) - receiver.next <= LANE_ENTRIES);
        lane_pending(&receiver);
        if (lane_has_room(&sender))
            stage(1, 0, 8);
    }
}
