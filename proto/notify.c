#include "proto/notify.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Without FUTEX_PRIVATE_FLAG: several processes map the words. */

void futex_wake_all(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

int futex_wait(_Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns)
{
    struct timespec timeout = {.tv_sec = timeout_ns / 1000000000,
                               .tv_nsec = timeout_ns % 1000000000};
    if (syscall(SYS_futex, word, FUTEX_WAIT, expected, timeout_ns < 0 ? NULL : &timeout, NULL, 0) <
        0)
        return -errno;
    return 0;
}

void notify_wake_slow(struct notify_segment *segment)
{
    if (atomic_exchange_explicit(&segment->sleeping, 0, memory_order_acq_rel) == 0)
        return; /* another process wakes the owner */
    /* release: pairs with notify_prepare_sleep's acquire */
    atomic_fetch_add_explicit(&segment->doorbell, 1, memory_order_release);
    futex_wake_all(&segment->doorbell);
}

/* All accesses are sequentially consistent. The word of words is looked at whether or not this was
 * the first bit of its word: whoever has set that bit may never come to set this one. */
static void mark(struct notify_marks *marks, size_t number)
{
    const size_t word = number / NOTIFY_MARK_BITS;
    const uint64_t word_bit = UINT64_C(1) << word % NOTIFY_MARK_BITS;
    _Atomic uint64_t *words = &marks->words[word / NOTIFY_MARK_BITS];
    atomic_fetch_or(&marks->lines[word], UINT64_C(1) << number % NOTIFY_MARK_BITS);
    if (!(atomic_load(words) & word_bit))
        atomic_fetch_or(words, word_bit);
}

void notify_mark(struct notify_segment *segment, const struct notify_line *line, uint32_t watched)
{
    const size_t number = (size_t)(line - segment->lines);
    for (enum notify_watcher watcher = 0; watcher < NOTIFY_WATCHERS; watcher++)
        if (watched & 1u << watcher)
            mark(notify_marks(segment, watcher), number);
}

int notify_sleep(struct notify_segment *segment, uint32_t doorbell, int64_t timeout_ns)
{
    int r = futex_wait(&segment->doorbell, doorbell, timeout_ns);
    notify_cancel_sleep(segment);
    return r == -EAGAIN ? 0 : r;
}
