/* Queues of notified lines: against a look at all lines, with memory that a peer has overwritten,
 * and with threads that raise lines while the owner begins to watch, takes and sleeps. */
#include "client/core/watch.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "proto/notify.h"
#include "tests/unit/proto/random.h"

enum { RANKS = 4096, SLOTS = 5, LINES = 9000, STEPS = 40000, THREADS = 4, RAISES = 20000 };
#define LOST_NS INT64_C(10000000000)

static struct notify_segment *segment;
static struct watches watches;

static void set_up(void)
{
    void *memory = mmap(NULL, NOTIFY_SEGMENT_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    cr_assert(memory != MAP_FAILED);
    segment = memory;
}

static void tear_down(void)
{
    watches_end(&watches);
    munmap(segment, NOTIFY_SEGMENT_BYTES);
}

TestSuite(watch, .init = set_up, .fini = tear_down);

static uint64_t left(uint32_t line)
{
    return notify_arrived(notify_line_at(segment, line)) - *notify_taken_at(segment, line);
}

static void add_line(uint32_t rank, uint32_t slot)
{
    notify_line_at(segment, segment->line_count)->key = notify_key(rank, slot);
    segment->line_count++;
}

static void raise_line(uint32_t line)
{
    notify_raise_routed(notify_line_at(segment, line), 1, 0);
    notify_tell(segment, notify_line_at(segment, line));
}

static struct watch *watch_slot(uint32_t slot)
{
    struct watch *watch;
    cr_assert_eq(watches_find(&watches, segment, slot, &watch), 0);
    return watch;
}

/* All that a wait for the slot finds: each line once, with all that has arrived. */
static uint32_t take_all(uint32_t slot)
{
    struct watch *watch = watch_slot(slot);
    uint32_t found = 0;
    cr_assert_eq(watches_update(&watches, segment), 0);
    while (watch->queued > 0) {
        const uint32_t line = watch_take(&watches, watch);
        cr_assert_eq(watches.lines[line].slot, slot);
        if (left(line) > 0)
            found++;
        *notify_taken_at(segment, line) = notify_arrived(notify_line_at(segment, line));
    }
    return found;
}

static uint32_t look_at_all(uint32_t slot)
{
    uint32_t found = 0;
    for (uint32_t line = 0; line < segment->line_count; line++)
        if ((uint32_t)segment->lines[line].key == slot && left(line) > 0)
            found++;
    return found;
}

Test(watch, finds_what_a_look_at_all_lines_finds)
{
    struct random random = {20261127};
    for (uint32_t step = 0; step < STEPS; step++) {
        const uint32_t slot = (uint32_t)random_below(&random, SLOTS);
        const uint64_t what = random_below(&random, 200);
        if (segment->line_count < LINES && what < 60)
            add_line((uint32_t)random_below(&random, RANKS), slot);
        else if (what < 199 && segment->line_count > 0)
            raise_line((uint32_t)random_below(&random, segment->line_count));
        else {
            const uint32_t expected = look_at_all(slot);
            cr_assert_eq(take_all(slot), expected);
        }
    }
}

Test(watch, looks_only_at_lines_that_were_raised)
{
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        add_line(rank, 7);
        add_line(rank, 8);
    }
    take_all(7);
    raise_line(1); /* slot 8 */
    cr_assert_eq(notify_marks(segment, NOTIFY_OWNER)->words[0], 0,
                 "a line that is not watched was marked");
    for (uint32_t round = 0; round < 100; round++) {
        raise_line(2 * round);
        raise_line(2 * round);
        raise_line(4000 + 2 * round);
        raise_line(2 * round + 1);
        cr_assert_eq(watches_update(&watches, segment), 0);
        cr_assert_eq(watch_slot(7)->queued, 2);
        cr_assert_eq(take_all(7), 2);
    }
    cr_assert_eq(watch_slot(8)->queued, RANKS);
}

Test(watch, gives_turns)
{
    add_line(3, 1);
    add_line(5, 1);
    struct watch *watch = watch_slot(1);
    for (uint32_t i = 0; i < 3; i++)
        raise_line(0);
    raise_line(1);
    cr_assert_eq(watches_update(&watches, segment), 0);
    cr_assert_eq(watch_take(&watches, watch), 0);
    watch_queue(&watches, 0);
    watch_queue(&watches, 0);
    cr_assert_eq(watch->queued, 2);
    cr_assert_eq(watch_take(&watches, watch), 1);
    cr_assert_eq(watch_take(&watches, watch), 0);
    cr_assert_eq(watch->queued, 0);
}

Test(watch, is_not_harmed_by_its_peers)
{
    for (uint32_t line = 0; line < 100; line++)
        add_line(line, line % 3);
    take_all(1);
    memset(notify_marks(segment, NOTIFY_OWNER), 0xff, sizeof(struct notify_marks));
    for (uint32_t line = 0; line < 100; line++)
        segment->lines[line].key = ~segment->lines[line].key;
    cr_assert_eq(take_all(1), 0);
    raise_line(1);
    cr_assert_eq(take_all(1), 1);
    segment->line_count = UINT32_MAX;
    cr_assert_eq(take_all(1), 0);
    segment->line_count = 3; /* fewer than before */
    raise_line(4);
    cr_assert_eq(take_all(1), 1);
}

static void *raiser(void *context)
{
    const uint32_t line = *(const uint32_t *)context;
    for (uint32_t i = 0; i < RAISES; i++)
        raise_line(line);
    return NULL;
}

static uint64_t take_some(struct watch *watch)
{
    uint64_t sum = 0;
    cr_assert_eq(watches_update(&watches, segment), 0);
    for (uint32_t i = watch->queued; i > 0; i--) {
        const uint32_t line = watch_take(&watches, watch);
        const uint64_t some = left(line);
        *notify_taken_at(segment, line) += some;
        sum += some;
    }
    return sum;
}

Test(watch, loses_nothing_that_threads_raise, .timeout = 300)
{
    pthread_t threads[THREADS];
    uint32_t lines[THREADS];
    uint64_t sum = 0;
    for (uint32_t i = 0; i < 4096; i++)
        add_line(i, 9);
    for (uint32_t i = 0; i < THREADS; i++) {
        lines[i] = i * 45; /* some of a word, and others */
        cr_assert_eq(pthread_create(&threads[i], NULL, raiser, &lines[i]), 0);
    }
    struct watch *watch = watch_slot(9);
    while (sum < (uint64_t)THREADS * RAISES) {
        uint64_t some = take_some(watch);
        if (some == 0) {
            const uint32_t doorbell = notify_prepare_sleep(segment);
            if ((some = take_some(watch)) > 0)
                notify_cancel_sleep(segment);
            else if (notify_sleep(segment, doorbell, LOST_NS) == -ETIMEDOUT)
                cr_assert_eq(take_some(watch), 0, "a wake-up was lost");
        }
        sum += some;
    }
    for (uint32_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    cr_assert_eq(sum, (uint64_t)THREADS * RAISES);
}
