/* Regions of other processes, for programs that load and store there themselves. */
#include <errno.h>

#include "client/core/error.h"
#include "client/core/segment.h"
#include "client/core/session.h"
#include "client/include/tca.h"
#include "client/memory/mapping.h"
#include "client/memory/reach.h"
#include "proto/handle.h"

/* Asks tcad, which checks the handle, for the region, and maps it. */
int region_reach(struct tca *session, const struct tca_handle *handle,
                 int (*map)(struct tca *session, const Tca__Mapping *mapping, struct frame *frame,
                            struct mapped_region **ret_region),
                 struct mapped_region **ret_region)
{
    Tca__RegionReach body = TCA__REGION_REACH__INIT;
    const Tca__Message request = REQUEST(REGION_REACH, region_reach, &body);
    struct reply reply;
    body.handle = (ProtobufCBinaryData){sizeof(handle->bytes), (uint8_t *)handle->bytes};
    int r = session_request(session, &request, TCA__MESSAGE__BODY_REGION_REACHED, &reply);
    if (r < 0)
        return r;
    r = map(session, reply.message->region_reached, reply.frame, ret_region);
    reply_free(&reply);
    return r;
}

void *tca_reach(struct tca *session, const struct tca_handle *handle)
{
    struct mapped_region *region;
    struct handle part;
    if (handle_decode(handle->bytes, &part) < 0) {
        error_set(-EINVAL, "the handle %s", handle_fault(handle->bytes));
        return NULL;
    }
    if (part.node != session->node) {
        error_set(-EOPNOTSUPP,
                  "the handle's memory is on node %u, this process on node %u: put instead",
                  part.node, session->node);
        return NULL;
    }
    if (region_reach(session, handle, mapping_reach, &region) < 0)
        return NULL;
    if (part.offset_bytes > region->bytes ||
        part.length_bytes > region->bytes - part.offset_bytes) {
        error_set(-EPROTO, "tcad sent a region of %llu bytes for a handle of bytes %llu + %llu",
                  (unsigned long long)region->bytes, (unsigned long long)part.offset_bytes,
                  (unsigned long long)part.length_bytes);
        return NULL;
    }
    uint8_t *address = region->base + part.offset_bytes;
    if (part.length_bytes > 0 && segment_populate(address, part.length_bytes) < 0)
        return NULL;
    return address;
}
