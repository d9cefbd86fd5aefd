/* Making and releasing a messenger. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/core/error.h"
#include "client/core/slots.h"
#include "client/msg/msg.h"

/* What ranks exchange about themselves: plain data, for tca_allgather(). */
struct greeting {
    int32_t error; /* a negative errno: this rank has failed */
    uint32_t slot;
    struct tca_handle areas;
};

static int prepare(struct tca_msg *msg, const struct tca_plan_args *args, struct greeting *ret)
{
    if (args && args->group)
        return error_static(-EINVAL, "message: a messenger is for all ranks of the session");
    if (args)
        msg->args = *args;
    snprintf(msg->name, sizeof(msg->name), "%.48s", args && args->name ? args->name : "msg");
    msg->peers = calloc(msg->size, sizeof(*msg->peers));
    if (!msg->peers)
        return error_static(-ENOMEM, "message: out of memory");
    ret->slot = msg->slot = slots_take(msg->session, MSG_SLOTS);
    int r = tca_region_alloc(msg->session, msg->size * sizeof(struct msg_area), &msg->areas);
    return r < 0 ? r : tca_region_handle(msg->areas, 0, TCA_ALL, &ret->areas);
}

static int meet(struct tca_msg *msg, int error, struct greeting *mine)
{
    struct greeting *all = calloc(msg->size, sizeof(*all));
    char text[512] = "";

    if (!all)
        return error_static(-ENOMEM, "message: out of memory");
    mine->error = error;
    if (error < 0)
        snprintf(text, sizeof(text), "%s", tca_error_text());
    msg->shared = error >= 0; /* unless all ranks learn that one has failed */
    int r = tca_allgather(msg->session, mine, sizeof(*mine), all, TCA_DEFAULT);
    if (error < 0)
        r = error_set(error, "%s", text);
    else if (r >= 0 && memcmp(&all[tca_rank(msg->session)], mine, sizeof(*mine)) != 0)
        r = error_static(-EPROTO, "the other ranks have made a messenger that has failed here");
    for (uint32_t rank = 0; r >= 0 && rank < msg->size; rank++) {
        struct msg_peer *peer = &msg->peers[rank];
        if (all[rank].error < 0) {
            msg->shared = false;
            r = error_set(all[rank].error, "rank %u could not make a messenger: %s", rank,
                          tca_strerror(all[rank].error));
        }
        peer->rank = rank;
        peer->slot = all[rank].slot;
        peer->near = tca_node_of(msg->session, rank) == (int)tca_node(msg->session);
        peer->area = all[rank].areas;
        peer->area_bytes = tca_rank(msg->session) * sizeof(struct msg_area);
        peer->here = (struct msg_area *)tca_region_address(msg->areas) + rank;
    }
    free(all);
    return r;
}

int tca_msg_new(struct tca *session, const struct tca_plan_args *args, struct tca_msg **ret_msg)
{
    struct tca_msg *msg = calloc(1, sizeof(*msg));
    struct greeting mine;

    if (!msg)
        return error_static(-ENOMEM, "message: out of memory");
    memset(&mine, 0, sizeof(mine));
    msg->session = session;
    msg->size = tca_size(session);
    if (matching_init(&msg->matching) < 0) {
        free(msg);
        return error_static(-ENOMEM, "message: out of memory");
    }
    int r = meet(msg, prepare(msg, args, &mine), &mine);
    if (r >= 0) {
        *ret_msg = msg;
        return 0;
    }
    char text[512];
    snprintf(text, sizeof(text), "%s", tca_error_text());
    tca_msg_free(msg);
    return error_set(r, "%s", text);
}

static void peer_deinit(struct tca_msg *msg, struct msg_peer *peer)
{
    for (uint32_t place = 0; place < MSG_RING; place++)
        for (uint32_t size = 0; size < MSG_CLASSES; size++)
            msg_plan_end(peer->puts[place][size]);
    for (uint32_t i = 0; i < MSG_RING / MSG_CREDIT; i++)
        msg_plan_end(peer->credits[i]);
    if (peer->staging)
        tca_free(msg->session, peer->staging);
    msg_peer_drop(peer);
    for (uint32_t i = 0; i < TCA_MSG_PAIRS; i++)
        msg_notice_forget(&peer->notices[i]);
}

static void requests_deinit(struct tca_msg *msg)
{
    for (uint32_t i = 0; i < msg->request_count; i++) {
        struct tca_msg_request *request = msg->requests[i];
        if (!request->used)
            continue;
        if (request->persistent) {
            msg_short_free(request);
            if (request->sends) /* it may wait for a receive that does not come */
                msg_plan_free(request->plan);
            else
                msg_plan_end(request->plan);
        }
        msg_request_free(request);
    }
    for (uint32_t i = 0; i < msg->request_count; i += MSG_CHUNK)
        free(msg->requests[i]);
    free(msg->requests);
}

struct tca_msg *tca_msg_free(struct tca_msg *msg)
{
    if (!msg)
        return NULL;
    struct tca *session = msg->session;
    const uint64_t outer_ns = session_limit_begin(session);
    if (msg->shared) /* otherwise nobody sends, and it may have no slots */
        msg_drain(msg);
    for (uint32_t rank = 0; msg->peers && rank < msg->size; rank++)
        peer_deinit(msg, &msg->peers[rank]); /* first: what is queued belongs to requests */
    requests_deinit(msg);
    msg_forget_early(msg);
    matching_deinit(&msg->matching);
    for (uint32_t i = 0; i < MSG_CACHE; i++) {
        msg_plan_end(msg->kept[i].plan);
        tca_layout_free(msg->kept[i].target.layout);
    }
    if (msg->areas)
        tca_region_free(msg->areas);
    if (msg->slot && !msg->shared) /* otherwise others may notify them at any time */
        slots_return(msg->session, msg->slot, MSG_SLOTS);
    session_limit_end(session, outer_ns);
    free(msg->peers);
    free(msg);
    return NULL;
}
