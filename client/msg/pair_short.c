/*
 * Short pairs: messages of at most TCA_MSG_SHORT_BYTES within a node, or in the client's seat
 * between nodes. The receiver has MSG_PLACES places for them. The sender puts each message into the
 * next place and notifies, as long as it knows of a free one, and need not wait for the receive to
 * be started. The receiver copies the message to its memory, and after every MSG_CONFIRM messages
 * puts the number that it has received into the sender's memory.
 *
 * Places are filled, and counts replaced, in the order of starts if both ranks run these plans
 * themselves: within a node a put is complete at its target when its plan is, and a connection
 * between two processes keeps the order of a channel. Otherwise the pair is not short.
 */
#include "client/msg/msg.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "client/core/error.h"
#include "client/core/seats.h"

enum { LOOKS = 32 };
static_assert(MSG_PLACES == 16 && MSG_CONFIRM == 12,
              "tca-msg.h: sends are complete while the receiver is up to 4 messages behind");

/* ---- plans */

/* Puts within a node; `offset` is that in the other rank's area. notify: a slot of its
 * messenger. */
static int make_put(struct tca_msg_request *request, const void *source,
                    const struct tca_layout *layout, uint64_t bytes, uint64_t offset, uint32_t slot,
                    struct tca_plan **ret_plan)
{
    struct msg_peer *peer = request->peer;
    const struct msg_target target = {
        .bytes = bytes, .handle = peer->area, .base_bytes = peer->area_bytes + offset};
    const struct msg_put put = {&target, source, layout, bytes, .apart = true};

    return msg_plan_put(peer, request->msg, bytes > 0 ? &put : NULL, peer->slot + slot, ret_plan);
}

static int make_place(struct tca_msg_request *request, uint64_t place)
{
    void *source = NULL;
    int r = request->room > 0 ? msg_place(request, false, &source) : 0;

    if (r < 0)
        return r;
    return make_put(request, source, request->staging ? NULL : request->layout, request->room,
                    offsetof(struct msg_area, places[request->index][place]),
                    MSG_SLOT_DATA + request->index, &request->puts[place]);
}

static bool may_be_short(const struct tca_msg_request *request)
{
    return request->peer->near ||
           session_seat(request->msg->session, &request->msg->args) != TCA_SEAT_DAEMON;
}

/* Keeps the request's plan if what it puts arrives in order. */
static void keep_ordered(struct tca_msg_request *request, struct tca_plan *plan)
{
    request->is_short = plan_puts_in_order(plan);
    request->plan = request->is_short ? plan : tca_plan_free(plan);
}

int msg_short_offer(struct tca_msg_request *request)
{
    struct msg_peer *peer = request->peer;
    struct tca_plan *plan;

    if (!may_be_short(request) || request->room > TCA_MSG_SHORT_BYTES)
        return 0;
    int r = make_put(request, &peer->here->received[request->index], NULL, sizeof(uint64_t),
                     offsetof(struct msg_area, confirmed[request->index]), MSG_SLOT_WAKE, &plan);
    if (r >= 0)
        r = session_slot_find(request->msg->session, peer->session_rank,
                              request->msg->slot + MSG_SLOT_DATA + request->index, &request->data);
    request->places = peer->here->places[request->index];
    if (r >= 0)
        keep_ordered(request, plan);
    return r;
}

/* All but the first, so that no start has to commit a plan. The pair is short only if all of them
 * are in this process's seat. */
static int make_places(struct tca_msg_request *request)
{
    int r = 0;

    for (uint64_t place = 1; request->is_short && place < MSG_PLACES; place++) {
        r = make_place(request, place);
        request->is_short = r >= 0 && plan_puts_in_order(request->puts[place]);
    }
    if (!request->is_short) {
        msg_short_free(request);
        request->plan = tca_plan_free(request->plan);
    }
    return r;
}

/* All counts of an earlier pair of this index have arrived: its receiver saw them complete before
 * it used the index again. */
int msg_short_join(struct tca_msg_request *request)
{
    struct msg_peer *peer = request->peer;
    int r = may_be_short(request) ? make_place(request, 0) : 0;

    if (r < 0 || !request->puts[0])
        return r;
    atomic_store_explicit(&peer->here->confirmed[request->index].value, 0, memory_order_relaxed);
    keep_ordered(request, request->puts[0]);
    request->puts[0] = request->plan;
    return make_places(request);
}

void msg_short_free(struct tca_msg_request *request)
{
    for (uint32_t place = 0; place < MSG_PLACES; place++) {
        if (request->puts[place] != request->plan)
            msg_plan_end(request->puts[place]);
        request->puts[place] = NULL;
    }
}

