/* Long messages between ranks of a node that both copy, at the same time. Whoever knows both places
 * *leads*: the sender, if the receive was announced, otherwise the receiver. It writes a share into
 * memory of the other rank (client/msg/packet.h), which *helps* in any of its calls. Each takes the
 * next part until there is none left. A leader whose helper does not call copies all of it. */
#include <errno.h>

#include "client/core/error.h"
#include "client/msg/msg.h"

enum { PART_BYTES = 65536, SHARE_BYTES_MIN = 4 * PART_BYTES };

static uint64_t length_of(uint64_t part, uint64_t bytes)
{
    const uint64_t left = bytes - part * PART_BYTES;

    return left < PART_BYTES ? left : PART_BYTES;
}

/* The last part that nobody has taken. What the leader has written before it made the parts is seen
 * afterwards, and remains until the part is counted. */
static bool take(struct msg_share *share, uint64_t *ret_part)
{
    uint64_t left = atomic_load_explicit(&share->left, memory_order_relaxed);

    while (left > 0) /* acquire: pairs with the release in lead() */
        if (atomic_compare_exchange_weak_explicit(&share->left, &left, left - 1,
                                                  memory_order_acquire, memory_order_relaxed)) {
            *ret_part = left - 1;
            return true;
        }
    return false;
}

static uint8_t *memory_of(const struct tca_msg_request *request)
{
    return request->staging ? request->staging : request->address;
}

/* Copies a part between this rank's memory and a place of the other one, `bytes` bytes long. */
static int copy(const struct tca_msg_request *request, struct near_place place, uint64_t bytes,
                uint64_t part)
{
    struct near_view *view = &request->peer->direct->view;
    const uint64_t offset = part * PART_BYTES, length = length_of(part, bytes);
    uint8_t *here = memory_of(request) + offset;
    uint8_t *there = NULL;

    if (place.region != NEAR_PRIVATE) {
        there = near_reach(request->msg->session, view, place, bytes);
        if (!there)
            return -ESTALE;
        near_copy(request->sends ? there + offset : here, request->sends ? here : there + offset,
                  length);
        return 0;
    }
    place.offset += offset;
    return request->sends ? near_write_private(view, place, here, length)
                          : near_read_private(view, place, here, length);
}

/* ---- the leader */

bool msg_share_is_worth(const struct tca_msg_request *request, uint64_t bytes)
{
    return bytes >= SHARE_BYTES_MIN && !request->layout && !request->peer->direct->led;
}

int msg_share_lead(struct tca_msg_request *request, struct near_place place, uint64_t bytes,
                   uint32_t other, uint64_t number)
{
    struct msg_direct *direct = request->peer->direct;
    struct msg_share *share = &direct->there->share;
    const uint64_t parts = (bytes + PART_BYTES - 1) / PART_BYTES;
    uint64_t part, copied = 0;
    int r = 0;

    share->other = other;
    share->number = number;
    share->sends = request->sends;
    share->bytes = bytes;
    share->place =
        near_place_of(request->msg->session, &request->msg->owner, memory_of(request), bytes);
    atomic_store_explicit(&share->failed, 0, memory_order_relaxed);
    atomic_store_explicit(&share->helped, 0, memory_order_relaxed);
    atomic_store_explicit(&share->left, parts, memory_order_release);
    for (; take(share, &part); copied++) /* all, also after an error: the helper must not begin */
        if (r >= 0)
            r = copy(request, place, bytes, part);
    direct->led = request;
    session_expect_help(request->msg->session, true);
    direct->led_failed = r < 0;
    direct->led_parts = parts - copied;
    return msg_share_is_over(direct);
}

int msg_share_is_over(struct msg_direct *direct)
{
    const struct msg_share *share = &direct->there->share;

    /* acquire: pairs with the release in msg_share_help() */
    if (atomic_load_explicit(&share->helped, memory_order_acquire) < direct->led_parts)
        return 0;
    msg_share_forget(direct);
    if (direct->led_failed || atomic_load_explicit(&share->failed, memory_order_relaxed))
        return error_static(-EFAULT, "message: memory of the other rank cannot be reached");
    return 1;
}

void msg_share_forget(struct msg_direct *direct)
{
    if (direct && direct->led)
        session_expect_help(direct->led->msg->session, false);
    if (direct)
        direct->led = NULL;
}

/* ---- the helper */

static struct tca_msg_request *find(struct msg_peer *peer, const struct tca_msg *msg,
                                    const struct msg_share *share)
{
    struct tca_msg_request *request = NULL;

    if (share->sends && share->other < ANNOUNCE_WORDS &&
        peer->direct->announcer.numbers[share->other] == share->number)
        request = peer->direct->announced[share->other];
    else if (!share->sends && share->other < msg->request_count)
        request = msg->requests[share->other];
    if (!request || !request->used || request->peer != peer || request->persistent ||
        request->sends == share->sends ||
        request->state != (request->sends ? MSG_OFFERED : MSG_POSTED) ||
        (request->layout && !request->staging))
        return NULL;
    return request;
}

int msg_share_help(struct msg_peer *peer, const struct tca_msg *msg)
{
    struct msg_share *share = &peer->here->share;
    uint64_t part;

    while (take(share, &part)) {
        /* once: the other rank can write it at any time */
        const struct msg_share mine = {.other = share->other,
                                       .number = share->number,
                                       .sends = share->sends,
                                       .bytes = share->bytes,
                                       .place = share->place};
        struct tca_msg_request *request = find(peer, msg, &mine);
        if (!request || mine.bytes > request->room ||
            part >= (mine.bytes + PART_BYTES - 1) / PART_BYTES)
            return error_set(-EPROTO, "a share of %llu bytes of a message that is not to be copied",
                             (unsigned long long)mine.bytes);
        if (copy(request, mine.place, mine.bytes, part) < 0)
            atomic_store_explicit(&share->failed, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&share->helped, 1, memory_order_release);
    }
    return 0;
}
