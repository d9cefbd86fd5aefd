/* Making and releasing a messenger. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/core/agree.h"
#include "client/core/error.h"
#include "client/core/seats.h"
#include "client/core/slots.h"
#include "client/msg/msg.h"

/* What ranks exchange about themselves: plain data, for agree(). */
struct greeting {
    struct agree_head head;
    uint32_t slot;
    struct tca_handle areas;
};

static int prepare(struct tca_msg *msg, struct greeting *ret)
{
    msg->peers = calloc(msg->size, sizeof(*msg->peers));
    if (!msg->peers)
        return error_static(-ENOMEM, "message: out of memory");
    ret->slot = msg->slot = slots_take(msg->session, MSG_SLOTS);
    const uint64_t bytes = sizeof(struct msg_areas) + msg->size * sizeof(struct msg_area);
    int r = tca_region_alloc(msg->session, bytes, &msg->areas);
    if (r < 0)
        return r;
    near_owner_begin(&msg->owner, tca_region_address(msg->areas));
    return tca_region_handle(msg->areas, 0, TCA_ALL, &ret->areas);
}

static int meet(struct tca_msg *msg, int error, struct greeting *mine)
{
    struct tca *session = msg->session;
    struct tca_group *group = msg->args.group;
    struct gathered all = {0};
    const bool copies = session_may_copy(session, &msg->args);
    bool known;

    msg->shared = error >= 0; /* unless all ranks learn that one has failed */
    int r = agree(session, group, "messenger", error, &mine->head, sizeof(*mine),
                  sizeof(mine->head), &all, &known);
    if (known)
        msg->shared = false;
    for (uint32_t rank = 0; r >= 0 && rank < msg->size; rank++) {
        struct msg_peer *peer = &msg->peers[rank];
        const struct greeting *theirs = gathered_of(&all, rank);
        peer->rank = rank;
        peer->session_rank = group_to_session(group, rank);
        peer->slot = theirs->slot;
        peer->near = tca_node_of(session, peer->session_rank) == (int)tca_node(session);
        peer->copies = peer->near && copies && rank != group_rank(session, group);
        peer->area = theirs->areas;
        peer->area_bytes =
            sizeof(struct msg_areas) + group_rank(session, group) * sizeof(struct msg_area);
        peer->here = ((struct msg_areas *)tca_region_address(msg->areas))->of + rank;
        r = session_slot_find(session, peer->session_rank, msg->slot + MSG_SLOT_RING,
                              &peer->arrivals);
        if (r >= 0)
            r = session_slot_find(session, peer->session_rank, msg->slot + MSG_SLOT_CREDIT,
                                  &peer->confirmations);
    }
    gathered_deinit(&all);
    return r;
}

/* ---- the session's messengers */

static void enter(struct tca_msg *msg)
{
    struct tca_msg **any = session_messengers(msg->session);

    msg->next = *any ? *any : msg;
    msg->previous = *any ? (*any)->previous : msg;
    msg->next->previous = msg->previous->next = msg;
    *any = msg;
}

static void leave(struct tca_msg *msg)
{
    struct tca_msg **any = session_messengers(msg->session);

    if (*any == msg)
        *any = msg->next == msg ? NULL : msg->next;
    msg->next->previous = msg->previous;
    msg->previous->next = msg->next;
}

/* ---- making and releasing */

int tca_msg_new(struct tca *session, const struct tca_plan_args *args, struct tca_msg **ret_msg)
{
    struct tca_msg *msg = calloc(1, sizeof(*msg));
    struct greeting mine;

    if (!msg)
        return error_static(-ENOMEM, "message: out of memory");
    memset(&mine, 0, sizeof(mine)); /* ranks compare bytes, of gaps too */
    msg->session = session;
    if (args)
        msg->args = *args;
    msg->size = group_size(session, msg->args.group);
    snprintf(msg->name, sizeof(msg->name), "%.48s", msg->args.name ? msg->args.name : "msg");
    if (matching_init(&msg->matching) < 0) {
        free(msg);
        return error_static(-ENOMEM, "message: out of memory");
    }
    group_use(msg->args.group);
    enter(msg);
    int r = meet(msg, prepare(msg, &mine), &mine);
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
    msg_plan_end(peer->bell);
    for (uint32_t i = 0; i < MSG_RING / MSG_CREDIT; i++)
        msg_plan_end(peer->credits[i]);
    if (peer->staging)
        tca_free(msg->session, peer->staging);
    msg_peer_drop(peer);
    msg_direct_free(peer, msg);
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
    near_owner_end(&msg->owner); /* the memory of what is abandoned is the program's again */
    leave(msg);
    for (uint32_t rank = 0; msg->peers && rank < msg->size; rank++)
        peer_deinit(msg, &msg->peers[rank]); /* first: what is queued belongs to requests */
    requests_deinit(msg);
    msg_forget_messages(msg);
    matching_deinit(&msg->matching);
    for (uint32_t i = 0; i < MSG_CACHE; i++) {
        msg_plan_end(msg->kept[i].plan);
        tca_layout_free(msg->kept[i].target.layout);
    }
    msg_stages_free(msg);
    if (msg->areas)
        tca_region_free(msg->areas);
    if (msg->slot && !msg->shared) /* otherwise others may notify them at any time */
        slots_return(msg->session, msg->slot, MSG_SLOTS);
    session_limit_end(session, outer_ns);
    group_unuse(msg->args.group);
    free(msg->peers);
    free(msg);
    return NULL;
}
