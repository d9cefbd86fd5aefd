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
    size_t hint; /* there is no gap before this extent: first fit starts here */
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

static uint64_t gap_start(const struct space *space, size_t i)
{
    return i == 0 ? space->base : space->extents[i - 1].address + space->extents[i - 1].bytes;
}

static uint64_t gap_end(const struct space *space, size_t i)
{
    return i == space->count ? space->base + space->bytes : space->extents[i].address;
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
    size_t i = space->hint;
    while (i < space->count && gap_end(space, i) == gap_start(space, i))
        i++;
    space->hint = i;
    while (i <= space->count && gap_end(space, i) - gap_start(space, i) < bytes)
        i++;
    if (i > space->count)
        return -ENOSPC;
    uint64_t address = gap_start(space, i);
    memmove(&space->extents[i + 1], &space->extents[i],
            (space->count - i) * sizeof(*space->extents));
    space->extents[i] = (struct extent){address, bytes};
    space->count++;
    *ret_address = address;
    return 0;
}

void space_give(struct space *space, uint64_t address)
{
    size_t low = 0, high = space->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (space->extents[middle].address < address)
            low = middle + 1;
        else
            high = middle;
    }
    assert(low < space->count && space->extents[low].address == address);
    memmove(&space->extents[low], &space->extents[low + 1],
            (space->count - low - 1) * sizeof(*space->extents));
    space->count--;
    if (low < space->hint)
        space->hint = low;
}
