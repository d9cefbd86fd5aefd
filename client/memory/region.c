#include "client/memory/region.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/core/error.h"
#include "client/core/segment.h"
#include "client/core/session.h"
#include "client/memory/inplace.h"
#include "client/memory/lane.h"
#include "client/memory/near.h"
#include "client/memory/region_memory.h"

static void unmap(struct tca_region *region)
{
    struct tca *session = region->session;
    if (region->mapped.driver_region)
        session->shm->ops->region_remove(session->shm, region->mapped.driver_region);
    if (region->mapped.in_place)
        inplace_unshare(region_base(region), region->bytes);
    else if (region->mapped.base)
        munmap(region->mapped.base, region->mapped.bytes);
    if (region->mapped.dmabuf)
        close(region->mapped.fd);
    explicit_bzero(region->secret, sizeof(region->secret));
    free(region);
}

void region_clear(struct tca *session)
{
    while (session->regions) {
        struct tca_region *region = session->regions;
        session->regions = region->next;
        mapping_remove(session, &region->mapped);
        unmap(region);
    }
}

static int free_at_daemon(struct tca *session, uint64_t id)
{
    Tca__RegionFree body = TCA__REGION_FREE__INIT;
    const Tca__Message request = REQUEST(REGION_FREE, region_free, &body);
    body.region = id;
    return session_request(session, &request, TCA__MESSAGE__BODY_DONE, NULL);
}

/* fd: of the memory, which begins there at `address` (REGION_IN_PLACE) or at 0 (REGION_DMABUF); or
 * -1. */
static int request_alloc(struct tca *session, uint64_t bytes, uint32_t flags, uint64_t address,
                         int fd, struct reply *ret_reply)
{
    Tca__RegionAlloc body = TCA__REGION_ALLOC__INIT;
    const Tca__Message request = REQUEST(REGION_ALLOC, region_alloc, &body);
    body.bytes = bytes;
    body.flags = flags;
    body.address = address;
    return session_request_fd(session, &request, fd, TCA__MESSAGE__BODY_REGION_GRANTED, ret_reply);
}

static int take_handle(struct tca_region *region, const Tca__RegionGranted *granted)
{
    region->secret[0] = granted->secret_0;
    region->secret[1] = granted->secret_1;
    return granted->handle.len == HANDLE_BYTES
               ? handle_decode(granted->handle.data, &region->handle)
               : -EPROTO;
}

/* Maps the granted memory and adds it to the driver. */
static int map(struct tca_region *region, uint64_t asked_bytes, const struct reply *reply)
{
    struct tca *session = region->session;
    const Tca__RegionGranted *granted = reply->message->region_granted;
    struct driver_memory memory = {.length_bytes = granted->bytes,
                                   .fd = reply->frame->fd_count > 0 ? reply->frame->fds[0] : -1};

    if (granted->bytes < asked_bytes || memory.fd < 0 || take_handle(region, granted) < 0)
        return error_static(-EPROTO, "tcad granted a region without memory or handle");
    int r = segment_map(memory.fd, granted->address, granted->bytes, "the region", &memory.base);
    if (r < 0)
        return r;
    region->mapped = (struct mapped_region){.id = granted->region,
                                            .bytes = granted->bytes,
                                            .address = granted->address,
                                            .base = memory.base,
                                            .fd = -1,
                                            .own = true};
    region->bytes = granted->bytes;
    memory.dmabuf = segment_is_dmabuf(memory.fd);
    if (granted->address && (uintptr_t)memory.base != granted->address) {
        /* What is too large for the machine collides with something, too, wherever it begins. */
        r = memory.dmabuf ? 0 : region_memory_check(granted->bytes, granted->pages, "region");
        return r < 0 ? r : segment_misplaced(granted->address, granted->bytes, "a region");
    }
    if (memory.dmabuf) {
        region->mapped.dmabuf = true;
        region->mapped.fd = frame_take_fd(reply->frame);
    } else {
        r = region_memory_make(memory.fd, memory.base, granted->bytes, granted->pages, "region");
    }
    if (r < 0)
        return r;
    r = session->shm->ops->region_add(session->shm, &memory, &region->mapped.driver_region);
    return r < 0 ? error_static(r, "out of memory") : 0;
}

enum { ELSEWHERE = 8 };

/* A region whose memory the daemon maps: of a dmabuf, or -1: of a memfd. elsewhere: how many other
 * addresses to try if this process has something at the region's, such as one that was freed, but
 * reached here. */
