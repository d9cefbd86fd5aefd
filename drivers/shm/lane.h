/*
 * One end of a lane (proto/lane.h): what the sender publishes in, and what both drain. One thread
 * at a time.
 */
#pragma once

#include <stdbool.h>

#include "drivers/copy/copy.h"
#include "drivers/shm/attached.h"
#include "proto/lane.h"

/* A put that may be in the lane, as this end has it. The owner keeps it, and the memory and the
 * program that it points to, until lane_remove(). */
struct lane_put {
    uint32_t id;
    uint64_t size_bytes;
    const struct copy_program *program; /* NULL: it cannot be done at this end */
    uint8_t *target;                    /* bases of the layouts */
    const uint8_t *source;              /* NULL: not mapped here, nothing is copied from there */
    const struct attached *attached;    /* NULL, or what `target` is in: it is not mapped here */
};

struct lane {
    struct lane_segment *segment;
    struct notify_segment *receiver; /* sender: the receiver's, for `strict`, and to wake it */
    enum lane_drainer self;
    uint32_t put_room;
    struct lane_put **puts; /* by place */
    uint32_t newest;        /* the youngest id that was ever added */
    uint64_t next; /* the entry that this end publishes (sender) or looks for (receiver) next */
    uint64_t head; /* sender: as it was last seen */
    /* sender: how far the receiver is, in ns: what a store takes to a line that it has read */
    uint32_t distance_ns;
    uint32_t probed_ns; /* the last measurement */
    uint32_t probe_in;  /* starts until the next */
};

void lane_init(struct lane *lane, struct lane_segment *segment, enum lane_drainer self);
void lane_deinit(struct lane *lane);

/* 0, -EINVAL (an id that no daemon gives), -EEXIST, -ENOMEM. */
int lane_add(struct lane *lane, struct lane_put *put);
void lane_remove(struct lane *lane, const struct lane_put *put);
/* Receiver: what comes of this put, which will not be added, is passed over. */
void lane_skip(struct lane *lane, uint32_t id);

/* Does what was published and not done yet, at most a lane full. 0: nothing is left; -EAGAIN: the
 * other end is at it, or more came meanwhile; -ENXIO: a put that cannot be done here. Receiver:
 * -ENOENT: a put that was not added yet (entries of puts that were removed are passed over). */
int lane_drain(struct lane *lane);
/* One entry of it: 1 done, 0 there was none, or as above. */
int lane_drain_one(struct lane *lane);

/* Receiver: the sender has ended, perhaps in the middle of an entry. */
void lane_take_over(struct lane *lane);

/* Receiver: the entry after the last that is published. */
uint64_t lane_published(const struct lane *lane);

/* Whether this entry, or one that came to its place later, is published. */
static inline bool lane_holds(const struct lane *lane, uint64_t number)
{
    const struct lane_entry *entry = &lane->segment->entries[number % LANE_ENTRIES];
    /* acquire: pairs with lane_publish()'s release; signed, for the sender may have drained entries
     * itself */
    return (int64_t)(atomic_load_explicit(&entry->sequence, memory_order_acquire) - number - 1) >=
           0;
}

/* Receiver: whether there may be something to drain. */
static inline bool lane_pending(const struct lane *lane)
{
    return lane_holds(lane, lane->next);
}

/* Sender: how many entries are published and not done. A receiver that writes nonsense makes it 0:
 * it spoils its own data. */
static inline uint64_t lane_backlog(struct lane *lane)
{
    /* acquire: pairs with the drainer's release: it has read the source, or the slot */
    lane->head = atomic_load_explicit(&lane->segment->head, memory_order_acquire);
    uint64_t backlog = lane->next - lane->head;
    return backlog <= LANE_ENTRIES ? backlog : 0;
}

/* Sender: whether another entry can be published without looking at the receiver's line. */
static inline bool lane_has_room(struct lane *lane)
{
    return lane->next - lane->head < LANE_ENTRIES || lane_backlog(lane) < LANE_ENTRIES;
}

/* Sender: the slot of the entry to be published next (there is room). */
static inline uint8_t *lane_slot(const struct lane *lane)
{
    return lane->segment->slots[lane->next % LANE_ENTRIES];
}

/* Sender: measures the distance. The line of the entry to be published next is the one that a
 * waiting receiver reads. */
void lane_probe(struct lane *lane);

/* Sender: before a start of so many bytes; measures now and then. */
static inline void lane_age_probe(struct lane *lane, uint64_t bytes)
{
    uint64_t age = 1 + bytes / 2048;
    if (lane->probe_in >= age)
        lane->probe_in -= (uint32_t)age;
    else
        lane_probe(lane);
}

static inline void lane_publish(struct lane *lane, uint32_t put, enum lane_kind kind,
                                uint64_t position_bytes, uint64_t length_bytes)
{
    struct lane_entry *entry = &lane->segment->entries[lane->next % LANE_ENTRIES];
    atomic_store_explicit(&entry->put, put, memory_order_relaxed);
    atomic_store_explicit(&entry->kind, kind, memory_order_relaxed);
    atomic_store_explicit(&entry->position_bytes, position_bytes, memory_order_relaxed);
    atomic_store_explicit(&entry->length_bytes, length_bytes, memory_order_relaxed);
    /* release: the slot and the entry before its number; pairs with the acquires of lane_pending()
     * and the drainer */
    atomic_store_explicit(&entry->sequence, ++lane->next, memory_order_release);
}
