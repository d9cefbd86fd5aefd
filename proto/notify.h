/* Raises, reads and consumes notification counters, and wakes their owner. segment.h describes the
 * shared words and their rules. */
#pragma once

#include <stdbool.h>

#include "proto/segment.h"

/* futex(2) on a word in shared memory. */
void futex_wake_all(_Atomic uint32_t *word);
/* Waits while *word == expected, at most timeout_ns (< 0: forever). Returns 0, -EAGAIN (*word
 * differed), -ETIMEDOUT or -EINTR. */
int futex_wait(_Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns);

/* Wakes the owner if it sleeps. The caller has already stored what the owner waits for. Costs a
 * fence and one load if the owner is awake. */
void notify_wake_slow(struct notify_segment *segment);
static inline void notify_wake(struct notify_segment *segment)
{
    atomic_thread_fence(memory_order_seq_cst); /* pairs with notify_prepare_sleep() */
    if (__builtin_expect(atomic_load_explicit(&segment->sleeping, memory_order_relaxed) != 0, 0))
        notify_wake_slow(segment);
}

/* From now on, whoever raises the line marks it for this watcher, who then looks at it once. */
static inline void notify_watch(struct notify_line *line, enum notify_watcher watcher)
{
    atomic_fetch_or(&line->watched, 1u << watcher);
    atomic_thread_fence(memory_order_seq_cst); /* pairs with notify_tell() */
}

/* Marks a line for its watchers (struct notify_marks). */
void notify_mark(struct notify_segment *segment, const struct notify_line *line, uint32_t watched);

/* After a line of the segment has been raised: tells its owner. The loads of `sleeping` and, by the
 * caller, of engine_armed are sequentially consistent: no mark may follow them. */
static inline void notify_tell(struct notify_segment *segment, const struct notify_line *line)
{
    atomic_thread_fence(memory_order_seq_cst); /* pairs with notify_watch() and prepare_sleep() */
    const uint32_t watched = atomic_load_explicit(&line->watched, memory_order_relaxed);
    if (__builtin_expect(watched != 0, 0))
        notify_mark(segment, line, watched);
    if (__builtin_expect(atomic_load(&segment->sleeping) != 0, 0))
        notify_wake_slow(segment);
}

/* As notify_wake(), for a completion. */
static inline void notify_wake_completed(struct notify_segment *segment)
{
    atomic_thread_fence(memory_order_seq_cst); /* pairs with notify_prepare_sleep() */
    if (__builtin_expect(
            atomic_load_explicit(&segment->sleeping, memory_order_relaxed) == NOTIFY_SLEEPS, 0))
        notify_wake_slow(segment);
}

/* Raises a counter from the notifying process itself. `value` is the total number of notifications
 * that it has sent on this line. */
static inline void notify_raise_direct(struct notify_line *line, uint64_t value, uint64_t landing)
{
    atomic_store_explicit(&line->landing, landing, memory_order_relaxed);
    /* release: pairs with notify_arrived's acquire; the data is visible before its notification */
    atomic_store_explicit(&line->direct, value, memory_order_release);
}

/* Raises a counter from the owner's daemon. */
static inline void notify_raise_routed(struct notify_line *line, uint64_t count, uint64_t now_ns)
{
    atomic_store_explicit(&line->arrived_ns, now_ns, memory_order_relaxed);
    atomic_fetch_add_explicit(&line->routed, count, memory_order_release);
}

/* Counters in memory, to which several processes add (tca-signal.h). */
static inline void counter_add(_Atomic uint64_t *counter, uint64_t value)
{
    /* release: what was put before is visible to those who read the sum; pairs with
     * counter_value() */
    atomic_fetch_add_explicit(counter, value, memory_order_release);
}

static inline uint64_t counter_value(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_acquire);
}

/* Subtracts `value` if the counter has as much. */
static inline bool counter_take(_Atomic uint64_t *counter, uint64_t value)
{
    uint64_t before = counter_value(counter);
    do {
        if (before < value)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(counter, &before, before - value,
                                                    memory_order_acq_rel, memory_order_acquire));
    return true;
}

/* What a put raises where it lands: the token of its landing. */
struct notify_target {
    struct notify_segment *segment;
    struct notify_line *line; /* NULL: nothing */
    _Atomic uint64_t
        *counter; /* not NULL: a signal, which adds `signal` to this counter in memory; of
                                  the line it uses the marks only */
    uint64_t signal;
    uint64_t landing; /* the owner's address of the data, a hint for prefetching; 0: unknown */
};

/* Raises the target, and tells its owner; the caller then looks at engine_armed, unless it is the
 * engine. */
static inline void notify_raise_routed_at(const struct notify_target *target, uint64_t now_ns)
{
    if (target->counter) {
        counter_add(target->counter, target->signal);
    } else {
        if (target->landing)
            atomic_store_explicit(&target->line->landing, target->landing, memory_order_relaxed);
        notify_raise_routed(target->line, 1, now_ns);
    }
    notify_tell(target->segment, target->line);
}