static int make(struct tca *session, uint64_t bytes, int dmabuf, unsigned elsewhere,
                struct tca_region **ret_region)
{
    struct reply reply;
    char text[512] = "";
    struct tca_region *region = calloc(1, sizeof(*region));
    if (!region)
        return error_static(-ENOMEM, "out of memory");
    region->session = session;
    int r = request_alloc(session, bytes, dmabuf >= 0 ? REGION_DMABUF : 0, 0, dmabuf, &reply);
    if (r < 0) {
        free(region);
        return r;
    }
    const uint64_t id = reply.message->region_granted->region;
    r = map(region, bytes, &reply);
    reply_free(&reply);
    if (r == 0) {
        mapping_insert(session, &region->mapped);
        region->next = session->regions;
        session->regions = region;
        *ret_region = region;
        return 0;
    }
    strncpy(text, tca_error_text(), sizeof(text) - 1);
    unmap(region);
    if (r == -EADDRINUSE)
        near_yield(session);
    /* while this region keeps its addresses */
    const bool made = r == -EADDRINUSE && elsewhere > 0 &&
                      make(session, bytes, dmabuf, elsewhere - 1, ret_region) == 0;
    free_at_daemon(session, id);
    return made ? 0 : error_set(r, "%s", text);
}

int tca_region_alloc(struct tca *session, uint64_t bytes, struct tca_region **ret_region)
{
    if (bytes == 0)
        return error_static(-EINVAL, "cannot allocate a region of 0 bytes: the minimum is 1");
    return make(session, bytes, -1, ELSEWHERE, ret_region);
}

/* Mapped from the dmabuf's first byte on: exporters that use Linux's helpers for shared memory
 * ignore the offset of a mapping (drm_gem_shmem_fault()). */
int tca_region_import(struct tca *session, int dmabuf, uint64_t offset_bytes, uint64_t bytes,
                      struct tca_region **ret_region)
{
    uint64_t end_bytes;
    if (bytes == 0 || __builtin_add_overflow(offset_bytes, bytes, &end_bytes))
        return error_set(-EINVAL,
                         "cannot import %llu bytes from offset %llu of a dmabuf: the minimum is 1, "
                         "and they must lie within it",
                         (unsigned long long)bytes, (unsigned long long)offset_bytes);
    if (dmabuf < 0 || fcntl(dmabuf, F_GETFD) < 0)
        return error_set(-EINVAL, "descriptor %d is not open: pass that of a dmabuf", dmabuf);
    int r = make(session, end_bytes, dmabuf, ELSEWHERE, ret_region);
    if (r < 0)
        return r;
    (*ret_region)->lead_bytes = offset_bytes;
    (*ret_region)->bytes = bytes;
    (*ret_region)->handle.offset_bytes = offset_bytes;
    return 0;
}

/* ---- memory that the program had before ---- */

static int check_range(const void *address, uint64_t bytes)
{
    const uint64_t at = (uint64_t)(uintptr_t)address;
    uint64_t end;
    if (!address || bytes == 0)
        return error_set(
            -EINVAL, "cannot attach %llu bytes at %p: an address and at least 1 byte are needed",
            (unsigned long long)bytes, address);
    if (__builtin_add_overflow(at, bytes, &end) || end > INT64_MAX)
        return error_set(-EFAULT,
                         "%llu bytes at %p are not all mapped: they go beyond the address space",
                         (unsigned long long)bytes, address);
    return 0;
}

/* A region of the whole pages that contain the bytes, whose handle names these alone. */
static int request_in_place(struct tca_region *region, void *address, uint64_t bytes, int fd)
{
    struct tca *session = region->session;
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    const uint64_t lead = (uint64_t)(uintptr_t)address % page;
    const uint64_t whole = (lead + bytes + page - 1) / page * page;
    struct driver_memory memory = {
        .base = (uint8_t *)address - lead, .length_bytes = whole, .fd = -1};
    struct reply reply;
    int r = request_alloc(session, whole, REGION_IN_PLACE, (uint64_t)(uintptr_t)memory.base, fd,
                          &reply);
    if (r < 0)
        return r;
    const Tca__RegionGranted *granted = reply.message->region_granted;
    const uint64_t id = granted->region;
    if (granted->bytes != whole || take_handle(region, granted) < 0)
        r = error_static(-EPROTO, "tcad granted a region of another size, or without a handle");
    reply_free(&reply);
    region->mapped = (struct mapped_region){.id = id,
                                            .bytes = whole,
                                            .address = (uint64_t)(uintptr_t)memory.base,
                                            .base = memory.base,
                                            .fd = -1,
                                            .own = true,
                                            .in_place = true};
    region->lead_bytes = lead;
    region->bytes = bytes;
    region->handle.offset_bytes = lead;
    region->handle.length_bytes = bytes;
    if (r == 0)
        r = session->shm->ops->region_add(session->shm, &memory, &region->mapped.driver_region);
    if (r < 0)
        free_at_daemon(session, id);
    return r;
}

