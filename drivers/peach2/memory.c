/* Memory that is mapped for the board: regions, landings, and the driver's own (the arena). */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "drivers/peach2/peach2.h"
#include "proto/list.h"

/* ---- mappings ---- */

static int tell(struct peach2 *peach2, const struct mapping *mapping)
{
    const struct peach2_control message = {.type = mapping->fd >= 0 ? PEACH2_MAP : PEACH2_ALIAS,
                                           .address = mapping->bus,
                                           .length = mapping->length_bytes,
                                           .offset = mapping->of};
    if (peach2->gone)
        return 0; /* set_up() maps it when the board returns */
    int r = peach2_device_request(&peach2->device, &message, mapping->fd);
    return r == -ENODEV ? 0 : r; /* just lost: as above */
}

/* The lock is held. phase: of the address in its page. */
static int place(struct peach2 *peach2, struct mapping *mapping, uint64_t phase)
{
    if (mapping->length_bytes > PEACH2_INTERNAL)
        return -EADDRNOTAVAIL;
    /* A guard page between mappings stops overruns. */
    const uint64_t bytes = ((phase + mapping->length_bytes + PAGE - 1) & ~(PAGE - 1)) + PAGE;
    int r = spans_take(&peach2->spans, bytes, &mapping->span);
    if (r == -EADDRNOTAVAIL)
        atomic_store_explicit(&peach2->reuse.wanted, true, memory_order_relaxed);
    if (r < 0)
        return r;
    mapping->bus = mapping->span->first + phase;
    r = tell(peach2, mapping);
    if (r < 0)
        spans_give(&peach2->spans, mapping->span);
    return r;
}

static int add(struct peach2 *peach2, struct mapping mapping, uint64_t phase,
               struct mapping **ret_mapping)
{
    struct mapping *own = malloc(sizeof(*own));
    if (!own)
        return -ENOMEM;
    pthread_mutex_lock(&peach2->lock);
    *own = mapping;
    int r = place(peach2, own, phase);
    if (r == 0) {
        LIST_ADD(&peach2->mappings, own, next, link);
    }
    pthread_mutex_unlock(&peach2->lock);
    if (r < 0) {
        free(own);
        return r;
    }
    *ret_mapping = own;
    return 0;
}

static int memory_map(struct peach2 *peach2, uint64_t length_bytes, int fd, uint64_t offset,
                      struct mapping **ret_mapping)
{
    int own_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (own_fd < 0)
        return -errno;
    int r = add(peach2, (struct mapping){.length_bytes = length_bytes, .fd = own_fd, .of = offset},
                0, ret_mapping);
    if (r < 0)
        close(own_fd);
    return r;
}

int peach2_memory_alias(struct peach2 *peach2, uint64_t bus, uint64_t length_bytes,
                        struct mapping **ret_mapping)
{
    return add(peach2, (struct mapping){.length_bytes = length_bytes, .fd = -1, .of = bus},
               bus % PAGE, ret_mapping);
}

void peach2_memory_unmap(struct peach2 *peach2, struct mapping *mapping, uint32_t nodes)
{
    const struct peach2_control message = {.type = PEACH2_UNMAP, .address = mapping->bus};
    pthread_mutex_lock(&peach2->lock);
    if (!peach2->gone)
        peach2_device_request(&peach2->device, &message, -1);
    LIST_REMOVE(mapping, next, link);
    if (nodes)
        spans_leave(&peach2->spans, mapping->span, nodes);
    else
        spans_give(&peach2->spans, mapping->span);
    pthread_mutex_unlock(&peach2->lock);
    if (mapping->fd >= 0)
        close(mapping->fd);
    free(mapping);
}

/* Oldest first, because an alias needs its mapping. */
int peach2_memory_tell_all(struct peach2 *peach2)
{
    struct mapping *last = peach2->mappings;
    if (!last)
        return 0;
    while (last->next)
        last = last->next;
    for (struct mapping *at = last;;) {
        int r = tell(peach2, at);
        if (r < 0)
            return r;
        if (at->link == &peach2->mappings)
            return 0;
        at = (struct mapping *)((char *)at->link - offsetof(struct mapping, next));
    }
}

