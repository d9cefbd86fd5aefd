/*
 * Single-producer, single-consumer rings in shared memory. Each side keeps its own index and a copy
 * of the other's in private memory, and reads the other side's cache line only when the ring
 * appears full or empty by that copy. The other side is untrusted: an impossible index is -EPROTO,
 * indexes are masked, and entries are copied out once.
 */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "proto/segment.h"

struct ring {
    struct ring_indexes *shared;
    uint8_t *entries;
    uint32_t entry_bytes;
    uint32_t capacity; /* a power of two */
    uint32_t mine;     /* producer: tail, consumer: head */
    uint32_t theirs;   /* the other side's index when last read */
};

static inline void ring_init(struct ring *ring, struct ring_indexes *shared, void *entries,
                             uint32_t entry_bytes, uint32_t capacity)
{
    *ring = (struct ring){
        .shared = shared, .entries = entries, .entry_bytes = entry_bytes, .capacity = capacity};
}

/* Producer: appends a copy of one entry. Returns 0, -EAGAIN (full) or -EPROTO (the consumer's index
 * is impossible). */
static inline int ring_push(struct ring *ring, const void *entry)
{
    if (ring->mine - ring->theirs >= ring->capacity) {
        /* acquire: pairs with ring_pop's release: the consumer has read the overwritten entry */
        ring->theirs = atomic_load_explicit(&ring->shared->head, memory_order_acquire);
        uint32_t used = ring->mine - ring->theirs;
        if (used > ring->capacity)
            return -EPROTO;
        if (used == ring->capacity)
            return -EAGAIN;
    }
    memcpy(ring->entries + (size_t)(ring->mine & (ring->capacity - 1)) * ring->entry_bytes, entry,
           ring->entry_bytes);
    ring->mine++;
    /* release: the entry is visible before the index */
    atomic_store_explicit(&ring->shared->tail, ring->mine, memory_order_release);
    return 0;
}

/* Producer: the number of entries not yet popped, or -EPROTO. */
static inline int ring_left(struct ring *ring)
{
    /* acquire: pairs with ring_pop's release: what the consumer did before a pop is visible */
    ring->theirs = atomic_load_explicit(&ring->shared->head, memory_order_acquire);
    uint32_t used = ring->mine - ring->theirs;
    return used > ring->capacity ? -EPROTO : (int)used;
}

/* Consumer: removes one entry and copies it out. Returns 1, 0 (empty) or -EPROTO (the producer's
 * index is impossible). */
static inline int ring_pop(struct ring *ring, void *ret_entry)
{
    if (ring->mine == ring->theirs) {
        /* acquire: pairs with ring_push's release */
        ring->theirs = atomic_load_explicit(&ring->shared->tail, memory_order_acquire);
        uint32_t used = ring->theirs - ring->mine;
        if (used == 0)
            return 0;
        if (used > ring->capacity)
            return -EPROTO;
    }
    memcpy(ret_entry,
           ring->entries + (size_t)(ring->mine & (ring->capacity - 1)) * ring->entry_bytes,
           ring->entry_bytes);
    ring->mine++;
    /* release: the entry has been read before its space is reused */
    atomic_store_explicit(&ring->shared->head, ring->mine, memory_order_release);
    return 1;
}

/* Consumer: copies the next entry out without removing it. Returns as ring_pop(). */
static inline int ring_peek(const struct ring *ring, void *ret_entry)
{
    /* acquire: pairs with ring_push's release */
    uint32_t used = atomic_load_explicit(&ring->shared->tail, memory_order_acquire) - ring->mine;
    if (used == 0 || used > ring->capacity)
        return used == 0 ? 0 : -EPROTO;
    memcpy(ret_entry,
           ring->entries + (size_t)(ring->mine & (ring->capacity - 1)) * ring->entry_bytes,
           ring->entry_bytes);
    return 1;
}

/* Consumer: whether the ring has entries. */
static inline bool ring_readable(struct ring *ring)
{
    return ring->mine != ring->theirs ||
           atomic_load_explicit(&ring->shared->tail, memory_order_acquire) != ring->mine;
}