int tca_region_attach(struct tca *session, void *address, uint64_t bytes,
                      struct tca_region **ret_region)
{
    struct tca_region *region;
    int fd;
    int r = control_usable(&session->control);
    if (r == 0)
        r = check_range(address, bytes);
    if (r == 0 && !(region = calloc(1, sizeof(*region))))
        r = error_static(-ENOMEM, "out of memory");
    if (r < 0)
        return r;
    region->session = session;
    if ((r = inplace_share(address, bytes, &fd)) < 0) {
        free(region);
        return r;
    }
    if ((r = request_in_place(region, address, bytes, fd)) < 0) {
        inplace_unshare(address, bytes);
        free(region);
        return r;
    }
    mapping_insert(session, &region->mapped);
    region->next = session->regions;
    session->regions = region;
    *ret_region = region;
    return 0;
}

/* ---- the end ---- */

int tca_region_free(struct tca_region *region)
{
    if (!region)
        return 0;
    if (region->heap)
        return error_set(-EINVAL, "region %llu belongs to tca_alloc(): use tca_free()",
                         (unsigned long long)region->mapped.id);
    return region_free(region);
}

int region_free(struct tca_region *region)
{
    struct tca *session = region->session;
    if (region->mapped.uses > 0)
        return error_set(
            -EBUSY,
            "region %llu is in use: plans of this session put from it or into it: free them first",
            (unsigned long long)region->mapped.id);
    int r = free_at_daemon(session, region->mapped.id);
    if (r < 0 && !session->control.lost) /* a lost daemon has freed the region */
        return r;
    lanes_forget_region(session, &region->mapped);
    session->forget_region(session, &region->mapped);
    struct tca_region **link = &session->regions;
    while (*link != region)
        link = &(*link)->next;
    *link = region->next;
    mapping_remove(session, &region->mapped);
    unmap(region);
    return 0;
}

void *tca_region_address(const struct tca_region *region)
{
    return region_base(region);
}

uint64_t tca_region_bytes(const struct tca_region *region)
{
    return region->bytes;
}

int tca_region_handle(const struct tca_region *region, uint64_t offset_bytes, uint64_t length_bytes,
                      struct tca_handle *ret_handle)
{
    struct handle handle = region->handle;
    uint64_t bytes = region->bytes;
    if (offset_bytes > bytes)
        return error_set(-EINVAL, "offset %llu is outside the region's %llu bytes",
                         (unsigned long long)offset_bytes, (unsigned long long)bytes);
    if (length_bytes == TCA_ALL)
        length_bytes = bytes - offset_bytes;
    if (length_bytes > bytes - offset_bytes)
        return error_set(-EINVAL, "%llu bytes from offset %llu exceed the region's %llu bytes",
                         (unsigned long long)length_bytes, (unsigned long long)offset_bytes,
                         (unsigned long long)bytes);
    handle.offset_bytes += offset_bytes;
    handle.length_bytes = length_bytes;
    handle_sign(&handle, region->secret);
    handle_encode(&handle, ret_handle->bytes);
    return 0;
}

static int decode(const struct tca_handle *handle, struct handle *ret_handle)
{
    int r = handle_decode(handle->bytes, ret_handle);
    if (r < 0)
        return error_set(-EINVAL, "the handle %s", handle_fault(handle->bytes));
    return 0;
}

int tca_handle_node(const struct tca_handle *handle)
{
    struct handle decoded;
    int r = decode(handle, &decoded);
    return r < 0 ? r : (int)decoded.node;
}

int64_t tca_handle_bytes(const struct tca_handle *handle)
{
    struct handle decoded;
    int r = decode(handle, &decoded);
    return r < 0 ? r : (int64_t)decoded.length_bytes;
}

struct mapped_region *region_of_handle(const struct tca *session, const struct tca_handle *given)
{
    struct handle handle;
    struct tca_region *region = session->regions;
    if (handle_decode(given->bytes, &handle) < 0)
        return NULL;
    while (region && (region->handle.incarnation != handle.incarnation ||
                      region->handle.region != handle.region))
        region = region->next;
    return region ? &region->mapped : NULL;
}
