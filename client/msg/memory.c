/* The memory of messages: layouts, and copies of what is not where a plan can reach it. */
#include "client/msg/msg.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/core/error.h"

int msg_gather(const struct tca_msg_request *request, void *data)
{
    uint64_t position = 0;

    if (request->layout)
        return tca_pack(request->layout, request->address, data, request->room, &position);
    if (request->room > 0)
        memcpy(data, request->address, request->room);
    return 0;
}

/* A message shorter than the layout fills the first of its bytes, in packed order: the others are
 * read and written again. */
static int scatter_part(const struct tca_msg_request *request, const void *data, uint64_t bytes)
{
    uint8_t *whole = malloc(request->room);
    uint64_t position = 0;

    if (!whole)
        return error_static(-ENOMEM, "message: out of memory");
    int r = tca_pack(request->layout, request->address, whole, request->room, &position);
    memcpy(whole, data, bytes);
    position = 0;
    if (r >= 0)
        r = tca_unpack(request->layout, request->address, whole, request->room, &position);
    free(whole);
    return r;
}

int msg_scatter(const struct tca_msg_request *request, const void *data, uint64_t bytes)
{
    uint64_t position = 0;

    if (bytes == 0)
        return 0;
    if (request->layout && bytes < request->room)
        return scatter_part(request, data, bytes);
    if (request->layout)
        return tca_unpack(request->layout, request->address, data, bytes, &position);
    memcpy(request->address, data, bytes);
    return 0;
}

/* Whether a plan can reach the memory: all of it is in one region. */
static bool in_region(const struct tca_msg_request *request)
{
    int64_t lower = 0, upper = (int64_t)request->room;
    struct tca_region *region;
    uint64_t offset;

    if (request->layout)
        tca_layout_bounds(request->layout, &lower, &upper);
    const uint8_t *first = (const uint8_t *)request->address + lower;
    return tca_region_of(request->msg->session, first, &region, &offset) >= 0 &&
           (uint64_t)(upper - lower) <= tca_region_bytes(region) - offset;
}

int msg_place(struct tca_msg_request *request, bool pack, void **ret_memory)
{
    bool own = !(pack && request->layout) && in_region(request);

    if (!own && !request->staging) {
        int r = tca_alloc(request->msg->session, request->room, &request->staging);
        if (r < 0)
            return r;
    }
    *ret_memory = own ? request->address : request->staging;
    return 0;
}
