/*
 * Pairs: persistent requests. The receiver sends a notice of its memory once, the sender makes a
 * plan: wait until the receive was started, put, notify. Each receive has a data slot here and, at
 * the sender, a slot that says it was started; both have the same index.
 *
 * An index is used again when both sides are released, and have told each other how many
 * notifications they have sent. A side that is released while it runs goes on, and is released when
 * it is complete. What is left is taken first: by the receiver, before it uses the index, the
 * notifications of messages that were not received from the places of a short pair (pair_short.c);
 * by the sender, before it starts the index's next send, those of starts that no send has answered.
 * Receives for which no index is free wait for one.
 */
#include "client/msg/msg.h"

#include <errno.h>
#include <string.h>

#include "client/core/error.h"

static void free_index(struct msg_peer *peer, struct tca_msg *msg, uint32_t index)
{
    uint64_t *left = &peer->left[index];

    while (*left > 0 &&
           tca_notified(msg->session, peer->session_rank, msg->slot + MSG_SLOT_DATA + index) > 0)
        --*left;
    if (*left > 0)
        return;
    peer->data_taken &= ~(1u << index);
    peer->data_ended &= ~(1u << index);
}

void msg_pair_end(struct msg_peer *peer, struct tca_msg *msg, uint32_t index, uint64_t left)
{
    peer->data_leaving &= ~(1u << index);
    peer->data_ended |= 1u << index;
    peer->left[index] = left;
    free_index(peer, msg, index);
}

int msg_pair_tell(struct msg_peer *peer, struct tca_msg *msg, enum msg_kind kind, uint32_t index,
                  uint64_t value)
{
    const struct msg_head head = {
        .kind = (uint8_t)kind, .index = (uint8_t)index, .bytes = sizeof(value)};

    return msg_note_send(peer, msg, head, &value);
}

/* ---- the send */

static int build(struct tca_msg_request *request, uint32_t index, const struct msg_target *target)
{
    struct tca_msg *msg = request->msg;
    struct msg_peer *peer = request->peer;
    bool fills = !target->layout || request->room == target->bytes;
    void *source = NULL;
    int r = msg_plan_new(msg, peer->rank, &request->plan);

    if (r >= 0)
        r = tca_plan_wait(request->plan, peer->rank, msg->slot + MSG_SLOT_READY + index, 1);
    if (r >= 0 && request->room > 0 && (r = msg_place(request, !fills, &source)) >= 0)
        r = msg_put_to(request->plan, target, source, request->staging ? NULL : request->layout,
                       request->room);
    if (r >= 0)
        r = tca_plan_notify(request->plan, peer->rank, peer->slot + MSG_SLOT_DATA + index);
    return r < 0 ? r : msg_commit(peer, request->plan);
}

/* The send cannot be started: the receiver learns that it has ended. */
static int give_up(struct tca_msg_request *request, uint32_t index, int error)
{
    request->broken = msg_error_of(error);
    request->peer->ready_taken[index] = 0;
    request->plan = tca_plan_free(request->plan);
    request->peer->sends[index] = NULL;
    if (request->state == MSG_POSTED)
        msg_done(request, error);
    return msg_pair_tell(request->peer, request->msg, MSG_SEND_GONE, index, 0);
}

/* may: whether the pair may be short. */
static int join(struct tca_msg_request *request, uint32_t index, bool may,
                const struct msg_target *target)
{
    int r = 0;

    request->index = index;
    request->paired = true;
    request->peer->sends[index] = request;
    if (request->room <= target->bytes) {
        r = may && target->bytes <= TCA_MSG_SHORT_BYTES ? msg_short_join(request) : 0;
        if (r >= 0 && !request->is_short)
            r = build(request, index, target);
    }
    if (r < 0)
        return give_up(request, index, r);
    request->quick = request->is_short;
    const struct msg_head head = {.kind = MSG_PAIRED,
                                  .index = (uint8_t)index,
                                  .tag = request->is_short,
                                  .bytes = sizeof(request->room)};
    r = msg_note_send(request->peer, request->msg, head, &request->room);
    return r >= 0 && request->state == MSG_POSTED ? msg_pair_launch(request) : r;
}

void msg_notice_forget(struct msg_notice *notice)
{
    tca_layout_free(notice->target.layout);
    *notice = (struct msg_notice){.order = 0};
}

