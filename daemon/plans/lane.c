#include "daemon/plans/lane.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/base/log.h"
#include "daemon/plans/plan.h"
#include "daemon/sessions/region.h"
#include "daemon/sessions/session.h"
#include "proto/list.h"

/* A lane from the session that has it in its list to another. */
struct lane_record {
    struct table_entry entry;
    struct session *from;
    struct lane_record *next_to, **link_to; /* in the list of the receiving session */
    uint32_t last_id;
    uint32_t count;
    bool used[LANE_PUTS_MAX];
};

/* Ids only increase, so a receiver that finds an unknown one can tell whether it is newer than all
 * that it was sent. */
static uint32_t take_id(struct lane_record *lane)
{
    if (lane->count == LANE_PUTS_MAX - 1)
        return 0;
    do
        lane->last_id++;
    while (lane->last_id == 0 || lane->used[lane->last_id % LANE_PUTS_MAX]);
    lane->used[lane->last_id % LANE_PUTS_MAX] = true;
    lane->count++;
    return lane->last_id;
}

static void give_id(struct lane_record *lane, uint32_t id)
{
    lane->used[id % LANE_PUTS_MAX] = false;
    lane->count--;
}

/* Makes a lane. Returns its descriptor or a negative errno. */
static int make(struct session *from, struct session *to, struct lane_record **ret_lane)
{
    char text[512];
    int r = charge_take(from->tcad, &from->charge, from->uid, USER_SESSIONS,
                        sizeof(struct lane_record), "a lane", text, sizeof(text));
    if (r < 0)
        return r;
    struct lane_record *lane = calloc(1, sizeof(*lane));
    int fd = lane ? session_segment_fd("tca-lane", sizeof(struct lane_segment)) : -ENOMEM;
    if (fd < 0) {
        charge_lower(&from->charge, sizeof(*lane));
        free(lane);
        return fd;
    }
    lane->from = from;
    table_add(&from->lanes, &lane->entry, to->id, lane);
    LIST_ADD(&to->lanes_to, lane, next_to, link_to);
    *ret_lane = lane;
    return fd;
}

static void tell(struct session *to, const struct plan *plan, const struct plan_transfer *transfer,
                 int lane_fd)
{
    Tca__Share share = TCA__SHARE__INIT;
    Tca__Event event = TCA__EVENT__INIT;
    int fds[2];
    uint32_t fd_count = 0;
    share.rank = plan->session->rank;
    share.id = transfer->share;
    share.target = transfer->share_target;
    share.source_region = transfer->source->id;
    share.source_address = transfer->source->address;
    share.source_region_offset = transfer->source->offset_bytes;
    share.source_bytes = transfer->source->bytes;
    share.source_offset = transfer->source_offset;
    share.source_layout = (ProtobufCBinaryData){layout_bytes(transfer->source_layout),
                                                (uint8_t *)transfer->source_layout};
    share.target_region = transfer->region->id;
    share.target_offset = transfer->handle.offset_bytes + transfer->target_offset;
    if (transfer->target_layout != transfer->source_layout)
        share.target_layout = (ProtobufCBinaryData){layout_bytes(transfer->target_layout),
                                                    (uint8_t *)transfer->target_layout};
    fds[fd_count++] = transfer->source->fd;
    share.source_fd = fd_count;
    if (lane_fd >= 0) {
        fds[fd_count++] = lane_fd;
        share.lane_fd = fd_count;
    }
    event.kind = TCA__EVENT__KIND__SHARE;
    event.share = &share;
    session_event_fds(to, &event, fds, fd_count);
}

bool lane_offer(struct plan *plan, struct plan_transfer *transfer, int *ret_lane_fd)
{
    struct session *from = plan->session, *to = session_find(plan->tcad, transfer->owner);
    /* A session that does not read its messages gets no more offers. */
    if (!to || to == from || !session_reads(to))
        return false;
    struct lane_record *lane = table_find(&from->lanes, transfer->owner);
    int fd = -1;
    if (!lane) {
        fd = make(from, to, &lane);
        if (fd < 0) {
            log_debug(NULL,
                      "no lane from session %llu to %llu: its puts are copied by the sender alone",
                      (unsigned long long)from->id, (unsigned long long)to->id);
            return false;
        }
    }
    transfer->share = take_id(lane);
    if (transfer->share == 0)
        return false; /* the lane is not new */
    transfer->share_target = session_target(to);
    *ret_lane_fd = fd;
    tell(to, plan, transfer, fd);
    return session_reads(
        to); /* otherwise the receiver could find entries of puts that it does not know yet */
}

void lane_withdraw(struct plan *plan, struct plan_transfer *transfer)
{
    if (transfer->share == 0 || !plan->session)
        return;
    struct lane_record *lane = table_find(&plan->session->lanes, transfer->owner);
    struct session *to = session_find(plan->tcad, transfer->owner);
    if (lane)
        give_id(lane, transfer->share);
    if (to)
        session_withdraw(to, transfer->share_target);
    transfer->share = 0;
}

static void drop(void *context, void *owner)
{
    struct lane_record *lane = owner;
    struct session *from = lane->from;
    table_remove(&from->lanes, &lane->entry);
    LIST_REMOVE(lane, next_to, link_to);
    charge_lower(&from->charge, sizeof(*lane));
    free(lane);
}

void lanes_drop(struct session *session)
{
    table_each(&session->lanes, drop, NULL);
    table_deinit(&session->lanes);
    while (session->lanes_to)
        drop(NULL, session->lanes_to);
}
