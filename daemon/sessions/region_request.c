/* Requests of sessions: allocate, free and reach regions. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "daemon/base/remedy.h"
#include "daemon/sessions/region.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"
#include "proto/namespace.h"

void region_grant(struct session *session, uint32_t tag, struct region *region)
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
    Tca__RegionGranted granted = BODY_OF(
        region_granted, .region = region->id, .address = region->address, .bytes = region->bytes,
        .handle = (ProtobufCBinaryData){sizeof(bytes), bytes}, .secret_0 = region->secret[0],
        .secret_1 = region->secret[1], .pages = region->pages);
    const Tca__Message message = MESSAGE_OF(REGION_GRANTED, region_granted, &granted);
    session_answer(session, tag, &message, &region->fd, region->offset_bytes ? 0 : 1);
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

/* Charges the bookkeeping of one more region to the user. */
static bool may_know(struct session *session, uint32_t tag, struct charge *charge)
{
    enum { REGISTRATION_BYTES = 1024 }; /* bookkeeping in drivers */
    char text[512];
    int r = charge_take(session->tcad, charge, session->uid, USER_REGIONS,
                        sizeof(struct region) + REGISTRATION_BYTES, "a region", text, sizeof(text));
    if (r < 0)
        session_fail(session, tag, r, "%s", text);
    return r == 0;
}

/* Creates a region with an address and memory. */
static int make(struct session *session, uint64_t bytes, struct region **ret_region)
{
    struct region *region;
    int r = region_new(session, bytes, &region);
    if (r < 0)
        return r;
    r = region_place(region);
    if (r == 0)
        r = region_memory_new(region);
    if (r < 0) {
        region_unref(region);
        return r;
    }
    *ret_region = region;
    return 0;
}

static const char *remedy(const struct tcad_conf *conf, int error)
{
    if (error == -ENOSPC)
        return "the reserved address range (memory.reserved) has no gap of this size";
    if (remedy_of(error))
        return remedy_of(error);
    if (conf->memory.huge_pages == CONF_HUGE_PAGES_REQUIRE)
        return "memory.huge_pages is \"require\": reserve huge pages (vm.nr_hugepages) or set it "
               "to \"try\"";
    return "free memory or request less";
}

static void allocate(struct session *session, uint32_t tag, const Tca__RegionAlloc *alloc)
{
    const struct tcad_conf *conf = session->tcad->conf;
    char text[400];

    if (alloc->bytes == 0 || alloc->bytes > conf->memory.reserved_bytes || alloc->flags) {
        session_fail(session, tag, -EINVAL,
                     "region of %" PRIu64 " bytes: the size must be from 1 to %" PRIu64
                     " (memory.reserved)",
                     alloc->bytes, conf->memory.reserved_bytes);
        return;
    }
    const uint64_t bytes = region_round(session->tcad, alloc->bytes);
    if (region_may_have(session, bytes, text, sizeof(text)) ||
        !region_alloc_wait(session, tag, bytes))
        region_alloc_again(session, tag, bytes);
}

bool region_admit(struct session *session, uint32_t tag, uint64_t bytes, struct charge *ret_charge)
{
    char text[400];
    if (!has_place(session, tag))
        return false;
    if (!region_may_have(session, bytes, text, sizeof(text))) {
        session_fail(session, tag, -EDQUOT, "region of %" PRIu64 " bytes: %s", bytes, text);
        return false;
    }
    return may_know(session, tag, ret_charge);
}

void region_alloc_again(struct session *session, uint32_t tag, uint64_t bytes)
{
    struct region *region;
    struct charge charge = {0};
    if (!region_admit(session, tag, bytes, &charge))
        return;
    int r = make(session, bytes, &region);
    if (r < 0) {
        charge_drop(&charge);
        session_fail(session, tag, r, "region of %" PRIu64 " bytes: %s; %s", bytes, strerror(-r),
                     remedy(session->tcad->conf, r));
        return;
    }
    region->charge = charge;
    region_add(session, region);
    region_charge(region, bytes);
    region_grant(session, tag, region);
}

void region_alloc(struct session *session, uint32_t tag, const Tca__RegionAlloc *alloc, int *fd)
{
    if (alloc->flags == REGION_IN_PLACE)
        region_in_place(session, tag, alloc, fd);
    else if (alloc->flags == REGION_DMABUF)
        region_import(session, tag, alloc->bytes, fd);
    else
        allocate(session, tag, alloc);
}

void region_free_request(struct session *session, uint32_t tag, const Tca__RegionFree *request)
{
    struct region *region = region_of_session(session, request->region);
    if (!region) {
        session_fail(session, tag, -EINVAL,
                     "region %" PRIu64 " does not belong to session %" PRIu64, request->region,
                     session->id);
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
    session_done(session, tag);
}

void region_reach(struct session *session, uint32_t tag, const Tca__RegionReach *reach)
{
    struct region *region;
    struct handle handle;
    char text[256];
    int r = region_resolve(session->tcad, reach->handle.data, reach->handle.len, session->uid,
                           &region, &handle, text, sizeof(text));
    if (r < 0) {
        session_fail(session, tag, r, "%s", text);
        return;
    }
    Tca__Mapping mapping =
        BODY_OF(mapping, .region = region->id, .region_address = region->address,
                .region_bytes = region->bytes, .region_fd = 1,
                .region_offset = region->offset_bytes, .owner = region->session_id,
                .owner_pid = (uint32_t)region->session->pid, .pid_namespace = pid_namespace());
    const Tca__Message message = MESSAGE_OF(REGION_REACHED, region_reached, &mapping);
    session_answer(session, tag, &message, &region->fd, 1);
}
