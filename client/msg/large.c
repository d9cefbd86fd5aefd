/* Long one-shot messages: the sender offers, the receiver grants its memory and one of MSG_LARGE
 * slots, the sender puts and notifies. Its plans are kept for the next message between the same
 * places. */
#include "client/msg/msg.h"

#include <errno.h>
#include <string.h>

#include "client/core/error.h"
#include "client/core/layouts.h"

/* ---- receiver */

static bool take_slot(struct msg_peer *peer, uint32_t *ret_index)
{
    for (uint32_t index = TCA_MSG_PAIRS; index < MSG_DATA; index++)
        if (!(peer->data_taken & 1u << index)) {
            *ret_index = index;
            return true;
        }
    return false;
}

static int answer(struct tca_msg_request *request, const void *note, int bytes)
{
    const struct msg_head head = {.kind = MSG_GRANT,
                                  .index = (uint8_t)request->index,
                                  .bytes = (uint16_t)bytes,
                                  .request = request->offer};

    return msg_note_send(request->peer, request->msg, head, note);
}

/* Nothing is to be put: the send completes, and the receive has ended, as soon as there is room to
 * say so. */
int msg_tell_taken(struct tca_msg_request *request, int status)
{
    request->status = status;
    request->arrived = status == 0;
    return msg_request_send(request);
}

int msg_grant(struct tca_msg_request *request)
{
    struct msg_peer *peer = request->peer;
    uint8_t note[TCA_MSG_EAGER_BYTES];

    if (request->bytes == 0)
        return msg_tell_taken(request, 0);
    if (!take_slot(peer, &request->index)) {
        request->state = MSG_OFFERED;
        msg_list_add(&peer->offered, request);
        return 0;
    }
    int bytes = msg_note_make(request, request->bytes, note);
    if (bytes < 0)
        return msg_tell_taken(request, bytes);
    peer->data_taken |= 1u << request->index;
    peer->receives[request->index] = request;
    request->state = MSG_MOVING;
    request->in_use = true;
    return answer(request, note, bytes);
}

/* The next receive that waits for a slot. */
static int grant_next(struct msg_peer *peer)
{
    struct tca_msg_request *request = msg_list_take(&peer->offered);

    return request ? msg_grant(request) : 0;
}

int msg_large_test(struct tca_msg_request *request, int *ret_error)
{
    struct msg_peer *peer = request->peer;
    int r = tca_notified(request->msg->session, peer->session_rank,
                         request->msg->slot + MSG_SLOT_DATA + request->index);

    if (r <= 0)
        return r;
    peer->data_taken &= ~(1u << request->index);
    peer->receives[request->index] = NULL;
    request->in_use = false;
    if (request->staging)
        msg_scatter(request, request->staging, request->bytes);
    msg_done(request, 0);
    *ret_error = grant_next(peer);
    return 1;
}

/* ---- sender */

static int make_plan(struct tca_msg_request *request, const void *source,
                     struct tca_plan **ret_plan)
{
    struct msg_peer *peer = request->peer;
    const struct msg_put put = {&request->target, source, NULL, request->bytes};

    return msg_plan_put(peer, request->msg, &put, peer->slot + MSG_SLOT_DATA + request->index,
                        ret_plan);
}

static bool same_target(const struct msg_target *a, const struct msg_target *b)
{
    return memcmp(&a->handle, &b->handle, sizeof(a->handle)) == 0 &&
           a->base_bytes == b->base_bytes && layout_same(a->layout, b->layout);
}

static bool fits(const struct msg_kept *kept, const struct tca_msg_request *request,
                 const void *source)
{
    return kept->plan && !kept->busy && kept->source == source && kept->bytes == request->bytes &&
           kept->rank == request->peer->rank && kept->index == request->index &&
           same_target(&kept->target, &request->target);
}

void msg_kept_free(struct tca_msg *msg, struct msg_kept *kept)
{
    msg_plan_end(kept->plan);
    tca_layout_free(kept->target.layout);
    *kept = (struct msg_kept){.plan = NULL};
}

