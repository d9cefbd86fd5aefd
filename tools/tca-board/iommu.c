/* The host memory that the board may access. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "tools/tca-board/board.h"

enum { BUS_PAGE = 4096 };

/* The index of the first mapping that ends after `bus`. */
static uint32_t find_index(const struct iommu *iommu, uint64_t bus)
{
    uint32_t low = 0, high = iommu->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const struct mapping *mapping = &iommu->mappings[middle];
        if (mapping->bus + mapping->length_bytes <= bus)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int check_room(const struct iommu *iommu, uint64_t bus, uint64_t length_bytes)
{
    uint32_t at = find_index(iommu, bus);
    if (at < iommu->count && iommu->mappings[at].bus < bus + length_bytes)
        return -EEXIST;
    return iommu->count < PEACH2_MAPPINGS_MAX ? 0 : -ENOSPC;
}

static int check(const struct iommu *iommu, uint64_t bus, uint64_t length_bytes, int fd,
                 uint64_t offset)
{
    struct stat stat;
    if (length_bytes == 0 || length_bytes > PEACH2_INTERNAL ||
        bus > PEACH2_INTERNAL - length_bytes || bus % BUS_PAGE != 0 || offset % BUS_PAGE != 0 ||
        offset > INT64_MAX - length_bytes)
        return -EINVAL;
    /* If the owner shortened the file, accesses would kill the board. */
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK))
        return -EPERM;
    if (fstat(fd, &stat) < 0)
        return -errno;
    if ((uint64_t)stat.st_size < offset + length_bytes)
        return -EINVAL;
    return check_room(iommu, bus, length_bytes);
}

static int grow(struct iommu *iommu)
{
    if (iommu->count < iommu->capacity)
        return 0;
    uint32_t capacity = iommu->capacity > 0 ? 2 * iommu->capacity : 16;
    struct mapping *mappings = realloc(iommu->mappings, capacity * sizeof(mappings[0]));
    if (!mappings)
        return -ENOMEM;
    iommu->mappings = mappings;
    iommu->capacity = capacity;
    return 0;
}

/* The caller has called grow(). */
static void insert(struct iommu *iommu, struct mapping mapping)
{
    uint32_t at = find_index(iommu, mapping.bus);
    memmove(&iommu->mappings[at + 1], &iommu->mappings[at],
            (iommu->count - at) * sizeof(iommu->mappings[0]));
    iommu->mappings[at] = mapping;
    iommu->count++;
    iommu->last = at;
}

int iommu_map(struct iommu *iommu, uint64_t bus, uint64_t length_bytes, int fd, uint64_t offset)
{
    int r = check(iommu, bus, length_bytes, fd, offset);
    if (r == 0)
        r = grow(iommu);
    if (r < 0)
        return r;
    uint8_t *base = mmap(NULL, length_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
    if (base == MAP_FAILED)
        return -errno;
    insert(iommu, (struct mapping){.bus = bus, .length_bytes = length_bytes, .base = base});
    return 0;
}

int iommu_alias(struct iommu *iommu, uint64_t bus, uint64_t length_bytes, uint64_t of)
{
    if (length_bytes == 0 || length_bytes > PEACH2_INTERNAL || bus > PEACH2_INTERNAL - length_bytes)
        return -EINVAL;
    uint8_t *base = iommu_find(iommu, of, length_bytes);
    if (!base)
        return -ENOENT;
    int r = check_room(iommu, bus, length_bytes);
    if (r == 0)
        r = grow(iommu);
    if (r == 0)
        insert(iommu, (struct mapping){
                          .bus = bus, .length_bytes = length_bytes, .base = base, .alias = true});
    return r;
}

static void drop_aliases(struct iommu *iommu, const struct mapping *of)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < iommu->count; i++) {
        const struct mapping *mapping = &iommu->mappings[i];
        if (!mapping->alias || mapping->base < of->base ||
            mapping->base >= of->base + of->length_bytes)
            iommu->mappings[kept++] = *mapping;
    }
    iommu->count = kept;
}

int iommu_unmap(struct iommu *iommu, uint64_t bus)
{
    uint32_t at = find_index(iommu, bus);
    if (at == iommu->count || iommu->mappings[at].bus != bus)
        return -ENOENT;
    const struct mapping mapping = iommu->mappings[at];
    iommu->count--;
    memmove(&iommu->mappings[at], &iommu->mappings[at + 1],
            (iommu->count - at) * sizeof(iommu->mappings[0]));
    iommu->last = 0;
    if (!mapping.alias) {
        drop_aliases(iommu, &mapping);
        munmap(mapping.base, mapping.length_bytes);
    }
    return 0;
}

void iommu_clear(struct iommu *iommu)
{
    for (uint32_t i = 0; i < iommu->count; i++)
        if (!iommu->mappings[i].alias)
            munmap(iommu->mappings[i].base, iommu->mappings[i].length_bytes);
    free(iommu->mappings);
    *iommu = (struct iommu){0};
}

static uint8_t *inside(const struct mapping *mapping, uint64_t bus, uint64_t length_bytes)
{
    if (bus < mapping->bus || bus - mapping->bus >= mapping->length_bytes ||
        length_bytes > mapping->length_bytes - (bus - mapping->bus))
        return NULL;
    return mapping->base + (bus - mapping->bus);
}

uint8_t *iommu_find(struct iommu *iommu, uint64_t bus, uint64_t length_bytes)
{
    if (iommu->count == 0)
        return NULL;
    uint8_t *found = inside(&iommu->mappings[iommu->last], bus, length_bytes);
    if (found)
        return found;
    uint32_t at = find_index(iommu, bus);
    if (at == iommu->count)
        return NULL;
    iommu->last = at;
    return inside(&iommu->mappings[at], bus, length_bytes);
}
