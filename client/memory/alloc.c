/* tca_alloc(): a heap in regions; and finding the region of an address. */
#include "client/memory/alloc.h"

#include <errno.h>
#include <stdlib.h>

#include "client/core/error.h"
#include "client/core/session.h"
#include "client/memory/heap.h"
#include "client/memory/region.h"

static int chunk_alloc(void *context, uint64_t bytes, void **ret_base, void **ret_owner)
{
    struct tca_region *region;
    int r = tca_region_alloc(context, bytes, &region);
    if (r < 0)
        return r;
    region->heap = true;
    *ret_base = region->mapped.base;
    *ret_owner = region;
    return 0;
}

static int chunk_free(void *context, void *owner)
{
    return region_free(owner);
}

static int heap_of(struct tca *session, struct heap **ret_heap)
{
    if (!session->heap) {
        struct heap *heap = malloc(sizeof(*heap));
        if (!heap)
            return error_static(-ENOMEM, "out of memory");
        heap_init(heap, &(struct heap_source){
                            .alloc = chunk_alloc, .free = chunk_free, .context = session});
        session->heap = heap;
    }
    *ret_heap = session->heap;
    return 0;
}

void heap_clear(struct tca *session)
{
    if (session->heap)
        heap_deinit(session->heap);
    free(session->heap);
    session->heap = NULL;
}

int tca_alloc(struct tca *session, uint64_t bytes, void **ret_memory)
{
    struct heap *heap = NULL;
    if (bytes == 0)
        return error_static(-EINVAL, "cannot allocate 0 bytes: the minimum is 1");
    int r = heap_of(session, &heap);
    if (r < 0)
        return r;
    r = heap_alloc(heap, bytes, ret_memory);
    if (r == -ENOMEM) /* for the region or for its bookkeeping */
        return error_set(r, "no memory to allocate %llu bytes", (unsigned long long)bytes);
    if (r == -EOVERFLOW)
        return error_set(-ENOMEM, "%llu bytes exceed the size of any region",
                         (unsigned long long)bytes);
    return r < 0 ? error_prefix(r, "allocating %llu bytes: ", (unsigned long long)bytes) : 0;
}

int tca_free(struct tca *session, void *memory)
{
    if (!memory)
        return 0;
    int r = session->heap ? heap_free(session->heap, memory) : -EINVAL;
    if (r == -EINVAL)
        return error_set(-EINVAL,
                         "%p was not allocated by tca_alloc() in this session, or is free already",
                         memory);
    return r;
}

/* ---- addresses ---- */

struct tca_region *region_find(struct tca *session, const void *address)
{
    struct heap_page *page = session->heap ? heap_find(session->heap, address) : NULL;
    if (page)
        return page->chunk->owner;
    struct tca_region *region = session->regions;
    while (region && ((const uint8_t *)address < region_base(region) ||
                      (uint64_t)((const uint8_t *)address - region_base(region)) >= region->bytes))
        region = region->next;
    return region;
}

int tca_region_of(struct tca *session, const void *address, struct tca_region **ret_region,
                  uint64_t *ret_offset_bytes)
{
    struct tca_region *region = region_find(session, address);
    if (!region)
        return error_set(-EINVAL,
                         "no region of this session contains %p: use tca_region_alloc() or "
                         "tca_alloc()",
                         address);
    *ret_region = region;
    *ret_offset_bytes = (uint64_t)((const uint8_t *)address - region_base(region));
    return 0;
}

int tca_handle_of(struct tca *session, const void *address, uint64_t bytes,
                  struct tca_handle *ret_handle)
{
    struct tca_region *region;
    uint64_t offset;
    int r = tca_region_of(session, address, &region, &offset);
    return r < 0 ? r : tca_region_handle(region, offset, bytes, ret_handle);
}