/* A free place, or the one whose plan was not used for longest. NULL: all plans run. */
static struct msg_kept *find_place(struct tca_msg *msg)
{
    struct msg_kept *oldest = NULL;

    for (uint32_t i = 0; i < MSG_CACHE; i++) {
        struct msg_kept *kept = &msg->kept[i];
        if (!kept->plan)
            return kept;
        if (!kept->busy && (!oldest || kept->used < oldest->used))
            oldest = kept;
    }
    return oldest;
}

/* The plan for a send: one that is kept, or a new one. *ret_kept is NULL if all plans run. */
static int find_plan(struct tca_msg_request *request, const void *source,
                     struct msg_kept **ret_kept)
{
    struct tca_msg *msg = request->msg;
    struct msg_kept *kept = NULL;

    for (uint32_t i = 0; i < MSG_CACHE && !kept; i++)
        if (fits(&msg->kept[i], request, source))
            kept = &msg->kept[i];
    if (!kept && (kept = find_place(msg))) {
        struct tca_plan *plan = NULL;
        int r = make_plan(request, source, &plan);
        if (r < 0)
            return r;
        msg_kept_free(msg, kept);
        *kept = (struct msg_kept){.plan = plan,
                                  .rank = request->peer->rank,
                                  .index = request->index,
                                  .source = source,
                                  .bytes = request->bytes,
                                  .target = request->target};
        request->target.layout = NULL;
    }
    *ret_kept = kept;
    return 0;
}

/* Starts the put, or makes it wait for a plan. */
static int launch(struct tca_msg_request *request)
{
    struct tca_msg *msg = request->msg;
    struct msg_kept *kept = NULL;
    void *source = NULL;
    int r = msg_place(request, true, &source);

    if (r >= 0)
        r = find_plan(request, source, &kept);
    if (r < 0)
        return r;
    if (!kept) {
        request->state = MSG_GRANTED;
        msg_list_add(&request->peer->granted, request);
        return 0;
    }
    if (request->staging && (r = msg_gather(request, request->staging)) < 0)
        return r;
    if ((r = msg_plan_start(msg, kept->plan)) < 0)
        return r;
    kept->busy = true;
    kept->used = ++msg->uses;
    request->kept = kept;
    request->state = MSG_MOVING;
    request->in_use = true;
    msg_list_add(&request->peer->moving, request);
    return 0;
}

int msg_take_grant(struct msg_peer *peer, struct tca_msg *msg, const struct msg_head *head,
                   struct msg_target *target)
{
    struct tca_msg_request *request =
        head->request < msg->request_count ? msg->requests[head->request] : NULL;

    if (!request || !request->used || request->peer != peer || !request->sends ||
        request->persistent || request->state != MSG_OFFERED ||
        (target->bytes != 0 && target->bytes != request->bytes))
        return error_set(-EPROTO, "a grant of %llu bytes for request %u, which did not ask for it",
                         (unsigned long long)target->bytes, head->request);
    msg_stage_end(request);
    if (target->bytes == 0) {
        msg_done(request, 0);
        return 0;
    }
    request->target = *target;
    target->layout = NULL;
    request->index = head->index;
    return launch(request);
}

/* ---- both */

int msg_large_progress(struct msg_peer *peer, struct tca_msg *msg)
{
    int r = 0;

    for (struct tca_msg_request *request = peer->moving.first, *next; request; request = next) {
        next = request->next;
        int done = tca_test(request->kept->plan);
        if (done == 0)
            continue;
        request->kept->busy = false;
        request->in_use = false;
        msg_list_remove(&peer->moving, request);
        msg_done(request, done < 0 ? done : 0);
        if (done < 0)
            r = done;
    }
    while (r >= 0 && peer->granted.first && find_place(msg))
        r = launch(msg_list_take(&peer->granted));
    return r < 0 ? r : 0;
}

void tca_msg_forget(struct tca_msg *msg)
{
    for (uint32_t i = 0; i < MSG_CACHE; i++)
        if (!msg->kept[i].busy)
            msg_kept_free(msg, &msg->kept[i]);
}
