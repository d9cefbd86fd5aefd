/*
 * One end of a lane (proto/lane.h). The sender publishes entries, and both ends drain them. One
 * thread at a time.
 */
#pragma once

#include <stdbool.h>

#include "drivers/copy/copy.h"
#include "proto/lane.h"

/* A put that can be in the lane, as seen by this end. The caller owns it, and keeps it and what it
 * points to until lane_remove(). */
struct lane_put {
    uint32_t id;
    uint64_t size_bytes;
    const struct copy_program *program; /* NULL: this end cannot process it */
    uint8_t *target;                    /* bases of the layouts */
    const uint8_t *source;
};

struct lane {
    struct lane_segment *segment;
    struct notify_segment *receiver; /* sender: the receiver's, to read `strict` and to wake it */
    enum lane_drainer self;
    uint32_t put_room;
    struct lane_put **puts; /* by id % LANE_PUTS_MAX */
    uint32_t newest;        /* the newest id added or skipped */
    uint64_t next; /* number of the entry to publish (sender) or to expect (receiver) next */
    uint64_t head; /* sender: as last read */
    /* sender: distance to the receiver, measured as the time of a store to a line that it has
     * read */
    uint32_t distance_ns;
    uint32_t probed_ns; /* the last measurement */
    uint32_t probe_in;  /* starts until the next measurement */
    /* sender: called while it waits for the receiver; NULL: there is nothing else to do */
    void (*meanwhile)(void *context);
    void *context;
};

void lane_init(struct lane *lane, struct lane_segment *segment, enum lane_drainer self);
void lane_deinit(struct lane *lane);

/* Returns 0, -EINVAL (invalid id), -EEXIST or -ENOMEM. */
int lane_add(struct lane *lane, struct lane_put *put);
void lane_remove(struct lane *lane, const struct lane_put *put);
/* Receiver: skip the entries of this put, which will not be added. */
void lane_skip(struct lane *lane, uint32_t id);

/* Processes published entries, at most as many as the lane holds. Entries of removed puts are
 * skipped. Returns 0 (the lane is empty), -EAGAIN (the other end holds the lock, or entries keep
 * arriving), -ENXIO (a put that this end cannot process) or, at the receiver, -ENOENT (a put that
 * has not been added yet). */
int lane_drain(struct lane *lane);
/* Processes one entry. Returns 1, 0 (the lane is empty) or an error of lane_drain(). */
int lane_drain_one(struct lane *lane);

/* Receiver: releases the lock of a sender that has ended, perhaps while it processed an entry. */
void lane_take_over(struct lane *lane);

/* Receiver: the number after the last published entry. */
uint64_t lane_published(const struct lane *lane);

/* Whether this entry, or a later one in the same slot, has been published. */
static inline bool lane_holds(const struct lane *lane, uint64_t number)
{
    const struct lane_entry *entry = &lane->segment->entries[number % LANE_ENTRIES];
    /* acquire: pairs with lane_publish()'s release. Signed, because the sender may have drained
     * entries itself. */
    return (int64_t)(atomic_load_explicit(&entry->sequence, memory_order_acquire) - number - 1) >=
           0;
}

/* Receiver: whether there may be entries to drain. */
static inline bool lane_pending(const struct lane *lane)
{
    return lane_holds(lane, lane->next);
}

/* Sender: the number of published entries that have not been processed; 0 if a hostile receiver has
 * made it invalid, which harms only that receiver's data. */
static inline uint64_t lane_backlog(struct lane *lane)
{
    /* acquire: pairs with the drainer's release: it has finished reading the source or the slot */
    lane->head = atomic_load_explicit(&lane->segment->head, memory_order_acquire);
    uint64_t backlog = lane->next - lane->head;
    return backlog <= LANE_ENTRIES ? backlog : 0;
}

/* Sender: whether another entry can be published. Reads the shared line only if the lane appears
 * full. */
static inline bool lane_has_room(struct lane *lane)
{
    return lane->next - lane->head < LANE_ENTRIES || lane_backlog(lane) < LANE_ENTRIES;
}

/* Sender: the slot of the next entry. The lane must have room. */
static inline uint8_t *lane_slot(const struct lane *lane)
{
    return lane->segment->slots[lane->next % LANE_ENTRIES];
}

/* Sender: measures the distance, using the line of the next entry, which a waiting receiver
 * reads. */
void lane_probe(struct lane *lane);

/* Sender: call before a start of `bytes` bytes. Measures the distance occasionally. */
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
    /* release: slot and entry are visible before the sequence; pairs with the acquires of
     * lane_holds() and lane_drain_one() */
    atomic_store_explicit(&entry->sequence, ++lane->next, memory_order_release);
}
