#include "daemon/region.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "daemon/log.h"
#include "daemon/plan.h"
#include "daemon/session.h"
#include "daemon/space.h"
#include "daemon/tcad.h"
#include "daemon/worker.h"

enum {
    BUCKETS = 1024,
    ALLOCS_MAX = 16, /* of one session under way: the worker is everybody's, and goes on when the
                        session has ended */
};

struct regions {
    struct space *space;
    struct region *buckets[BUCKETS];
    uint64_t count, bytes;
};

int regions_new(struct tcad *tcad, struct regions **ret_regions)
{
    struct regions *regions = calloc(1, sizeof *regions);
    if (!regions)
        return -ENOMEM;
    int r = space_new(tcad->conf->memory.base, tcad->conf->memory.reserved_bytes, &regions->space);
    if (r < 0) {
        free(regions);
        return r;
    }
    *ret_regions = regions;
    return 0;
}

struct regions *regions_free(struct regions *regions)
{
    if (!regions)
        return NULL;
    assert(regions->count == 0);
    space_free(regions->space);
    free(regions);
    return NULL;
}

uint64_t regions_count(const struct regions *regions)
{
    return regions->count;
}

uint64_t regions_bytes(const struct regions *regions)
{
    return regions->bytes;
}

void regions_each(const struct regions *regions,
                  void (*each)(void *context, const struct region *region), void *context)
{
    for (int i = 0; i < BUCKETS; i++)
        for (const struct region *region = regions->buckets[i]; region; region = region->next)
            each(context, region);
}

/* ---- making one ---- */

struct alloc_job {
    struct tcad *tcad;
    uint64_t session;
    uint32_t tag;
    struct region *region;
    int error;
    uint64_t available_bytes; /* error -ENOMEM: so much was available; 0: nobody counted */
};

uint64_t region_user_bytes(const struct tcad *tcad, uid_t uid)
{
    uint64_t bytes = 0;
    for (const struct session *session = tcad->sessions; session; session = session->next)
        if (session->uid == uid)
            bytes += session->region_bytes;
    return bytes;
}

/* On the worker. */
static void alloc_work(void *context)
{
    struct alloc_job *job = context;
    job->error =
        region_memory_new(job->region, job->tcad->conf->memory.huge_pages, &job->available_bytes);
}

static void region_destroy(struct region *region)
{
    for (int rail = 0; rail < RAIL_COUNT; rail++) {
        if (!region->on[rail])
            continue;
        struct driver *driver = engine_driver(region->tcad->engine, rail);
        driver->ops->region_remove(driver, region->on[rail]);
    }
    if (region->base)
        munmap(region->base, region->memory_bytes);
    if (region->fd >= 0)
        close(region->fd);
    if (!region->attached)
        space_give(region->tcad->regions->space, region->address);
    explicit_bzero(region->key, sizeof region->key);
    free(region);
}

static void grant(struct session *session, uint32_t tag, struct region *region)
{
    struct handle handle = {
        .node = region->tcad->node,
        .incarnation = region->tcad->incarnation,
        .region = region->id,
        .key = {region->key[0], region->key[1]},
        .length_bytes = region->bytes,
    };
    uint8_t bytes[HANDLE_BYTES];
    handle_encode(&handle, bytes);
    Tca__RegionGranted granted = TCA__REGION_GRANTED__INIT;
    granted.region = region->id;
    granted.address = region->address;
    granted.bytes = region->bytes;
    granted.handle = (ProtobufCBinaryData){sizeof bytes, bytes};
    Tca__Message message = TCA__MESSAGE__INIT;
    message.body_case = TCA__MESSAGE__BODY_REGION_GRANTED;
    message.region_granted = &granted;
    session_answer(session, tag, &message, &region->fd, region->attached ? 0 : 1);
}

