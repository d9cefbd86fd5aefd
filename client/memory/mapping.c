#include "client/memory/mapping_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/core/error.h"
#include "client/core/process.h"
#include "client/core/segment.h"
#include "client/core/session.h"
#include "proto/list.h"
#include "proto/namespace.h"

/* ---- the regions that are known ---- */

/*
 * A digital search tree: the side on which a region is below another one is the next bit of its id,
 * from the lowest. It takes no memory of its own. Its depth is logarithmic for ids that the daemon
 * has counted, and at most 64 for any.
 */
static struct mapped_region *find_region(const struct tca *session, uint64_t id)
{
    struct mapped_region *region = session->regions_by_id;
    for (uint64_t bits = id; region && region->id != id; bits >>= 1)
        region = region->child[bits & 1];
    return region;
}

/* Where the tree has this region; NULL: where it is to have a new one with this id. */
static struct mapped_region **find_place(struct tca *session, uint64_t id,
                                         const struct mapped_region *region)
{
    struct mapped_region **at = &session->regions_by_id;
    for (uint64_t bits = id; *at != region; bits >>= 1)
        at = &(*at)->child[bits & 1];
    return at;
}

struct mapped_region *mapping_own(const struct tca *session, uint64_t id)
{
    struct mapped_region *region = find_region(session, id);
    return region && region->own ? region : NULL;
}

void mapping_insert(struct tca *session, struct mapped_region *region)
{
    standby_enter(session->standby);
    region->child[0] = region->child[1] = NULL;
    *find_place(session, region->id, NULL) = region;
    LIST_ADD(&session->mapped_regions, region, next, link);
    standby_leave(session->standby);
}

/* Any leaf below the region can take its place. */
void mapping_remove(struct tca *session, struct mapped_region *region)
{
    standby_enter(session->standby);
    struct mapped_region **at = find_place(session, region->id, region), **leaf = at;
    while ((*leaf)->child[0] || (*leaf)->child[1])
        leaf = &(*leaf)->child[!(*leaf)->child[0]];
    struct mapped_region *instead = *leaf;
    *leaf = NULL;
    if (instead != region) {
        memcpy(instead->child, region->child, sizeof(instead->child));
        *at = instead;
    }
    LIST_REMOVE(region, next, link);
    standby_leave(session->standby);
}

/* ---- descriptors ---- */

int mapping_take_fd(struct frame *frame, uint32_t index)
{
    if (index > frame->fd_count || frame->fds[index - 1] < 0)
        return error_set(-EPROTO, "tcad used descriptor %u of a frame with %zu", index,
                         frame->fd_count);
    int fd = frame->fds[index - 1];
    frame->fds[index - 1] = -1;
    return fd;
}

/* A descriptor may serve several mappings, and may be sent again with later plans. Known regions
 * are kept, and descriptors not taken are closed with the frame. */
static int adopt_region(struct tca *session, const Tca__Mapping *mapping, struct frame *frame)
{
    if (find_region(session, mapping->region))
        return 0;
    struct mapped_region *region = calloc(1, sizeof(*region));
    if (!region)
        return error_static(-ENOMEM, "out of memory");
    int fd = mapping_take_fd(frame, mapping->region_fd);
    if (fd < 0) {
        free(region);
        return fd;
    }
    *region = (struct mapped_region){.id = mapping->region,
                                     .bytes = mapping->region_bytes,
                                     .address = mapping->region_address,
                                     .offset_bytes = mapping->region_offset,
                                     .fd = fd};
    mapping_insert(session, region);
    return 0;
}

static int adopt_lane(struct tca *session, const Tca__Mapping *mapping, struct frame *frame)
{
    int fd = mapping_take_fd(frame, mapping->lane_fd);
    if (fd < 0)
        return fd;
    int r = process_adopt_lane(session, mapping->owner, &fd);
    if (fd >= 0)
        close(fd);
    return r;
}

static int adopt(struct tca *session, const Tca__Mapping *mapping, struct frame *frame)
{
    int r = mapping->region_fd ? adopt_region(session, mapping, frame) : 0;
    if (r == 0 && mapping->region_fd)
        find_region(session, mapping->region)->shared_only = false;
    if (r == 0 && mapping->session_fd)
        r = mapping_adopt_segment(session, mapping, frame);
    if (r == 0 && mapping->lane_fd)
        r = adopt_lane(session, mapping, frame);
    return r;
}

int mapping_adopt(struct tca *session, const Tca__PlanCommitted *committed, struct frame *frame)
{
    int result = 0;
    for (size_t i = 0; i < committed->n_chains; i++) {
        const Tca__ChainCommitted *chain = committed->chains[i];
        for (size_t j = 0; j < chain->n_mappings; j++) {
            int r = adopt(session, chain->mappings[j], frame);
            if (r < 0)
                result = r;
        }
    }
    return result;
}

/* ---- mapping ---- */