static struct msg_notice *first_notice(struct msg_peer *peer, uint32_t tag)
{
    struct msg_notice *first = NULL;

    for (uint32_t i = 0; i < TCA_MSG_PAIRS; i++) {
        struct msg_notice *notice = &peer->notices[i];
        if (notice->order && notice->tag == tag && (!first || notice->order < first->order))
            first = notice;
    }
    return first;
}

/* ---- packets */

int msg_take_notice(struct msg_peer *peer, struct tca_msg *msg, const struct msg_head *head,
                    struct msg_target *target)
{
    struct msg_notice *notice = &peer->notices[head->index];
    struct tca_msg_request *request = peer->single.first;

    (void)msg;
    if (notice->order || peer->sends[head->index])
        return error_set(-EPROTO, "two receives in slot %u", head->index);
    while (request && request->tag != head->tag)
        request = request->next;
    if (request) {
        msg_list_remove(&peer->single, request);
        int r = join(request, head->index, head->request, target);
        msg_pair_reap(request);
        return r;
    }
    *notice = (struct msg_notice){.order = ++peer->notice_order,
                                  .tag = head->tag,
                                  .is_short = head->request,
                                  .target = *target};
    target->layout = NULL;
    return 0;
}

int msg_take_paired(struct msg_peer *peer, uint32_t index, bool is_short, uint64_t bytes)
{
    struct tca_msg_request *request = peer->receives[index];

    if (!(peer->data_taken & 1u << index) ||
        (request && (request->paired || (is_short && !request->is_short))))
        return error_set(-EPROTO, "an unexpected send for slot %u", index);
    if (!request)
        return 0;
    request->bytes = bytes;
    request->paired = true;
    request->quick = is_short && bytes <= request->room;
    return request->is_short && !request->quick ? msg_pair_lengthen(request) : 0;
}

int msg_take_recv_gone(struct msg_peer *peer, struct tca_msg *msg, uint32_t index, uint64_t starts)
{
    struct tca_msg_request *request = peer->sends[index];

    if (peer->notices[index].order) {
        msg_notice_forget(&peer->notices[index]);
        peer->ready_left[index] += starts;
        return msg_pair_tell(peer, msg, MSG_SEND_GONE, index, 0);
    }
    if (request) {
        request->gone = true;
        request->quick = false;
        request->limit = starts;
    } else if (starts > peer->ready_taken[index]) {
        peer->ready_left[index] += starts - peer->ready_taken[index];
    }
    return 0;
}

bool msg_pair_is_quiet(const struct tca_msg_request *request)
{
    struct msg_peer *peer = request->peer;
    uint64_t *left = &peer->ready_left[request->index];

    while (*left > 0 && tca_notified(request->msg->session, peer->session_rank,
                                     request->msg->slot + MSG_SLOT_READY + request->index) > 0)
        --*left;
    return *left == 0;
}

int msg_take_send_gone(struct msg_peer *peer, struct tca_msg *msg, uint32_t index, uint64_t ends)
{
    struct tca_msg_request *request = peer->receives[index];

    if (!(peer->data_taken & 1u << index) || (request && request->gone))
        return error_set(-EPROTO, "an unexpected end of the send for slot %u", index);
    if (request) {
        request->gone = true;
        request->quick = false;
        request->limit = ends;
    } else if (peer->data_leaving & 1u << index) {
        msg_pair_end(peer, msg, index, ends - peer->left[index]);
    }
    return 0;
}

/* ---- requests */

static int keep_layout(struct tca_msg_request *request)
{
    int r = request->layout ? tca_layout_dup(request->layout, &request->own_layout) : 0;

    request->layout = request->own_layout;
    request->persistent = true;
    return r;
}

int tca_msg_send_init(struct tca_msg *msg, uint32_t rank, uint32_t tag,
                      const struct tca_msg_buffer *buffer, struct tca_msg_request **ret_request)
{
    const struct tca_msg_envelope envelope = {.rank = rank, .tag = tag};
    struct tca_msg_request *request = NULL;
    int r = msg_request_new(msg, &envelope, buffer, true, &request);

    if (r < 0)
        return r;
    struct msg_peer *peer = request->peer;
    r = peer->failed ? msg_peer_failed(peer) : keep_layout(request);
    if (r < 0) {
        msg_request_free(request);
        return r;
    }
    struct msg_notice *notice = first_notice(peer, tag);
    if (notice) {
        r = join(request, (uint32_t)(notice - peer->notices), notice->is_short, &notice->target);
        msg_notice_forget(notice);
    } else {
        msg_list_add(&peer->single, request);
    }
    *ret_request = request; /* also if it failed: starting it returns the error */
    if (r < 0)
        msg_peer_lost(peer, msg, r);
    return 0;
}

