#include "proto/notify.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <sys/mman.h>

static struct notify_segment *segment_new(void)
{
    void *memory =
        mmap(NULL, NOTIFY_SEGMENT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert(memory != MAP_FAILED);
    return memory;
}

static void segment_free(struct notify_segment *segment)
{
    munmap(segment, NOTIFY_SEGMENT_BYTES);
}

Test(notify, its_parts_do_not_overlap)
{
    struct notify_segment *s = segment_new();
    uint8_t *end = (uint8_t *)s + NOTIFY_SEGMENT_BYTES;
    cr_assert_eq((void *)notify_line_at(s, NOTIFY_LINES_MAX), (void *)notify_taken_at(s, 0));
    cr_assert((void *)notify_taken_at(s, NOTIFY_LINES_MAX) <=
              (void *)notify_marks(s, NOTIFY_OWNER));
    cr_assert((void *)(notify_marks(s, NOTIFY_ENGINE) + 1) <=
              (void *)notify_table(s, NOTIFY_TABLE_BITS_MIN));
    for (uint32_t bits = NOTIFY_TABLE_BITS_MIN; bits < NOTIFY_TABLE_BITS_MAX; bits++)
        cr_assert_eq(notify_table(s, bits) + (1u << bits), notify_table(s, bits + 1));
    cr_assert_eq((void *)(notify_table(s, NOTIFY_TABLE_BITS_MAX) + (1u << NOTIFY_TABLE_BITS_MAX)),
                 (void *)end);
    segment_free(s);
}

Test(notify, arrived_is_the_sum)
{
    struct notify_segment *s = segment_new();
    struct notify_line *line = notify_line_at(s, 5);
    notify_raise_direct(line, 1, 4096);
    notify_raise_direct(line, 2, 8192);
    notify_raise_routed(line, 3, 777);
    cr_assert_eq(notify_arrived(line), 5);
    cr_assert_eq(atomic_load(&line->landing), 8192);
    cr_assert_eq(atomic_load(&line->arrived_ns), 777);
    cr_assert_eq(notify_arrived(notify_line_at(s, 4)), 0);
    cr_assert_eq(notify_arrived(notify_line_at(s, 6)), 0);
    segment_free(s);
}

Test(notify, take_only_what_is_there)
{
    static const uint64_t starts[] = {0, 1000, UINT64_MAX - 2, UINT64_MAX};
    for (size_t i = 0; i < sizeof(starts) / sizeof(*starts); i++) {
        struct notify_segment *s = segment_new();
        struct notify_line *line = notify_line_at(s, 0);
        _Atomic uint64_t *taken = notify_taken_at(s, 0);
        atomic_store(&line->direct, starts[i]);
        atomic_store(taken, starts[i]);
        cr_assert_not(notify_take(line, taken, 1));
        notify_raise_direct(line, starts[i] + 2, 0);
        notify_raise_routed(line, 2, 0);
        cr_assert_not(notify_take(line, taken, 5));
        cr_assert(notify_take(line, taken, 3));
        cr_assert_not(notify_take(line, taken, 2));
        cr_assert(notify_take(line, taken, 1));
        cr_assert_not(notify_take(line, taken, 1));
        cr_assert_eq(atomic_load(taken), starts[i] + 4);
        segment_free(s);
    }
}

Test(notify, nobody_sleeps_nobody_rings)
{
    struct notify_segment *s = segment_new();
    notify_wake(s);
    notify_wake_slow(s);
    cr_assert_eq(atomic_load(&s->doorbell), 0);
    notify_prepare_sleep(s);
    notify_cancel_sleep(s);
    notify_wake(s);
    cr_assert_eq(atomic_load(&s->doorbell), 0);
    segment_free(s);
}

Test(notify, a_wake_between_prepare_and_sleep_is_not_missed)
{
    struct notify_segment *s = segment_new();
    atomic_store(&s->doorbell, UINT32_MAX);
    uint32_t doorbell = notify_prepare_sleep(s);
    cr_assert_eq(atomic_load(&s->sleeping), 1);
    notify_wake(s);
    notify_wake(s);
    cr_assert_eq(atomic_load(&s->doorbell), 0, "one of the two rang");
    cr_assert_eq(atomic_load(&s->sleeping), 0);
    cr_assert_eq(notify_sleep(s, doorbell, -1), 0); /* would sleep for ever */
    segment_free(s);
}

/* An owner that waits for notifications only sleeps through completions. */
Test(notify, completions_wake_those_who_wait_for_them)
{
    struct notify_segment *s = segment_new();
    uint32_t doorbell = notify_prepare_sleep_as(s, NOTIFY_SLEEPS_THROUGH);
    notify_wake_completed(s);
    cr_assert(atomic_load(&s->doorbell) == doorbell && notify_will_sleep(s));
    cr_assert_eq(notify_sleep(s, doorbell, 0), -ETIMEDOUT);
    doorbell = notify_prepare_sleep_as(s, NOTIFY_SLEEPS_THROUGH);
    notify_wake(s);
    cr_assert(atomic_load(&s->doorbell) == doorbell + 1 && !notify_will_sleep(s));
    doorbell = notify_prepare_sleep(s);
    notify_wake_completed(s);
    cr_assert(atomic_load(&s->doorbell) == doorbell + 1 && !notify_will_sleep(s));
    notify_wake_completed(s);
    cr_assert_eq(atomic_load(&s->doorbell), doorbell + 1, "nobody sleeps");
    segment_free(s);
}

Test(notify, times_out)
{
    struct notify_segment *s = segment_new();
    uint32_t doorbell = notify_prepare_sleep(s);
    cr_assert_eq(notify_sleep(s, doorbell, 1000000), -ETIMEDOUT);
    cr_assert_eq(atomic_load(&s->sleeping), 0, "nobody has to ring any more");
    doorbell = notify_prepare_sleep(s);
    cr_assert_eq(notify_sleep(s, doorbell, 0), -ETIMEDOUT);
    segment_free(s);
}

Test(notify, futex)
{
    _Atomic uint32_t word = 5;
    cr_assert_eq(futex_wait(&word, 4, -1), -EAGAIN);
    cr_assert_eq(futex_wait(&word, 5, 0), -ETIMEDOUT);
    cr_assert_eq(futex_wait(&word, 5, 1), -ETIMEDOUT);
    futex_wake_all(&word);
}
