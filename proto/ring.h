/*
 * Single-producer single-consumer rings over shared memory. Each side keeps its own index and a
 * cached copy of the other's in private memory, so a push or a pop touches the other side's line
 * only when the cache says full or empty. The other side is hostile: an index that makes no sense
 * is -EPROTO, entries are copied out once and masked.
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
    uint32_t theirs;   /* what was last read of the other index */
};

static inline void ring_init(struct ring *ring, struct ring_indexes *shared, void *entries,
                             uint32_t entry_bytes, uint32_t capacity)
{
    *ring = (struct ring){
        .shared = shared, .entries = entries, .entry_bytes = entry_bytes, .capacity = capacity};
}

/* Copies one entry in. 0, -EAGAIN (full), -EPROTO (the consumer's index is impossible). */
static inline int ring_push(struct ring *ring, const void *entry)
{
    if (ring->mine - ring->theirs >= ring->capacity) {
        /* acquire: pairs with ring_pop's release; the consumer has read the entry that we overwrite
         */
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
    /* release: the entry is visible before the index that says so */
    atomic_store_explicit(&ring->shared->tail, ring->mine, memory_order_release);
    return 0;
}

/* Producer: how many entries have not been taken yet, or -EPROTO. */
static inline int ring_left(struct ring *ring)
{
    /* acquire: pairs with ring_pop's release; what the consumer did before it took them is visible
     */
    ring->theirs = atomic_load_explicit(&ring->shared->head, memory_order_acquire);
    uint32_t used = ring->mine - ring->theirs;
    return used > ring->capacity ? -EPROTO : (int)used;
}

/* Copies one entry out. 1, 0 (empty), -EPROTO (the producer's index is impossible). */
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
    /* release: the entry has been read before its place is free again */
    atomic_store_explicit(&ring->shared->head, ring->mine, memory_order_release);
    return 1;
}

/* Consumer: copies the next entry out without taking it: as ring_pop(), which then takes the same.
 */
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

/* Consumer: whether something is there, without taking it. */
static inline bool ring_readable(struct ring *ring)
{
    return ring->mine != ring->theirs ||
           atomic_load_explicit(&ring->shared->tail, memory_order_acquire) != ring->mine;
}