static bool find_index(struct msg_peer *peer, struct tca_msg *msg, uint32_t *ret_index)
{
    for (uint32_t bits = peer->data_ended; bits; bits &= bits - 1)
        free_index(peer, msg, (uint32_t)__builtin_ctz(bits));
    uint32_t available = ~peer->data_taken & ((1u << TCA_MSG_PAIRS) - 1);

    if (available)
        *ret_index = (uint32_t)__builtin_ctz(available);
    return available;
}

int msg_pair_ready_new(struct tca_msg_request *request)
{
    struct msg_peer *peer = request->peer;

    return msg_plan_notify(peer, request->msg, peer->slot + MSG_SLOT_READY + request->index,
                           &request->plan);
}

static int announce(struct tca_msg_request *request)
{
    uint8_t payload[TCA_MSG_EAGER_BYTES];
    struct msg_head head = {
        .kind = MSG_NOTICE, .index = (uint8_t)request->index, .tag = request->tag};
    struct msg_peer *peer = request->peer;
    struct tca_msg *msg = request->msg;
    int bytes = msg_note_make(request, request->room, payload), r = bytes;

    if (r >= 0)
        r = msg_short_offer(request);
    if (r >= 0 && !request->is_short)
        r = msg_pair_ready_new(request);
    head.bytes = (uint16_t)bytes;
    head.request = request->is_short;
    if (r >= 0)
        r = msg_note_send(peer, msg, head, payload);
    if (r < 0) {
        request->plan = tca_plan_free(request->plan);
        request->is_short = false;
        return r;
    }
    request->announced = true;
    peer->data_taken |= 1u << request->index;
    peer->receives[request->index] = request;
    return 0;
}

/* Without what its announcement needs, a receive cannot be started. */
static int introduce(struct tca_msg_request *request)
{
    int r = announce(request);

    if (r < 0 && !msg_has_ended(r)) {
        request->broken = r;
        if (request->state == MSG_QUEUED)
            msg_done(request, r);
        r = 0;
    } else if (r >= 0 && request->state == MSG_QUEUED) {
        r = msg_pair_receive(request);
    }
    msg_pair_reap(request);
    return r;
}

int msg_pair_introduce(struct msg_peer *peer, struct tca_msg *msg)
{
    uint32_t index;
    int r = 0;

    while (r >= 0 && peer->waiting.first && find_index(peer, msg, &index)) {
        struct tca_msg_request *request = msg_list_take(&peer->waiting);
        request->index = index;
        r = introduce(request);
    }
    return r;
}

int tca_msg_recv_init(struct tca_msg *msg, uint32_t rank, uint32_t tag,
                      const struct tca_msg_buffer *buffer, struct tca_msg_request **ret_request)
{
    const struct tca_msg_envelope envelope = {.rank = rank, .tag = tag};
    struct tca_msg_request *request = NULL;

    if (rank == TCA_MSG_ANY || tag == TCA_MSG_ANY)
        return error_static(-EINVAL, "message: a persistent receive names its rank and its tag");
    int r = msg_request_new(msg, &envelope, buffer, false, &request);

    if (r < 0)
        return r;
    struct msg_peer *peer = request->peer;
    r = peer->failed ? msg_peer_failed(peer) : keep_layout(request);
    if (r >= 0 && peer->receive_count == TCA_MSG_PAIRS)
        r = error_set(-EBUSY, "rank %u: at most %d persistent receives from one rank: release one",
                      peer->rank, TCA_MSG_PAIRS);
    if (r >= 0 && !peer->waiting.first && find_index(peer, msg, &request->index))
        r = announce(request);
    else if (r >= 0)
        msg_list_add(&peer->waiting, request);
    if (r < 0) {
        msg_request_free(request);
        return r;
    }
    peer->receive_count++;
    *ret_request = request;
    return 0;
}
