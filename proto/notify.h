/* Notifications: how a counter is raised, seen and consumed, and how its owner is woken. The shared
 * words and their rules are in segment.h. */
#pragma once

#include <stdbool.h>

#include "proto/segment.h"

/* futex(2) on a word in shared memory. */
void futex_wake_all(_Atomic uint32_t *word);
/* Waits while *word is expected, at most timeout_ns (< 0: forever). 0, -EAGAIN (it was not),
 * -ETIMEDOUT, -EINTR. */
int futex_wait(_Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns);

/* Wakes the owner if it sleeps. The caller has stored what the owner looks for. One load when
 * nobody sleeps. */
void notify_wake_slow(struct notify_segment *segment);
static inline void notify_wake(struct notify_segment *segment)
{
    atomic_thread_fence(
        memory_order_seq_cst); /* our store before the load of `sleeping`: see segment.h */
    if (__builtin_expect(atomic_load_explicit(&segment->sleeping, memory_order_relaxed) != 0, 0))
        notify_wake_slow(segment);
}

/* The notifying process itself raises the counter; `value` is its private count of what it has sent
 * on this line. */
static inline void notify_raise_direct(struct notify_line *line, uint64_t value, uint64_t landing)
{
    atomic_store_explicit(&line->landing, landing, memory_order_relaxed);
    /* release: pairs with notify_arrived's acquire; the data is visible before its notification */
    atomic_store_explicit(&line->direct, value, memory_order_release);
}

/* The owner's daemon raises it. */
static inline void notify_raise_routed(struct notify_line *line, uint64_t count, uint64_t now_ns)
{
    atomic_store_explicit(&line->arrived_ns, now_ns, memory_order_relaxed);
    atomic_fetch_add_explicit(&line->routed, count, memory_order_release);
}

/* How many have arrived since the segment was made (wraps). */
static inline uint64_t notify_arrived(const struct notify_line *line)
{
    /* acquire: pairs with the releases above */
    return atomic_load_explicit(&line->direct, memory_order_acquire) +
           atomic_load_explicit(&line->routed, memory_order_acquire);
}

/* The same for an owner that knows that nobody else takes: without a locked instruction. */
static inline bool notify_take_alone(const struct notify_line *line, _Atomic uint64_t *taken,
                                     uint64_t count)
{
    uint64_t before = atomic_load_explicit(taken, memory_order_relaxed);
    if (notify_arrived(line) - before < count)
        return false;
    atomic_store_explicit(taken, before + count, memory_order_relaxed);
    return true;
}

/* Consumes `count` if that many are there. The owner and its engine may both try: the exchange
 * decides. */
static inline bool notify_take(const struct notify_line *line, _Atomic uint64_t *taken,
                               uint64_t count)
{
    uint64_t before = atomic_load_explicit(taken, memory_order_relaxed);
    do {
        if (notify_arrived(line) - before < count)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(taken, &before, before + count,
                                                    memory_order_acq_rel, memory_order_relaxed));
    return true;
}

/*
 * How the owner sleeps. One thread at a time:
 *
 *     uint32_t doorbell = notify_prepare_sleep(segment);
 *     if (what I wait for is there)                 // the second look: nothing that comes later is missed
 *         notify_cancel_sleep(segment);
 *     else
 *         notify_sleep(segment, doorbell, timeout_ns);
 */
static inline uint32_t notify_prepare_sleep(struct notify_segment *segment)
{
    /* acquire: the doorbell is read before `sleeping` is set. Whoever takes our 1 rings after this
     * value, so a wake-up that comes for something else than we look for cannot be slept through
     * with `sleeping` at 0. */
    uint32_t doorbell = atomic_load_explicit(&segment->doorbell, memory_order_acquire);
    atomic_store_explicit(&segment->sleeping, 1, memory_order_relaxed);
    atomic_thread_fence(
        memory_order_seq_cst); /* our store before the second look: pairs with notify_wake's */
    return doorbell;
}

static inline void notify_cancel_sleep(struct notify_segment *segment)
{
    atomic_store_explicit(&segment->sleeping, 0, memory_order_relaxed);
}

/* Sleeps until the doorbell differs from what notify_prepare_sleep() returned; afterwards nobody is
 * asleep any more. 0 (woken, perhaps for nothing: look again), -ETIMEDOUT, -EINTR. timeout_ns < 0:
 * forever. */
int notify_sleep(struct notify_segment *segment, uint32_t doorbell, int64_t timeout_ns);
