/* The memory of messages: layouts, and copies of what is not where a plan can reach it. */
#include "client/msg/msg.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/core/error.h"
#include "client/core/layouts.h"

int msg_gather(const struct tca_msg_request *request, void *data)
{
    uint64_t position = 0;

    if (request->layout)
        return tca_pack(request->layout, request->address, data, request->room, &position);
    if (request->room > 0)
        memcpy(data, request->address, request->room);
    return 0;
}

/* Whether a plan can reach the memory: all of it is in one region. Its first byte, or the layout's
 * base, and its length. */
static bool in_region(const struct tca_msg_request *request, const uint8_t **ret_first,
                      uint64_t *ret_bytes, struct tca_region **ret_region)
{
    int64_t lower = 0, upper = (int64_t)request->room;
    uint64_t offset;

    if (request->layout)
        tca_layout_bounds(request->layout, &lower, &upper);
    if (lower > 0)
        lower = 0;
    *ret_first = (const uint8_t *)request->address + lower;
    *ret_bytes = (uint64_t)(upper - lower);
    return upper > lower &&
           tca_region_of(request->msg->session, *ret_first, ret_region, &offset) >= 0 &&
           *ret_bytes <= tca_region_bytes(*ret_region) - offset;
}

int msg_staging_new(struct tca_msg_request *request)
{
    if (request->staging)
        return 0;
    const int r = tca_alloc(request->msg->session, request->room, &request->staging);
    if (r == 0)
        request->msg->staged_bytes += request->room;
    return r;
}

int msg_place(struct tca_msg_request *request, bool pack, void **ret_memory)
{
    struct tca_region *region;
    const uint8_t *first;
    uint64_t bytes;
    bool own = !(pack && request->layout) && in_region(request, &first, &bytes, &region);

    int r = own ? 0 : msg_staging_new(request);
    if (r < 0)
        return r;
    *ret_memory = own ? request->address : request->staging;
    return 0;
}

/* ---- notes */

/* Of memory with a layout, which the sender is to know. False: it has to be staged. A message that
 * is shorter is put in parts. */
static bool describe(const struct tca_msg_request *request, struct msg_note *note, uint8_t *layout,
                     int *ret_layout_bytes, const uint8_t **ret_first, uint64_t *ret_bytes)
{
    const size_t room = TCA_MSG_EAGER_BYTES - sizeof(*note);
    struct tca_region *region;

    if (!request->layout || request->staging || !in_region(request, ret_first, ret_bytes, &region))
        return false;
    *ret_layout_bytes = layout_export(request->layout, layout, room);
    note->base_bytes = (uint64_t)((const uint8_t *)request->address - *ret_first);
    return *ret_layout_bytes > 0;
}

int msg_note_make(struct tca_msg_request *request, uint64_t bytes,
                  uint8_t ret_payload[TCA_MSG_EAGER_BYTES])
{
    struct msg_note note = {.bytes = bytes};
    const uint8_t *first = NULL;
    uint64_t length = bytes;
    void *memory = NULL;
    int layout_size = 0, r = 0;

    if (bytes > 0 &&
        !describe(request, &note, ret_payload + sizeof(note), &layout_size, &first, &length)) {
        layout_size = 0;
        note.base_bytes = 0;
        length = bytes;
        r = msg_place(request, true, &memory);
        first = memory;
    }
    if (r >= 0 && bytes > 0)
        r = tca_handle_of(request->msg->session, first, length, &note.handle);
    memcpy(ret_payload, &note, sizeof(note));
    return r < 0 ? r : (int)sizeof(note) + layout_size;
}

int msg_note_read(const struct msg_head *head, const uint8_t *payload,
                  struct msg_target *ret_target)
{
    struct tca_layout *layout = NULL;
    struct msg_note note;

    memcpy(&note, payload, sizeof(note));
    if (head->bytes > sizeof(note)) {
        int r = layout_import(payload + sizeof(note), head->bytes - sizeof(note), &layout);
        if (r < 0)
            return r;
    }
    if (layout && tca_layout_size(layout) < note.bytes) {
        tca_layout_free(layout);
        return error_set(-EPROTO, "a layout of less than its %llu bytes",
                         (unsigned long long)note.bytes);
    }
    *ret_target = (struct msg_target){.bytes = note.bytes,
                                      .handle = note.handle,
                                      .base_bytes = note.base_bytes,
                                      .layout = layout};
    return 0;
}

int msg_put_to(struct tca_plan *plan, const struct msg_target *target, const void *source,
               const struct tca_layout *source_layout, uint64_t bytes)
{
    struct tca_layout *flat = NULL;
    struct tca_put put = {.source_address = source,
                          .source_layout = source_layout,
                          .target = target->handle,
                          .target_offset_bytes = target->base_bytes,
                          .target_layout = target->layout};
    int r = 0;

    if (!source_layout) {
        r = tca_layout_contiguous(bytes, &flat);
        put.source_layout = flat;
    }
    put.parts = target->layout && tca_layout_size(target->layout) > bytes;
    if (r >= 0)
        r = tca_plan_put(plan, &put);
    tca_layout_free(flat);
    return r;
}