static int map_region(struct tca *session, struct mapped_region *region)
{
    struct driver_memory memory = {.length_bytes = region->bytes,
                                   .fd = region->fd,
                                   .dmabuf = region->fd >= 0 && segment_is_dmabuf(region->fd)};
    /* Memory that was shared in place is at no address which processes keep free for regions. */
    int r = region->offset_bytes ? segment_map_part(region->fd, region->offset_bytes, region->bytes,
                                                    "a peer's region", &memory.base)
                                 : segment_map(region->fd, region->address, region->bytes,
                                               "a peer's region", &memory.base);
    if (r < 0)
        return r;
    r = session->shm->ops->region_add(session->shm, &memory, &region->driver_region);
    if (r < 0) {
        munmap(memory.base, region->bytes);
        return error_static(r, "out of memory for a peer's region");
    }
    region->base = memory.base;
    region->dmabuf = memory.dmabuf;
    if (region->fd >= 0)
        close(region->fd);
    region->fd = -1;
    return 0;
}

int mapping_region(struct tca *session, const Tca__Mapping *mapping,
                   struct mapped_region **ret_region)
{
    struct mapped_region *region = find_region(session, mapping->region);
    if (!region)
        return error_set(-EPROTO, "tcad refers to region %llu without having sent it",
                         (unsigned long long)mapping->region);
    if (region->gone)
        return error_set(-ESTALE, "region %llu was freed, or its process has ended",
                         (unsigned long long)mapping->region);
    int r = region->base ? 0 : map_region(session, region);
    if (r < 0)
        return r;
    *ret_region = region;
    return 0;
}

/* Errors are ignored here: processing the reply fails on what is missing. */
void mapping_adopt_early(struct tca *session, const Tca__Event *event, struct frame *frame)
{
    for (size_t i = 0; i < event->n_mappings; i++) {
        const Tca__Mapping *mapping = event->mappings[i];
        struct mapped_region *region;
        struct mapped_segment *segment;
        if (adopt(session, mapping, frame) < 0)
            continue;
        if (mapping->region) /* mapped at once, which closes the descriptor: a plan may refer to
                                more regions than a process can have descriptors */
            mapping_region(session, mapping, &region);
        if (mapping->session)
            mapping_segment(session, mapping, &segment);
    }
}

/* ---- the end ---- */

static void unmap_region(struct tca *session, struct mapped_region *region)
{
    if (region->driver_region)
        session->shm->ops->region_remove(session->shm, region->driver_region);
    if (region->base)
        munmap(region->base, region->bytes);
    if (region->fd >= 0)
        close(region->fd);
    free(region);
}

static void list_unused(struct tca *session, struct mapped_region *region)
{
    region->unused = true;
    region->newer = NULL;
    region->older = session->unused_newest;
    *(region->older ? &region->older->newer : &session->unused_oldest) = region;
    session->unused_newest = region;
    session->unused_count++;
}

static void unlist_unused(struct tca *session, struct mapped_region *region)
{
    if (!region->unused)
        return;
    *(region->older ? &region->older->newer : &session->unused_oldest) = region->newer;
    *(region->newer ? &region->newer->older : &session->unused_newest) = region->older;
    region->unused = false;
    session->unused_count--;
}

static void drop_region(struct tca *session, struct mapped_region *region)
{
    unlist_unused(session, region);
    mapping_remove(session, region);
    unmap_region(session, region);
}

void mapping_use(struct tca *session, struct mapped_region *region)
{
    unlist_unused(session, region);
    region->uses++;
}

void mapping_unuse(struct tca *session, struct mapped_region *region)
{
    if (--region->uses > 0 || region->own)
        return;
    if (region->gone || region->shared_only)
        drop_region(session, region);
    else
        list_unused(session, region);
}

void mapping_trim(struct tca *session)
{
    while (session->unused_count > MAPPINGS_UNUSED_MAX)
        drop_region(session, session->unused_oldest);
}

int mapping_share_region(struct tca *session, const Tca__Mapping *mapping, struct frame *frame,
                         struct mapped_region **ret_region)
{
    bool known = find_region(session, mapping->region) != NULL;
    int r = adopt_region(session, mapping, frame);
    if (r < 0)
        return r;
    struct mapped_region *region = find_region(session, mapping->region);
    region->shared_only |= !known;
    if (mapping->owner_pid != 0 && mapping->pid_namespace != 0 && /* 0: not known */
        mapping->pid_namespace == pid_namespace())
        region->owner_pid = (pid_t)mapping->owner_pid;
    region->owner = mapping->owner;
    mapping_use(session, region);
    if ((r = mapping_region(session, mapping, &region)) < 0) {
        mapping_unuse(session, region);
        return r;
    }
    *ret_region = region;
    return 0;
}

int mapping_reach(struct tca *session, const Tca__Mapping *mapping, struct frame *frame,
                  struct mapped_region **ret_region)
{
    struct mapped_region *region;
    int r = adopt_region(session, mapping, frame);
    if (r == 0)
        r = mapping_region(session, mapping, &region);
    if (r < 0)
        return r;
    if (!region->own && !region->reached)
        mapping_use(session, region);
    region->reached = true;
    *ret_region = region;
    return 0;
}

void mapping_gone(struct tca *session, uint64_t id)
{
    struct mapped_region *region = find_region(session, id);
    if (!region)
        return;
    region->gone = true;
    if (region->uses == 0 && !region->own)
        drop_region(session, region);
}

void mapping_clear(struct tca *session)
{
    while (session->mapped_regions) {
        struct mapped_region *region = session->mapped_regions;
        session->mapped_regions = region->next;
        unmap_region(session, region);
    }
    session->regions_by_id = session->unused_oldest = session->unused_newest = NULL;
    session->unused_count = 0;
    mapping_clear_segments(session);
}