int peach2_region_add(struct driver *driver, const struct driver_memory *memory,
                      struct driver_region **ret_region)
{
    struct peach2 *peach2 = peach2_of(driver);
    if (memory->dmabuf) /* the boards map sealed memfds only */
        return -EOPNOTSUPP;
    struct region *region = malloc(sizeof(*region));
    if (!region)
        return -ENOMEM;
    *region = (struct region){.base = memory->base,
                              .length_bytes = memory->length_bytes,
                              .gone = memory->gone,
                              .context = memory->context};
    int r = memory_map(peach2, memory->length_bytes, memory->fd, memory->offset_bytes,
                       &region->mapping);
    if (r < 0) {
        free(region);
        return r;
    }
    region->bus = region->mapping->bus;
    *ret_region = (struct driver_region *)region;
    return 0;
}

void peach2_region_remove(struct driver *driver, struct driver_region *driver_region)
{
    struct region *region = (struct region *)driver_region;
    peach2_memory_unmap(peach2_of(driver), region->mapping, 0);
    driver_memory_gone(region->gone, region->context);
    free(region);
}

/* ---- the arena ---- */

enum {
    RINGS_BYTES = PEACH2_NODES * RING_ENTRIES * (int)sizeof(struct peach2_notification),
    CHAINS_BYTES = HOST_SLOTS * (int)sizeof(struct peach2_descriptor),
    SEGMENT_CHAINS_BYTES = SEGMENTS * SEGMENT_DESCRIPTORS * (int)sizeof(struct peach2_descriptor)
};

static int slots_init(struct slots *slots, uint32_t count)
{
    slots->count = count;
    slots->used = calloc(count / 64, sizeof(uint64_t));
    return slots->used ? 0 : -ENOMEM;
}

int peach2_arena_make(struct peach2 *peach2)
{
    peach2->arena_bytes = RINGS_BYTES + CHAINS_BYTES + SEGMENT_CHAINS_BYTES +
                          (uint64_t)SEGMENTS * peach2->segment_bytes;
    int fd = memfd_create("peach2-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -errno;
    void *memory = MAP_FAILED;
    if (ftruncate(fd, (off_t)peach2->arena_bytes) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0)
        memory = mmap(NULL, peach2->arena_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int r = memory == MAP_FAILED ? -errno : 0;
    if (r == 0) {
        peach2->arena = memory;
        r = memory_map(peach2, peach2->arena_bytes, fd, 0, &peach2->arena_mapping);
    }
    close(fd);
    if (r < 0)
        return r;
    peach2->arena_bus = peach2->arena_mapping->bus;
    peach2->rings = memory;
    peach2->host_descriptors = (struct peach2_descriptor *)(peach2->arena + RINGS_BYTES);
    peach2->segment_descriptors =
        (struct peach2_descriptor *)(peach2->arena + RINGS_BYTES + CHAINS_BYTES);
    peach2->segments = peach2->arena + RINGS_BYTES + CHAINS_BYTES + SEGMENT_CHAINS_BYTES;
    r = slots_init(&peach2->host_slots, HOST_SLOTS);
    return r < 0 ? r : slots_init(&peach2->internal_slots, PEACH2_INTERNAL_DESCRIPTORS);
}

void peach2_arena_free(struct peach2 *peach2)
{
    if (peach2->arena_mapping)
        peach2_memory_unmap(peach2, peach2->arena_mapping, 0);
    if (peach2->arena)
        munmap(peach2->arena, peach2->arena_bytes);
    free(peach2->host_slots.used);
    free(peach2->internal_slots.used);
}

/* ---- slots ---- */

static bool is_used(const struct slots *slots, uint32_t slot)
{
    return slots->used[slot / 64] >> slot % 64 & 1;
}

int peach2_slots_take(struct slots *slots, uint32_t count, uint32_t *ret_first)
{
    uint32_t run = 0;
    for (uint32_t slot = 0; slot < slots->count; slot++) {
        if (slot % 64 == 0 && slots->used[slot / 64] == ~UINT64_C(0)) {
            run = 0;
            slot += 63;
            continue;
        }
        run = is_used(slots, slot) ? 0 : run + 1;
        if (run < count)
            continue;
        *ret_first = slot + 1 - count;
        for (uint32_t i = *ret_first; i <= slot; i++)
            slots->used[i / 64] |= UINT64_C(1) << i % 64;
        return 0;
    }
    return -ENOSPC;
}

void peach2_slots_give(struct slots *slots, uint32_t first, uint32_t count)
{
    for (uint32_t i = first; i < first + count; i++)
        slots->used[i / 64] &= ~(UINT64_C(1) << i % 64);
}
