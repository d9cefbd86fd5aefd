#include "daemon/sessions/space.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct extent {
    uint64_t address, bytes;
};

struct space {
    uint64_t base, bytes;
    struct extent *extents; /* in use, sorted, disjoint */
    size_t count, capacity;
    uint64_t next; /* where to look first: the end of what was taken last */
};

int space_new(uint64_t base, uint64_t bytes, struct space **ret_space)
{
    if (base % SPACE_ALIGN_BYTES || bytes < SPACE_ALIGN_BYTES || base + bytes < base)
        return -EINVAL;
    struct space *space = calloc(1, sizeof(*space));
    if (!space)
        return -ENOMEM;
    space->base = base;
    space->bytes = bytes;
    space->next = base;
    *ret_space = space;
    return 0;
}

struct space *space_free(struct space *space)
{
    if (space)
        free(space->extents);
    free(space);
    return NULL;
}

/* The first extent at this address or above; count: none. */
static size_t find(const struct space *space, uint64_t address)
{
    size_t low = 0, high = space->count;

    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (space->extents[middle].address < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Finds the first gap of this length from an address on, which is in no extent: before extent
 * *ret_i. 0: there is none. */
static uint64_t find_gap(const struct space *space, uint64_t from, uint64_t bytes, size_t *ret_i)
{
    for (size_t i = find(space, from); i <= space->count; i++) {
        const uint64_t end =
            i == space->count ? space->base + space->bytes : space->extents[i].address;
        if (end - from >= bytes) {
            *ret_i = i;
            return from;
        }
        if (i < space->count)
            from = end + space->extents[i].bytes;
    }
    return 0;
}

int space_take(struct space *space, uint64_t bytes, uint64_t *ret_address)
{
    if (bytes == 0 || bytes > space->bytes)
        return bytes ? -ENOSPC : -EINVAL;
    bytes = (bytes + SPACE_ALIGN_BYTES - 1) / SPACE_ALIGN_BYTES * SPACE_ALIGN_BYTES;
    if (space->count == space->capacity) {
        size_t capacity = space->capacity ? 2 * space->capacity : 64;
        struct extent *extents = reallocarray(space->extents, capacity, sizeof(*extents));
        if (!extents)
            return -ENOMEM;
        space->extents = extents;
        space->capacity = capacity;
    }
    size_t i = 0;
    uint64_t address = find_gap(space, space->next, bytes, &i);
    if (!address)
        address = find_gap(space, space->base, bytes, &i);
    if (!address)
        return -ENOSPC;
    memmove(&space->extents[i + 1], &space->extents[i],
            (space->count - i) * sizeof(*space->extents));
    space->extents[i] = (struct extent){address, bytes};
    space->count++;
    space->next = address + bytes;
    *ret_address = address;
    return 0;
}

void space_give(struct space *space, uint64_t address)
{
    const size_t i = find(space, address);

    assert(i < space->count && space->extents[i].address == address);
    memmove(&space->extents[i], &space->extents[i + 1],
            (space->count - i - 1) * sizeof(*space->extents));
    space->count--;
}
