#include "client/memory/near.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/random.h>

#include "client/core/error.h"
#include "client/core/session.h"
#include "client/memory/alloc.h"
#include "client/memory/mapping.h"
#include "client/memory/reach.h"
#include "client/memory/region.h"
#include "drivers/copy/kernels.h"
#include "proto/list.h"

/* ---- the owner */

void near_owner_begin(struct near_owner *owner, struct near_directory *directory)
{
    owner->directory = directory;
    if (getrandom(&owner->proof, sizeof(owner->proof), 0) != sizeof(owner->proof))
        owner->proof = (uintptr_t)owner; /* one process in billions is as good as none */
    directory->proof = owner->proof;
    directory->proof_address = (uintptr_t)&owner->proof;
}

void near_owner_end(struct near_owner *owner)
{
    explicit_bzero(&owner->proof, sizeof(owner->proof)); /* others may look after it was freed */
}

static uint64_t id_of(const struct near_owner *owner, uint32_t entry)
{
    return atomic_load_explicit(&owner->directory->regions[entry].id, memory_order_relaxed);
}

/* The entry of a region, which replaces the oldest one. */
static uint32_t enter(struct near_owner *owner, const struct tca_region *region)
{
    const uint32_t entry = owner->next++ % NEAR_REGIONS;
    struct near_directory *directory = owner->directory;

    atomic_store_explicit(&directory->regions[entry].id, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    tca_region_handle(region, 0, TCA_ALL, &directory->regions[entry].handle);
    atomic_store_explicit(&directory->regions[entry].id, region->mapped.id, memory_order_release);
    return entry;
}

static uint32_t find_entry(struct near_owner *owner, const struct tca_region *region)
{
    if (id_of(owner, owner->last) == region->mapped.id)
        return owner->last;
    for (uint32_t entry = 0; entry < NEAR_REGIONS; entry++)
        if (id_of(owner, entry) == region->mapped.id)
            return entry;
    return enter(owner, region);
}

struct near_place near_place_of(struct tca *session, struct near_owner *owner, const void *address,
                                uint64_t bytes)
{
    const struct near_place private = {.region = NEAR_PRIVATE, .offset = (uintptr_t)address};
    const struct tca_region *region = region_find(session, address);

    if (!region)
        return private;
    const uint64_t offset = (uint64_t)((const uint8_t *)address - region_base(region));
    if (region->mapped.dmabuf) /* processors reach it slowly, or not at all */
        return (struct near_place){.region = 0};
    if (bytes > region->bytes - offset)
        return private;
    owner->last = find_entry(owner, region);
    return (struct near_place){
        .region = region->mapped.id, .offset = region->lead_bytes + offset, .entry = owner->last};
}

/* ---- another process */

void *near_map(struct tca *session, const struct tca_handle *handle, uint64_t bytes,
               struct mapped_region **ret_region)
{
    struct mapped_region *region;

    if (region_reach(session, handle, mapping_share_region, &region) < 0)
        return NULL;
    if (region->bytes < bytes) {
        error_set(-EPROTO, "a region of %llu bytes instead of %llu",
                  (unsigned long long)region->bytes, (unsigned long long)bytes);
        mapping_unuse(session, region);
        return NULL;
    }
    *ret_region = region;
    return region->base;
}

pid_t near_owner_pid(const struct tca *session, const struct mapped_region *region, uint32_t rank)
{
    const struct group_member *members = session->members;

    return members && members[rank].session == region->owner ? region->owner_pid : 0;
}

void near_unmap(struct tca *session, struct mapped_region *region)
{
    if (region)
        mapping_unuse(session, region);
}

static void forget(struct tca *session, struct near_view *view, uint64_t entry)
{
    near_unmap(session, view->regions[entry]);
    view->regions[entry] = NULL;
}

/* Asks tcad for the region of an entry. */
static int map(struct tca *session, struct near_view *view, struct near_place place)
{
    struct tca_handle handle = view->directory->regions[place.entry].handle;

    atomic_thread_fence(memory_order_acquire);
    if (atomic_load_explicit(&view->directory->regions[place.entry].id, memory_order_relaxed) !=
        place.region)
        return error_static(-ESTALE, "the rank has entered another region in its place");
    if (!view->link)
        LIST_ADD(&session->near_views, view, next, link);
    return region_reach(session, &handle, mapping_share_region, &view->regions[place.entry]);
}

void *near_reach(struct tca *session, struct near_view *view, struct near_place place,
                 uint64_t bytes)
{
    if (place.region == 0 || place.entry >= NEAR_REGIONS) {
        error_static(-EPROTO, "a place in no region");
        return NULL;
    }
    struct mapped_region **region = &view->regions[place.entry];
    if (*region && (*region)->id != place.region)
        forget(session, view, place.entry);
    if (!*region && map(session, view, place) < 0)
        return NULL;
    if ((*region)->id != place.region || place.offset > (*region)->bytes ||
        bytes > (*region)->bytes - place.offset) {
        error_set(-EPROTO, "a place of %llu bytes from byte %llu on is not in its region",
                  (unsigned long long)bytes, (unsigned long long)place.offset);
        return NULL;
    }
    return (*region)->base + place.offset;
}

/* Below this, streaming stores gain nothing (drivers/copy/copy.h). */
enum { STREAM_BYTES = 4096 };

void near_copy(void *target, const void *source, uint64_t bytes)
{
    if (bytes < STREAM_BYTES) {
        memcpy(target, source, bytes);
        return;
    }
    const struct copy_kernels *kernels = copy_kernels();
    kernels->stream(target, source, bytes);
    kernels->stream_end();
}

static void forget_all(struct tca *session, struct near_view *view)
{
    for (uint64_t entry = 0; entry < NEAR_REGIONS; entry++)
        forget(session, view, entry);
}

void near_yield(struct tca *session)
{
    for (struct near_view *view = session->near_views; view; view = view->next)
        forget_all(session, view);
}

void near_view_end(struct tca *session, struct near_view *view)
{
    forget_all(session, view);
    if (view->link)
        LIST_REMOVE(view, next, link);
}
