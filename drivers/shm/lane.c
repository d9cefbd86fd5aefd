#include "drivers/shm/lane.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/notify.h"
#include "proto/wait.h"

enum {
    PROBE_EVERY = 32, /* starts, or twice as many KiB: a probe takes as long as a start of some
                         hundred bytes */
    PROBE_MOST_NS = 1000,
};

void lane_init(struct lane *lane, struct lane_segment *segment, enum lane_drainer self)
{
    *lane = (struct lane){.segment = segment, .self = self};
    if (self == LANE_RECEIVER) /* it may meet a lane that is in use: its process, or the library, is
                                  new there */
        lane->next = atomic_load_explicit(&segment->head, memory_order_relaxed);
}

void lane_deinit(struct lane *lane)
{
    free(lane->puts);
    lane->puts = NULL;
    lane->put_room = 0;
}

int lane_add(struct lane *lane, struct lane_put *put)
{
    uint32_t place = put->id % LANE_PUTS_MAX;
    if (put->id == 0)
        return -EINVAL;
    if (place >= lane->put_room) {
        uint32_t room = lane->put_room ? lane->put_room : 8;
        while (room <= place)
            room *= 2;
        struct lane_put **puts = reallocarray(lane->puts, room, sizeof *puts);
        if (!puts)
            return -ENOMEM;
        memset(puts + lane->put_room, 0, (room - lane->put_room) * sizeof *puts);
        lane->puts = puts;
        lane->put_room = room;
    }
    if (lane->puts[place])
        return -EEXIST;
    lane->puts[place] = put;
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
    uint32_t place = put->id % LANE_PUTS_MAX;
    if (place < lane->put_room && lane->puts[place] == put)
        lane->puts[place] = NULL;
}

/* A store to a line that another processor has read last waits for it, some 7 ns near and 35 far;
 * where that one has written it since, they go on side by side: 1.5 ns near. So the receiver writes
 * to each line of a slot that it has read, before the sender does again. */
static void take_lines(uint8_t *slot, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i += LINE_BYTES)
        slot[i] = 0;
}

/* Does the work of an entry, each field of which is read once. What is wrong in itself is passed
 * over; so is, by a sender, what it does not know: somebody else has written it. */
static int land(const struct lane *lane, const struct lane_entry *entry, uint8_t *slot)
{
    uint32_t id = atomic_load_explicit(&entry->put, memory_order_relaxed);
    uint32_t kind = atomic_load_explicit(&entry->kind, memory_order_relaxed);
    uint64_t position = atomic_load_explicit(&entry->position_bytes, memory_order_relaxed);
    uint64_t length = atomic_load_explicit(&entry->length_bytes, memory_order_relaxed);
    uint32_t place = id % LANE_PUTS_MAX;
    const struct lane_put *put = place < lane->put_room ? lane->puts[place] : NULL;
    if (!put || put->id != id)
        return lane->self == LANE_RECEIVER && (int32_t)(id - lane->newest) > 0 ? -ENOENT : 0;
    if (!put->program)
        return -ENXIO;
    if (position > put->size_bytes || length > put->size_bytes - position)
        return 0;
    if (kind == LANE_STAGED && length <= LANE_SLOT_BYTES && put->attached)
        return attached_write(put->attached, position, slot, length);
    if (put->attached || (kind == LANE_DIRECT && !put->source))
        return 0;
    if (kind == LANE_DIRECT) {
        copy_program_run(put->program, put->target, put->source, position, length);
    } else if (kind == LANE_STAGED && length <= LANE_SLOT_BYTES) {
        copy_program_unpack(put->program, put->target, slot, position, length);
        if (lane->self == LANE_RECEIVER)
            take_lines(slot, length);
    }
    return 0;
}

int lane_drain_one(struct lane *lane)
{
    struct lane_segment *segment = lane->segment;
    uint32_t nobody = LANE_NOBODY;
    /* acquire: what the last drainer has written */
    if (!atomic_compare_exchange_strong_explicit(&segment->drainer, &nobody, (uint32_t)lane->self,
                                                 memory_order_acquire, memory_order_relaxed))
        return -EAGAIN;
    uint64_t head =
        atomic_load_explicit(&segment->head, memory_order_relaxed); /* the lock orders it */
    const struct lane_entry *shared = &segment->entries[head % LANE_ENTRIES];
    int r = 0;
    if (atomic_load_explicit(&shared->sequence, memory_order_acquire) ==
        head + 1) { /* as in lane_holds() */
        r = land(lane, shared, segment->slots[head % LANE_ENTRIES]);
        if (r == 0) {
            /* release: pairs with lane_backlog() */
            atomic_store_explicit(&segment->head, ++head, memory_order_release);
            r = 1;
        }
    }
    if (lane->self == LANE_RECEIVER)
        lane->next = head;
    atomic_store_explicit(&segment->drainer, LANE_NOBODY, memory_order_release);
    if (lane->self == LANE_SENDER)
        notify_wake(lane->receiver); /* it may have found us at work, and have gone to sleep */
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
    return -EAGAIN; /* a sender that is as fast as we are: others have their turn first */
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
    /* What we stored before is on its way, past the caches even: it must not be measured. */
    atomic_thread_fence(memory_order_seq_cst);
    uint64_t before_ns = clock_now_ns();
    /* A locked instruction waits for the line; what it stores is what is there. */
    atomic_fetch_add_explicit(&entry->sequence, 0, memory_order_acq_rel);
    uint64_t took_ns = clock_now_ns() - before_ns;
    uint64_t clock_ns = clock_now_ns();
    clock_ns = clock_now_ns() - clock_ns;
    took_ns = took_ns > clock_ns ? took_ns - clock_ns : 0;
    if (took_ns > PROBE_MOST_NS)
        took_ns = PROBE_MOST_NS; /* somebody else had the processor */
    /* What is seen once only is an interrupt. */
    uint32_t likely_ns = took_ns < lane->probed_ns ? (uint32_t)took_ns : lane->probed_ns;
    lane->probed_ns = (uint32_t)took_ns;
    lane->distance_ns = (lane->distance_ns + likely_ns) / 2;
    lane->probe_in = PROBE_EVERY;
}
