/* Memory that is mapped for the board: regions, landings, and the driver's own (the arena). */
#pragma once

#include <stdbool.h>

#include "drivers/driver.h"
#include "drivers/landings.h"
#include "drivers/peach2/registers.h"
#include "drivers/peach2/spans.h"

struct peach2;

/* A bitmap allocator of slots. */
struct slots {
    uint64_t *used;
    uint32_t count;
};

/* A mapping for the board, kept to restore it in a board that was restarted. */
struct mapping {
    struct span *span;
    uint64_t bus, length_bytes;
    int fd;      /* owned; -1: an alias */
    uint64_t of; /* offset in fd; alias: bus address of the underlying memory */
    struct mapping *next, **link;
};

struct region {
    struct mapping *mapping;
    uint8_t *base;
    uint64_t bus;
    uint64_t length_bytes;
    void (*gone)(void *context); /* struct driver_memory */
    void *context;
};

struct landing {
    struct mapping *alias; /* NULL: a notification without data */
    uint32_t nodes;        /* that may put there, a bit each */
    uint32_t index, generation;
    bool notify;
    uint64_t token;
};

/* The description of a landing for the sender. */
struct blob {
    uint32_t magic;
    uint32_t flags;
    uint64_t cookie;
    uint64_t bus; /* of the layout's base */
    uint64_t size_bytes;
    uint64_t id;     /* generation << 32 | index */
    uint64_t recall; /* number of the last recall at the time: see recall.c */
};
static_assert(sizeof(struct blob) <= LANDING_MAX_BYTES, "fits into a blob");
enum { BLOB_MAGIC = 0x50324c45, BLOB_NOTIFY = 1 };

/* ---- memory.c ---- */
/* Maps another address, which can be unmapped separately, for part of a mapping. */
int peach2_memory_alias(struct peach2 *peach2, uint64_t bus, uint64_t length_bytes,
                        struct mapping **ret_mapping);
/* nodes: those that were told of its address, a bit each. */
void peach2_memory_unmap(struct peach2 *peach2, struct mapping *mapping, uint32_t nodes);
/* Maps everything in a new board. Call with the lock held. */
int peach2_memory_tell_all(struct peach2 *peach2);
int peach2_arena_make(struct peach2 *peach2);
void peach2_arena_free(struct peach2 *peach2);
/* Allocates a run of slots; -ENOSPC. */
int peach2_slots_take(struct slots *slots, uint32_t count, uint32_t *ret_first);
void peach2_slots_give(struct slots *slots, uint32_t first, uint32_t count);
int peach2_region_add(struct driver *driver, const struct driver_memory *memory,
                      struct driver_region **ret_region);
void peach2_region_remove(struct driver *driver, struct driver_region *region);

/* ---- landing.c ---- */
int peach2_landing_new(struct driver *driver, const struct driver_landing_args *args,
                       struct driver_landing **ret_landing, void *ret_blob, size_t *ret_blob_bytes);
void peach2_landing_free(struct driver *driver, struct driver_landing *landing);
uint64_t peach2_landing_bytes(const struct driver_landing *landing);
int peach2_scratch_landing(struct driver *driver, struct driver_peer *peer, uint64_t bytes,
                           void *ret_blob);
