/* What sessions ask for: memory of ours, a name for memory of theirs, the end of either. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/region.h"
#include "daemon/session.h"
#include "daemon/tcad.h"
#include "daemon/worker.h"

enum {
    ALLOCS_MAX = 16, /* of one session under way: the worker is everybody's, and goes on when the
                        session has ended */
};

struct alloc_job {
    struct tcad *tcad;
    uint64_t session;
    uint32_t tag;
    struct region *region;
    int error;
    uint64_t available_bytes; /* error -ENOMEM: so much was available; 0: nobody counted */
};

/* On the worker. */
static void alloc_work(void *context)
{
    struct alloc_job *job = context;
    job->error =
        region_memory_new(job->region, job->tcad->conf->memory.huge_pages, &job->available_bytes);
}

static void grant(struct session *session, uint32_t tag, struct region *region)
{
    struct handle handle = {
        .node = region->tcad->node,
        .incarnation = region->tcad->incarnation,
        .region = region->id,
        .length_bytes = region->bytes,
    };
    uint8_t bytes[HANDLE_BYTES];
    handle_sign(&handle, region->secret);
    handle_encode(&handle, bytes);
    Tca__RegionGranted granted = TCA__REGION_GRANTED__INIT;
    granted.region = region->id;
    granted.address = region->address;
    granted.bytes = region->bytes;
    granted.handle = (ProtobufCBinaryData){sizeof bytes, bytes};
    granted.secret_0 = region->secret[0];
    granted.secret_1 = region->secret[1];
    Tca__Message message = TCA__MESSAGE__INIT;
    message.body_case = TCA__MESSAGE__BODY_REGION_GRANTED;
    message.region_granted = &granted;
    session_answer(session, tag, &message, &region->fd, region->attached ? 0 : 1);
}

static void refuse(struct session *session, const struct alloc_job *job)
{
    const struct tcad_conf *conf = job->tcad->conf;
    const uint64_t bytes = job->region->bytes;
    if (job->available_bytes)
        session_fail(session, job->tag, job->error,
                     "region of %" PRIu64 " bytes: node %s has %" PRIu64
                     " available (MemAvailable, MemoryMax=), and keeps a "
                     "sixteenth: free memory or ask for less",
                     bytes, conf->node.name, job->available_bytes);
    else
        session_fail(
            session, job->tag, job->error, "region of %" PRIu64 " bytes: %s; %s", bytes,
            strerror(-job->error),
            job->error == -EFBIG
                ? "tcad may not make files of that length: raise its LimitFSIZE= (ulimit -f)"
            : conf->memory.huge_pages == CONF_HUGE_PAGES_REQUIRE
                ? "memory.huge_pages is \"require\": reserve huge pages (vm.nr_hugepages) or set "
                  "it to \"try\""
                : "free memory or ask for less");
}

static void alloc_done(void *context)
{
    struct alloc_job *job = context;
    struct region *region = job->region;
    struct session *session = session_find(job->tcad, job->session);

    if (session)
        session->allocs--;
    if (session && job->error == 0) {
        region_add(session, region);
        grant(session, job->tag, region);
    } else {
        if (session) {
            refuse(session, job);
            session->region_bytes -= region->bytes;
            session->region_count--;
        }
        region_unref(region);
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
    struct region *region;
    int r = region_new(session, alloc->bytes, &region);
    if (r < 0) {
        session_fail(session, tag, r, "region of %" PRIu64 " bytes: %s", alloc->bytes,
                     strerror(-r));
        return;
    }
    region->address = alloc->address;
    region->name_address = alloc->name_address;
    region->attached = true;
    session->region_count++;
    region_add(session, region);
    grant(session, tag, region);
}

/* Whether this session, and its user, may have so many bytes of ours more. */
static bool may_allocate(struct session *session, uint32_t tag, uint64_t bytes)
{
    struct tcad *tcad = session->tcad;
    if (!has_place(session, tag))
        return false;
    if (session->allocs >= ALLOCS_MAX) {
        session_fail(session, tag, -EBUSY,
                     "%d allocations of session %" PRIu64
                     " are under way: wait for their answers first",
                     ALLOCS_MAX, session->id);
        return false;
    }
    char text[256];
    if (!session_user_may_have(tcad, session->uid, 1, text, sizeof text)) {
        session_fail(session, tag, -EDQUOT, "%s", text);
        return false;
    }
    uint64_t used = region_user_bytes(tcad, session->uid),
             limit = tcad->conf->memory.region_bytes_per_user;
    if (bytes > limit || used > limit - bytes) {
        session_fail(session, tag, -EDQUOT,
                     "region of %" PRIu64 " bytes: user %u has %" PRIu64 " of %" PRIu64
                     " (memory.region_bytes_per_user): free regions or have the limit raised",
                     bytes, session->uid, used, limit);
        return false;
    }
    return true;
}

/* A region with an address, and the job that gives it memory. */
static int begin(struct session *session, uint64_t bytes, struct alloc_job **ret_job)
{
    struct region *region = NULL;
    struct alloc_job *job = calloc(1, sizeof *job);
    int r = job ? region_new(session, bytes, &region) : -ENOMEM;
    if (r == 0)
        r = region_place(region);
    if (r < 0) {
        region_unref(region);
        free(job);
        return r;
    }
    job->region = region;
    *ret_job = job;
    return 0;
}

static void allocate(struct session *session, uint32_t tag, const Tca__RegionAlloc *alloc)
{
    struct tcad *tcad = session->tcad;
    const struct tcad_conf *conf = tcad->conf;
    struct alloc_job *job;

    if (alloc->bytes == 0 || alloc->bytes > conf->memory.reserved_bytes || alloc->flags) {
        session_fail(session, tag, -EINVAL,
                     "region of %" PRIu64 " bytes: 1 to %" PRIu64 " (memory.reserved) are possible",
                     alloc->bytes, conf->memory.reserved_bytes);
        return;
    }
    uint64_t bytes = region_round(tcad, alloc->bytes);
    if (!may_allocate(session, tag, bytes))
        return;
    int r = begin(session, bytes, &job);
    if (r < 0) {
        session_fail(session, tag, r, "region of %" PRIu64 " bytes: %s", bytes,
                     r == -ENOSPC
                         ? "the reserved address range (memory.reserved) has no gap as large"
                         : strerror(-r));
        return;
    }
    /* Counted from now on, so that parallel requests cannot pass the quota. */
    session->region_bytes += bytes;
    session->region_count++;
    session->allocs++;
    job->tcad = tcad;
    job->session = session->id;
    job->tag = tag;
    r = worker_submit(tcad->worker, alloc_work, alloc_done, job);
    if (r < 0) {
        job->error = r;
        alloc_done(job);
    }
}

void region_alloc(struct session *session, uint32_t tag, const Tca__RegionAlloc *alloc)
{
    if (alloc->flags == REGION_ATTACHED)
        attach(session, tag, alloc);
    else
        allocate(session, tag, alloc);
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