uint64_t region_round(const struct tcad *tcad, uint64_t bytes)
{
    uint64_t page = tcad->conf->memory.huge_pages == CONF_HUGE_PAGES_REQUIRE
                        ? SPACE_ALIGN_BYTES
                        : (uint64_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

void region_charge(struct region *region, uint64_t bytes)
{
    region->memory_bytes = bytes;
    region->session->region_bytes += bytes;
    region->tcad->regions->bytes += bytes;
}

static void add(struct session *session, struct region *region)
{
    struct regions *regions = region->tcad->regions;
    struct region **bucket = &regions->buckets[region->id % BUCKETS];
    region->next = *bucket;
    *bucket = region;
    region->session = session;
    region->next_of_session = session->regions;
    session->regions = region;
    regions->count++;
    regions->bytes += region->memory_bytes;
}

static void alloc_done(void *context)
{
    struct alloc_job *job = context;
    struct region *region = job->region;
    struct session *session = session_find(job->tcad, job->session);

    if (session)
        session->allocs--;
    if (session && job->available_bytes)
        session_fail(session, job->tag, job->error,
                     "region of %" PRIu64 " bytes: node %s has %" PRIu64
                     " available (MemAvailable, MemoryMax=), and keeps a "
                     "sixteenth: free memory or ask for less",
                     region->bytes, job->tcad->conf->node.name, job->available_bytes);
    else if (session && job->error < 0)
        session_fail(
            session, job->tag, job->error, "region of %" PRIu64 " bytes: %s; %s", region->bytes,
            strerror(-job->error),
            job->error == -EFBIG
                ? "tcad may not make files of that length: raise its LimitFSIZE= (ulimit -f)"
            : job->tcad->conf->memory.huge_pages == CONF_HUGE_PAGES_REQUIRE
                ? "memory.huge_pages is \"require\": reserve huge pages (vm.nr_hugepages) or set "
                  "it to \"try\""
                : "free memory or ask for less");
    if (!session || job->error < 0) {
        if (session) {
            session->region_bytes -= region->bytes;
            session->region_count--;
        }
        region_destroy(region);
    } else {
        add(session, region);
        grant(session, job->tag, region);
    }
    free(job);
}

static bool has_place(struct session *session, uint32_t tag)
{
    const struct tcad_conf *conf = session->tcad->conf;
    if (session->region_count < conf->limits.regions_per_session)
        return true;
    session_fail(session, tag, -EDQUOT,
                 "session %" PRIu64 " has %" PRIu32
                 " regions, limits.regions_per_session is %" PRIu32
                 ": free some, or allocate fewer, larger ones",
                 session->id, session->region_count, conf->limits.regions_per_session);
    return false;
}

/* Memory that the process has: nothing is made here but its name. Who it belongs to checks what is
 * put there, with its own page tables: an address that is not there harms nobody but who attached
 * it. */
static void attach(struct session *session, uint32_t tag, const Tca__RegionAlloc *alloc)
{
    uint64_t end;
    if (alloc->bytes == 0 || alloc->address == 0 ||
        __builtin_add_overflow(alloc->address, alloc->bytes, &end) || end > INT64_MAX) {
        session_fail(session, tag, -EINVAL,
                     "memory of %" PRIu64 " bytes at 0x%" PRIx64 " cannot be attached",
                     alloc->bytes, alloc->address);
        return;
    }
    if (!has_place(session, tag))
        return;
    struct region *region = calloc(1, sizeof *region);
    if (!region || getrandom(region->key, sizeof region->key, 0) != sizeof region->key) {
        session_fail(session, tag, -ENOMEM, "no memory for a region");
        free(region);
        return;
    }
    region->tcad = session->tcad;
    region->id = ++session->tcad->next_region;
    region->session_id = session->id;
    region->uid = session->uid;
    region->bytes = alloc->bytes;
    region->address = alloc->address;
    region->key_address = alloc->key_address;
    region->attached = true;
    region->fd = -1;
    region->refs = 1;
    session->region_count++;
    add(session, region);
    grant(session, tag, region);
}

void region_alloc(struct session *session, uint32_t tag, const Tca__RegionAlloc *alloc)
{
    if (alloc->flags == REGION_ATTACHED) {
        attach(session, tag, alloc);
        return;
    }
    struct tcad *tcad = session->tcad;
    const struct tcad_conf *conf = tcad->conf;

    if (alloc->bytes == 0 || alloc->bytes > conf->memory.reserved_bytes || alloc->flags) {
        session_fail(session, tag, -EINVAL,
                     "region of %" PRIu64 " bytes: 1 to %" PRIu64 " (memory.reserved) are possible",
                     alloc->bytes, conf->memory.reserved_bytes);
        return;
    }
    if (!has_place(session, tag))
        return;
    if (session->allocs >= ALLOCS_MAX) {
        session_fail(session, tag, -EBUSY,
                     "%d allocations of session %" PRIu64
                     " are under way: wait for their answers first",
                     ALLOCS_MAX, session->id);
        return;
    }
    uint64_t fds = session_user_fds(tcad, session->uid), fds_max = session_user_fds_max(tcad);
    if (fds >= fds_max) {
        session_fail(session, tag, -EDQUOT,
                     "user %u has %" PRIu64 " of the %" PRIu64
                     " descriptors that tcad gives one user (3/4 of its LimitNOFILE=), "
                     "one a region: free some, or allocate fewer, larger ones",
                     session->uid, fds, fds_max);
        return;
    }
    uint64_t bytes = region_round(tcad, alloc->bytes);
    uint64_t used = region_user_bytes(tcad, session->uid),
             limit = conf->memory.region_bytes_per_user;
    if (bytes > limit || used > limit - bytes) {
        session_fail(session, tag, -EDQUOT,
                     "region of %" PRIu64 " bytes: user %u has %" PRIu64 " of %" PRIu64
                     " (memory.region_bytes_per_user): free regions or have the limit raised",
                     bytes, session->uid, used, limit);
        return;
    }
    struct region *region = calloc(1, sizeof *region);
    struct alloc_job *job = calloc(1, sizeof *job);
    int r = region && job
                ? space_take(tcad->regions->space, bytes, region ? &region->address : NULL)
                : -ENOMEM;
    if (r < 0 || getrandom(region->key, sizeof region->key, 0) != sizeof region->key) {
        if (r == 0) {
            space_give(tcad->regions->space, region->address);
            r = -EIO;
        }
        session_fail(session, tag, r, "region of %" PRIu64 " bytes: %s", bytes,
                     r == -ENOSPC
                         ? "the reserved address range (memory.reserved) has no gap as large"
                         : strerror(-r));
        free(region);
        free(job);
        return;
    }
    region->tcad = tcad;
    region->id = ++tcad->next_region;
    region->session_id = session->id;
    region->uid = session->uid;
    region->bytes = region->memory_bytes = bytes;
    region->fd = -1;
    region->refs = 1;
    session->region_bytes +=
        bytes; /* from now on, so that parallel requests cannot pass the quota */
    session->region_count++;
    session->allocs++;
    *job = (struct alloc_job){.tcad = tcad, .session = session->id, .tag = tag, .region = region};
    r = worker_submit(tcad->worker, alloc_work, alloc_done, job);
    if (r < 0) {
        job->error = r;
        alloc_done(job);
    }
}

/* ---- ending one ---- */

struct region *region_ref(struct region *region)
{
    region->refs++;
    return region;
}

void region_unref(struct region *region)
{
    if (region && --region->refs == 0)
        region_destroy(region);
}

void region_end(struct region *region)
{
    struct tcad *tcad = region->tcad;
    struct session *session = region->session;
    assert(session);

    struct region **link = &tcad->regions->buckets[region->id % BUCKETS];
    while (*link != region)
        link = &(*link)->next;
    *link = region->next;
    for (link = &session->regions; *link != region; link = &(*link)->next_of_session)
        ;
    *link = region->next_of_session;
    tcad->regions->count--;
    tcad->regions->bytes -= region->memory_bytes;
    session->region_bytes -= region->memory_bytes;
    session->region_count--;
    region->session = NULL;
    plans_region_gone(region);
    region_unref(region);
}

struct region *region_of_session(const struct session *session, uint64_t id)
{
    struct region *region = session->regions;
    while (region && region->id != id)
        region = region->next_of_session;
    return region;
}

void region_free_request(struct session *session, uint32_t tag, const Tca__RegionFree *request)
{
    struct region *region = region_of_session(session, request->region);
    if (!region) {
        session_fail(session, tag, -EINVAL, "region %" PRIu64 " is none of session %" PRIu64,
                     request->region, session->id);
        return;
    }
    if (region->puts_from) {
        session_fail(session, tag, -EBUSY,
                     "region %" PRIu64 " is the source of %" PRIu32
                     " puts of plans: free the plans first",
                     region->id, region->puts_from);
        return;
    }
    region_end(region);
    Tca__Done done = TCA__DONE__INIT;
    Tca__Message message = TCA__MESSAGE__INIT;
    message.body_case = TCA__MESSAGE__BODY_DONE;
    message.done = &done;
    session_answer(session, tag, &message, NULL, 0);
}

/* ---- handles ---- */

int region_resolve(struct tcad *tcad, const uint8_t *bytes, size_t length, uid_t uid,
                   struct region **ret_region, struct handle *ret_handle, char *text,
                   size_t text_bytes)
{
    struct handle handle;
    if (length != HANDLE_BYTES) {
        snprintf(text, text_bytes, "a handle has 64 bytes, not %zu", length);
        return -EINVAL;
    }
    int r = handle_decode(bytes, &handle);
    if (r < 0) {
        snprintf(text, text_bytes, "the 64 bytes are no handle, or were garbled on their way");
        return -EINVAL;
    }
    if (handle.node != tcad->node) {
        snprintf(text, text_bytes, "the handle is of node %" PRIu32 ", this is node %" PRIu32,
                 handle.node, tcad->node);
        return -EINVAL;
    }
    if (handle.incarnation != tcad->incarnation) {
        snprintf(text, text_bytes,
                 "the handle is from before the daemon of node %" PRIu32
                 " was started anew: get a new one",
                 handle.node);
        return -ESTALE;
    }
    struct region *region = tcad->regions->buckets[handle.region % BUCKETS];
    while (region && region->id != handle.region)
        region = region->next;
    if (!region && handle.region > tcad->next_region) {
        snprintf(text, text_bytes,
                 "region %" PRIu64 " of node %" PRIu32 " has never been: the handle was forged",
                 handle.region, handle.node);
        return -EACCES;
    }
    if (!region) {
        snprintf(text, text_bytes,
                 "region %" PRIu64 " of node %" PRIu32 " was freed: get a new handle",
                 handle.region, handle.node);
        return -ESTALE;
    }
    if (region->key[0] != handle.key[0] || region->key[1] != handle.key[1]) {
        snprintf(text, text_bytes,
                 "the handle's key is not that of region %" PRIu64 " of node %" PRIu32,
                 handle.region, handle.node);
        return -EACCES;
    }
    if (region->session->closing) {
        snprintf(text, text_bytes,
                 "the process that owned region %" PRIu64 " of node %" PRIu32 " has ended",
                 handle.region, handle.node);
        return -EOWNERDEAD;
    }
    if (region->uid != uid) {
        snprintf(text, text_bytes,
                 "region %" PRIu64 " of node %" PRIu32 " belongs to another user (%u, not %u)",
                 handle.region, handle.node, region->uid, uid);
        return -EACCES;
    }
    if (handle.offset_bytes > region->bytes ||
        handle.length_bytes > region->bytes - handle.offset_bytes) {
        snprintf(text, text_bytes,
                 "the handle names bytes %" PRIu64 " + %" PRIu64 " of region %" PRIu64
                 " of node %" PRIu32 ", which has %" PRIu64,
                 handle.offset_bytes, handle.length_bytes, handle.region, handle.node,
                 region->bytes);
        return -EACCES;
    }
    *ret_region = region;
    *ret_handle = handle;
    return 0;
}
