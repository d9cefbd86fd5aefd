#include "drivers/shm/lane.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/notify.h"
#include "proto/wait.h"

enum {
    PROBE_EVERY =
        32, /* starts, or 64 KiB; a probe costs as much as a start of some hundred bytes */
    PROBE_MOST_NS = 1000,
};

void lane_init(struct lane *lane, struct lane_segment *segment, enum lane_drainer self)
{
    *lane = (struct lane){.segment = segment, .self = self};
    if (self == LANE_RECEIVER)
        /* The lane may already be in use. acquire: pairs with lane_drain_one(): what the sender has
         * drained alone is visible, because there is nothing left to drain */
        lane->next = atomic_load_explicit(&segment->head, memory_order_acquire);
}

void lane_deinit(struct lane *lane)
{
    free(lane->puts);
    lane->puts = NULL;
    lane->put_room = 0;
}

int lane_add(struct lane *lane, struct lane_put *put)
{
    uint32_t index = put->id % LANE_PUTS_MAX;
    if (put->id == 0)
        return -EINVAL;
    if (index >= lane->put_room) {
        uint32_t room = lane->put_room ? lane->put_room : 8;
        while (room <= index)
            room *= 2;
        struct lane_put **puts = reallocarray(lane->puts, room, sizeof(*puts));
        if (!puts)
            return -ENOMEM;
        memset(puts + lane->put_room, 0, (room - lane->put_room) * sizeof(*puts));
        lane->puts = puts;
        lane->put_room = room;
    }
    if (lane->puts[index])
        return -EEXIST;
    lane->puts[index] = put;
    lane_skip(lane, put->id);
    return 0;
}

void lane_skip(struct lane *lane, uint32_t id)
{
    if ((int32_t)(id - lane->newest) > 0)
        lane->newest = id;
}

void lane_remove(struct lane *lane, const struct lane_put *put)
{
    uint32_t index = put->id % LANE_PUTS_MAX;
    if (index < lane->put_room && lane->puts[index] == put)
        lane->puts[index] = NULL;
}

/* A store to a line that another core has last read waits for that core: some 7 ns near, 35 ns far.
 * If that core has last written the line, such stores overlap: 1.5 ns near. So the receiver writes
 * to each line of a slot after reading it, before the sender stores to it again. */
static void own_lines(uint8_t *slot, uint64_t bytes)
{
    _Pragma("GCC unroll 4") for (uint64_t i = 0; i < bytes; i += LINE_BYTES) slot[i] = 0;
}

/* Processes an entry, whose fields it reads once each. Skips an invalid entry, and at the sender
 * one of an unknown put, which the sender cannot have published. */
static int process(const struct lane *lane, const struct lane_entry *entry, uint8_t *slot)
{
    uint32_t id = atomic_load_explicit(&entry->put, memory_order_relaxed);
    uint32_t kind = atomic_load_explicit(&entry->kind, memory_order_relaxed);
    uint64_t position = atomic_load_explicit(&entry->position_bytes, memory_order_relaxed);
    uint64_t length = atomic_load_explicit(&entry->length_bytes, memory_order_relaxed);
    uint32_t index = id % LANE_PUTS_MAX;
    const struct lane_put *put = index < lane->put_room ? lane->puts[index] : NULL;
    if (!put || put->id != id)
        return lane->self == LANE_RECEIVER && (int32_t)(id - lane->newest) > 0 ? -ENOENT : 0;
    if (!put->program)
        return -ENXIO;
    if (position > put->size_bytes || length > put->size_bytes - position)
        return 0;
    if (kind == LANE_DIRECT) {
        copy_program_run(put->program, put->target, put->source, position, length);
    } else if (kind == LANE_STAGED && length <= LANE_SLOT_BYTES) {
        copy_program_unpack(put->program, put->target, slot, position, length);
        if (lane->self == LANE_RECEIVER)
            own_lines(slot, length);
    }
    return 0;
}

int lane_drain_one(struct lane *lane)
{
    struct lane_segment *segment = lane->segment;
    uint32_t nobody = LANE_NOBODY;
    /* acquire: pairs with the last drainer's release */
    if (!atomic_compare_exchange_strong_explicit(&segment->drainer, &nobody, (uint32_t)lane->self,
                                                 memory_order_acquire, memory_order_relaxed))
        return -EAGAIN;
    uint64_t head =
        atomic_load_explicit(&segment->head, memory_order_relaxed); /* ordered by the lock */
    const struct lane_entry *shared = &segment->entries[head % LANE_ENTRIES];
    int r = 0;
    if (atomic_load_explicit(&shared->sequence, memory_order_acquire) ==
        head + 1) { /* pairs with lane_publish() */
        r = process(lane, shared, segment->slots[head % LANE_ENTRIES]);
        if (r == 0) {
            /* release: pairs with lane_backlog() and lane_init() */
            atomic_store_explicit(&segment->head, ++head, memory_order_release);
            r = 1;
        }
    }
    if (lane->self == LANE_RECEIVER)
        lane->next = head;
    atomic_store_explicit(&segment->drainer, LANE_NOBODY, memory_order_release);
    if (lane->self == LANE_SENDER)
        notify_wake(lane->receiver); /* it may have found the lane locked and gone to sleep */
    return r;
}

int lane_drain(struct lane *lane)
{
    for (unsigned i = 0; i <= LANE_ENTRIES; i++) {
        int r = lane_drain_one(lane);
        if (r <= 0)
            return r;
        if (lane->self == LANE_RECEIVER && !lane_pending(lane))
            return 0;
    }
    return -EAGAIN; /* the sender keeps up with us: let the caller serve others */
}

void lane_take_over(struct lane *lane)
{
    uint32_t sender = LANE_SENDER;
    atomic_compare_exchange_strong_explicit(&lane->segment->drainer, &sender, LANE_NOBODY,
                                            memory_order_acq_rel, memory_order_relaxed);
}

uint64_t lane_published(const struct lane *lane)
{
    uint64_t number = lane->next;
    while (number - lane->next < LANE_ENTRIES && lane_holds(lane, number))
        number++;
    return number;
}

void lane_probe(struct lane *lane)
{
    struct lane_entry *entry = &lane->segment->entries[lane->next % LANE_ENTRIES];
    /* Wait for earlier stores, including streaming stores, which would distort the measurement. */
    atomic_thread_fence(memory_order_seq_cst);
    uint64_t before_ns = clock_now_ns();
    /* A locked instruction waits for the line; adding 0 leaves its value unchanged. */
    atomic_fetch_add_explicit(&entry->sequence, 0, memory_order_acq_rel);
    uint64_t took_ns = clock_now_ns() - before_ns;
    uint64_t clock_ns = clock_now_ns();
    clock_ns = clock_now_ns() - clock_ns;
    took_ns = took_ns > clock_ns ? took_ns - clock_ns : 0;
    if (took_ns > PROBE_MOST_NS)
        took_ns = PROBE_MOST_NS; /* this thread was preempted */
    /* The lower of two consecutive measurements, because one may contain an interrupt. */
    uint32_t likely_ns = took_ns < lane->probed_ns ? (uint32_t)took_ns : lane->probed_ns;
    lane->probed_ns = (uint32_t)took_ns;
    lane->distance_ns = (lane->distance_ns + likely_ns) / 2;
    lane->probe_in = PROBE_EVERY;
}
