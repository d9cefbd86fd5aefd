/* Starting, testing and releasing the two sides of a pair. */
#include "client/msg/msg.h"

#include "client/core/error.h"

/* The message does not fit: both sides can be started, also without the other, and each start of
 * the receive fails. */
static bool is_too_long(const struct tca_msg_request *request)
{
    return request->paired &&
           (request->sends ? !request->plan && !request->broken : request->bytes > request->room);
}

/* Starts a send whose receive is known. */
int msg_pair_launch(struct tca_msg_request *request)
{
    int r = 0;

    if (request->is_short)
        return msg_short_start(request);
    if (!request->plan) { /* too long for the receive, which has failed */
        msg_done(request, 0);
        return 0;
    }
    if (!msg_pair_is_quiet(request)) {
        msg_short_hold(request);
        return 0;
    }
    if (request->staging)
        r = msg_gather(request, request->staging);
    if (r >= 0)
        r = msg_plan_start(request->msg, request->plan);
    if (r < 0)
        return r;
    request->starts++;
    request->state = MSG_MOVING;
    request->in_use = true;
    return 0;
}

/* A short receive to which more has been sent before its send was released, or its rank ended. */
static bool has_message(struct tca_msg_request *request)
{
    const int failed = request->peer->failed;

    if (request->sends || !request->is_short || !request->paired ||
        (failed && !msg_has_ended(failed)))
        return false;
    if (!request->arrived)
        request->arrived = session_take(request->msg->session, &request->data) > 0;
    return request->arrived || (!failed && request->gone && request->ends < request->limit);
}

static __attribute__((noinline, cold)) int cannot_start(struct tca_msg_request *request)
{
    struct msg_peer *peer = request->peer;

    if (!request->persistent)
        return error_static(-EINVAL, "message: a one-shot request is started when it is made");
    if (request->state > MSG_DONE)
        return error_static(-EBUSY, "message: the last start is still running: wait for it");
    if (is_too_long(request) || has_message(request)) /* does not need the other side */
        return 0;
    if (peer->failed)
        return msg_peer_failed(peer);
    if (request->gone)
        return error_set(-ECANCELED, "message: rank %u has released its side of tag %u", peer->rank,
                         request->tag);
    return request->broken ? error_set(request->broken,
                                       "message: the plan to rank %u, tag %u was "
                                       "not committed: %s",
                                       peer->rank, request->tag, tca_strerror(request->broken))
                           : 0;
}

static int tell_ready(struct tca_msg_request *request)
{
    int r = msg_plan_start(request->msg, request->plan);

    if (r < 0)
        return r;
    request->starts++;
    request->in_use = true;
    return 0;
}

int msg_pair_lengthen(struct tca_msg_request *request)
{
    request->is_short = false;
    if (is_too_long(request))
        return 0; /* is not received */
    request->plan = tca_plan_free(request->plan);
    int r = msg_pair_ready_new(request);
    return r >= 0 && request->state == MSG_MOVING ? tell_ready(request) : r;
}

int msg_pair_receive(struct tca_msg_request *request)
{
    if (!request->announced) {
        request->state = MSG_QUEUED;
        return 0;
    }
    if (is_too_long(request)) {
        msg_done(request, -EMSGSIZE);
        return 0;
    }
    request->state = MSG_MOVING;
    return request->is_short ? 0 : tell_ready(request);
}

static int start(struct tca_msg_request *request)
{
    bool ready = request->persistent && !request->peer->failed && !request->gone &&
                 !request->broken && request->state <= MSG_DONE;
    int r = ready ? 0 : cannot_start(request);

    if (r < 0) {
        if (request->persistent && request->state <= MSG_DONE)
            msg_done(request, r); /* waiting returns it, too */
        return r;
    }
    if (!request->sends)
        r = msg_pair_receive(request);
    else if (request->paired)
        r = msg_pair_launch(request);
    else
        request->state = MSG_POSTED;
    return r < 0 ? msg_peer_lost(request->peer, request->msg, r) : 0;
}

int tca_msg_start(struct tca_msg_request *request)
{
    if (!request->quick || request->state > MSG_DONE)
        return start(request);
    if (request->sends)
        return msg_short_start(request);
    request->state = MSG_MOVING;
    return 0;
}