/* ---- sending */

/* > 0: a place is free, 0: not yet, or -EPROTO. */
static __attribute__((noinline)) int find_place(struct tca_msg_request *request)
{
    /* acquire: pairs with msg_short_confirm()'s fence; the messages in these places have been
     * copied */
    request->confirmed = atomic_load_explicit(&request->peer->here->confirmed[request->index].value,
                                              memory_order_acquire);
    if (request->confirmed > request->starts)
        return error_static(-EPROTO, "messages that were never sent have been confirmed");
    return request->starts - request->confirmed < MSG_PLACES;
}

__attribute__((noinline)) void msg_short_hold(struct tca_msg_request *request)
{
    request->state = MSG_QUEUED;
    msg_list_add(&request->peer->held, request);
}

static inline int put_next(struct tca_msg_request *request)
{
    int r = request->staging ? msg_gather(request, request->staging) : 0;

    if (r < 0)
        return r;
    request->plan = request->puts[request->starts % MSG_PLACES];
    request->starts++;
    r = plan_start_and_test(request->plan);
    request->state = r == 0 ? MSG_MOVING : MSG_DONE;
    request->status = r < 0 ? r : 0;
    request->in_use = r == 0;
    return r;
}

int msg_short_start(struct tca_msg_request *request)
{
    int r = 1;

    if (__builtin_expect(request->starts - request->confirmed >= MSG_PLACES, 0))
        r = find_place(request);
    if (__builtin_expect(r > 0, 1))
        r = put_next(request);
    else if (r == 0)
        msg_short_hold(request);
    return __builtin_expect(r < 0, 0) ? msg_peer_lost(request->peer, request->msg, r) : 0;
}

int msg_short_progress(struct msg_peer *peer)
{
    struct tca_msg_request *request, *next;
    int r = 0;

    for (request = peer->held.first; request && r >= 0; request = next) {
        next = request->next;
        r = request->gone       ? 1
            : request->is_short ? find_place(request)
                                : msg_pair_is_quiet(request);
        if (r == 0)
            continue;
        msg_list_remove(&peer->held, request);
        if (request->gone)
            msg_done(request, -ECANCELED);
        else if (r > 0)
            r = request->is_short ? put_next(request) : msg_pair_launch(request);
        if (r < 0)
            msg_done(request, r);
        if (request->released) {
            msg_pair_reap(request);
            next = peer->held.first; /* it may have changed the list */
        }
    }
    return r < 0 ? r : 0;
}

/* ---- receiving */

int msg_short_confirm(struct tca_msg_request *request)
{
    struct msg_count *count = &request->peer->here->received[request->index];
    int r = tca_test(request->plan); /* 0: the last count is on its way */

    if (r <= 0)
        return r;
    atomic_thread_fence(memory_order_release); /* the copies precede the count */
    atomic_store_explicit(&count->value, request->ends, memory_order_relaxed);
    request->confirmed = request->ends;
    return tca_start(request->plan);
}

static inline void receive(struct tca_msg_request *request, const uint8_t *place)
{
    int r = 0;

    if (request->layout)
        msg_scatter(request, place, request->bytes);
    else if (request->bytes == sizeof(uint64_t))
        memcpy(request->address, place, sizeof(uint64_t));
    else if (request->bytes > 0)
        memcpy(request->address, place, request->bytes);
    request->ends++;
    request->state = MSG_DONE;
    request->status = r;
}

static inline const uint8_t *next_place(const struct tca_msg_request *request)
{
    return request->places[request->ends % MSG_PLACES];
}

int msg_short_receive(struct tca_msg_request *request)
{
    receive(request, next_place(request));
    int r = msg_short_is_due(request) ? msg_short_confirm(request) : 0;
    return r < 0 && !msg_has_ended(r) ? r : 0;
}

int msg_short_wait(struct tca_msg_request *request, int64_t timeout_ns)
{
    struct tca *session = request->msg->session;
    const uint8_t *place = next_place(request);

    for (int i = 0; i < LOOKS; i++) {
        if (session_take(session, &request->data) > 0) {
            receive(request, place);
            if (msg_short_is_due(request))
                msg_short_confirm(request); /* msg_peer_check() finds errors */
            return request->status == 0 ? 0 : msg_wait(request, timeout_ns);
        }
        __builtin_prefetch(place); /* moves it between the cores together with the counter */
    }
    return msg_wait(request, timeout_ns);
}