/* The same from the process that alone stores the line's `direct`. */
static inline void notify_raise_direct_at(const struct notify_target *target)
{
    struct notify_line *line = target->line;
    if (__builtin_expect(target->counter != NULL, 0))
        counter_add(target->counter, target->signal);
    else
        notify_raise_direct(line, atomic_load_explicit(&line->direct, memory_order_relaxed) + 1,
                            target->landing);
    notify_tell(target->segment, line);
}

/* The number of notifications since the segment was created (wraps around). */
static inline uint64_t notify_arrived(const struct notify_line *line)
{
    /* acquire: pairs with the releases above */
    return atomic_load_explicit(&line->direct, memory_order_acquire) +
           atomic_load_explicit(&line->routed, memory_order_acquire);
}

#define NOTIFY_NO_LINE UINT32_MAX

/* Spreads keys that differ little. */
static inline uint64_t notify_hash(uint64_t key)
{
    key = (key ^ key >> 33) * 0xff51afd7ed558ccdu;
    key = (key ^ key >> 33) * 0xc4ceb9fe1a85ec53u;
    return key ^ key >> 33;
}

/* The line of (rank, slot), or NOTIFY_NO_LINE: nobody can have notified it yet. For the owner,
 * whose peers can write the table: whatever they have written, the line is below
 * NOTIFY_LINES_MAX. */
static inline uint32_t notify_find(const struct notify_segment *segment, uint32_t rank,
                                   uint32_t slot)
{
    /* acquire: pairs with the daemon's releases, also that of each line below */
    const uint32_t bits = atomic_load_explicit(&segment->table_bits, memory_order_acquire);
    if (bits < NOTIFY_TABLE_BITS_MIN || bits > NOTIFY_TABLE_BITS_MAX)
        return NOTIFY_NO_LINE;
    const struct notify_place *table = notify_table(segment, bits);
    const uint64_t key = notify_key(rank, slot), hash = notify_hash(key);
    for (uint32_t i = 0; i < NOTIFY_PROBES_MAX; i++) {
        const struct notify_place *place = &table[(hash + i) & ((1u << bits) - 1)];
        const uint32_t line = atomic_load_explicit(&place->line, memory_order_acquire);
        if (line == 0)
            return NOTIFY_NO_LINE;
        if (atomic_load_explicit(&place->key, memory_order_relaxed) == key)
            return line <= NOTIFY_LINES_MAX ? line - 1 : NOTIFY_NO_LINE;
    }
    return NOTIFY_NO_LINE;
}

/* As notify_take(), without a locked instruction, for an owner that is the only consumer. */
static inline bool notify_take_alone(const struct notify_line *line, _Atomic uint64_t *taken,
                                     uint64_t count)
{
    uint64_t before = atomic_load_explicit(taken, memory_order_relaxed);
    if (notify_arrived(line) - before < count)
        return false;
    atomic_store_explicit(taken, before + count, memory_order_relaxed);
    return true;
}

/* Consumes `count` notifications if that many have arrived. Owner and engine may race: the
 * compare-exchange decides. */
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
 * How the owner sleeps; one thread at a time:
 *
 *     uint32_t doorbell = notify_prepare_sleep(segment);
 *     if (the condition holds)  // checks again: later changes wake us
 *         notify_cancel_sleep(segment);
 *     else
 *         notify_sleep(segment, doorbell, timeout_ns);
 */
static inline uint32_t notify_prepare_sleep_as(struct notify_segment *segment,
                                               enum notify_sleep how)
{
    /* acquire: read the doorbell before setting `sleeping`. A waker that clears `sleeping` bumps
     * the doorbell beyond the value read here, so futex_wait() returns at once. Otherwise we could
     * sleep with `sleeping` at 0, where nobody wakes us. */
    uint32_t doorbell = atomic_load_explicit(&segment->doorbell, memory_order_acquire);
    atomic_store_explicit(&segment->sleeping, how, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst); /* pairs with notify_wake() */
    return doorbell;
}

static inline uint32_t notify_prepare_sleep(struct notify_segment *segment)
{
    return notify_prepare_sleep_as(segment, NOTIFY_SLEEPS);
}

static inline void notify_cancel_sleep(struct notify_segment *segment)
{
    atomic_store_explicit(&segment->sleeping, NOTIFY_AWAKE, memory_order_relaxed);
}

/* Whether notify_prepare_sleep() still holds. If not, there is something to check. */
static inline bool notify_will_sleep(const struct notify_segment *segment)
{
    return atomic_load_explicit(&segment->sleeping, memory_order_relaxed) != NOTIFY_AWAKE;
}

/* Sleeps until the doorbell differs from what notify_prepare_sleep() returned, at most timeout_ns
 * (< 0: forever), then clears `sleeping`. Returns 0 (woken, perhaps spuriously: check again),
 * -ETIMEDOUT or -EINTR. */
int notify_sleep(struct notify_segment *segment, uint32_t doorbell, int64_t timeout_ns);