/* A send whose receive will not be started again ends without it. */
static int test_send(struct tca_msg_request *request)
{
    int r = tca_test(request->plan);

    if (r == 0 && request->gone && !request->is_short && request->starts > request->limit &&
        !request->cancelled) {
        request->cancelled = tca_plan_cancel(request->plan) >= 0;
        r = tca_test(request->plan);
    }
    if (r == 0)
        return 0;
    request->in_use = false;
    if (r == -ECANCELED && request->cancelled) {
        request->starts--;
        msg_done(request, r);
        return 1;
    }
    msg_done(request, r < 0 ? r : 0);
    return r;
}

static int receive(struct tca_msg_request *request)
{
    int r = 0;

    request->arrived = request->in_use = false;
    if (request->is_short)
        return msg_short_receive(request);
    request->ends++;
    if (request->staging)
        msg_scatter(request, request->staging, request->bytes);
    msg_done(request, r);
    return 0;
}

int msg_pair_test(struct tca_msg_request *request)
{
    struct tca_msg *msg = request->msg;
    int r = 0;

    if (request->sends)
        return test_send(request);
    if (!request->arrived) {
        r = tca_notified(msg->session, request->peer->session_rank,
                         msg->slot + MSG_SLOT_DATA + request->index);
        request->arrived = r > 0;
    }
    if (is_too_long(request))
        msg_done(request, -EMSGSIZE);
    else if (request->paired && request->arrived)
        r = receive(request);
    else if (request->is_short && msg_short_is_due(request))
        msg_short_confirm(request);
    else if (request->gone && request->ends >= request->limit)
        msg_done(request, -ECANCELED);
    return request->state == MSG_DONE ? 1 : r < 0 ? r : 0;
}

static int release_send(struct tca_msg_request *request)
{
    struct msg_peer *peer = request->peer;
    uint32_t index = request->index;
    uint64_t taken = request->is_short ? 0 : request->starts;

    msg_short_free(request);
    msg_plan_free(request->plan);
    if (peer->failed || request->broken)
        return 0;
    if (!request->paired) {
        msg_list_remove(&peer->single, request);
        return 0;
    }
    peer->sends[index] = NULL;
    peer->ready_taken[index] = taken;
    if (request->gone && request->limit > taken)
        peer->ready_left[index] += request->limit - taken;
    return msg_pair_tell(peer, request->msg, MSG_SEND_GONE, index, request->starts);
}

static int release_receive(struct tca_msg_request *request)
{
    struct msg_peer *peer = request->peer;
    uint32_t index = request->index;
    uint64_t taken = request->ends + request->arrived;

    if (!request->announced) {
        msg_list_remove(&peer->waiting, request);
        return 0;
    }
    /* the last count of a short receive must not come when the index is used again */
    bool counted = !request->is_short || tca_wait(request->plan, TCA_DEFAULT) != -ETIMEDOUT;
    if (counted)
        msg_plan_end(request->plan);
    peer->receives[index] = NULL;
    if (peer->failed)
        return 0;
    int r = msg_pair_tell(peer, request->msg, MSG_RECV_GONE, index, request->starts);
    if (request->gone && counted) {
        msg_pair_end(peer, request->msg, index, request->limit - taken);
    } else if (counted) {
        peer->data_leaving |= 1u << index;
        peer->left[index] = taken;
    }
    return r;
}

void msg_pair_release(struct tca_msg_request *request)
{
    struct msg_peer *peer = request->peer;
    struct tca_msg *msg = request->msg;

    peer->receive_count -= !request->sends && !request->released;
    request->released = true;
    if (request->state > MSG_DONE) {
        if (request->sends && request->state == MSG_MOVING)
            msg_list_add(&peer->leaving, request);
        return;
    }
    int r = request->sends ? release_send(request) : release_receive(request);
    msg_request_free(request);
    if (r < 0)
        msg_peer_lost(peer, msg, r);
}

void msg_pair_reap(struct tca_msg_request *request)
{
    if (request->released)
        msg_pair_release(request);
}

int msg_pair_progress(struct msg_peer *peer)
{
    struct tca_msg_request *request = peer->leaving.first;
    int r = 0;

    while (request && r >= 0) {
        struct tca_msg_request *next = request->next;
        r = msg_pair_test(request);
        if (r != 0) {
            msg_list_remove(&peer->leaving, request);
            msg_pair_release(request);
            next = peer->leaving.first; /* it may have changed the list */
        }
        request = next;
    }
    return r < 0 ? r : 0;
}
