/* The send queue, and messages. */
#include <errno.h>
#include <string.h>

#include "drivers/hca/hca.h"

/* ---- requests ---- */

bool hca_send_has_room(const struct hca_peer *peer, unsigned requests)
{
    return peer->posted - peer->reported + requests <= HCA_REQUESTS;
}

int hca_send_chain(struct hca_peer *peer, struct ibv_send_wr *requests, unsigned count,
                   struct hca_put *put)
{
    struct ibv_send_wr *last = &requests[count - 1], *bad;
    if (!hca_send_has_room(peer, count))
        return -EAGAIN;
    for (unsigned i = 0; i < count; i++) {
        requests[i].wr_id = (uintptr_t)peer;
        requests[i].next = i + 1 < count ? &requests[i + 1] : NULL;
    }
    const bool signalled = put || peer->quiet + count >= HCA_QUIET;
    if (signalled)
        last->send_flags |= IBV_SEND_SIGNALED;
    if (ibv_post_send(peer->qp, requests, &bad) != 0) {
        hca_peer_break(peer, -ENETDOWN);
        return -EIO;
    }
    peer->posted += count;
    peer->quiet = signalled ? 0 : peer->quiet + count;
    if (!signalled)
        return 0;
    peer->signals[peer->signals_made++ % HCA_REQUESTS] =
        (struct hca_signal){.put = put,
                            .piece = peer->paused ? peer->again : peer->window.made,
                            .requests = peer->posted};
    if (put)
        put->base.pending++;
    return 0;
}

/* ---- messages ---- */

static uint8_t *window_buffer(const struct hca_peer *peer, uint64_t piece)
{
    const uint64_t number = HCA_RECEIVES + (piece & (HCA_WINDOW - 1));
    return peer->buffers + number * peer->hca->segment_bytes;
}

static uint8_t *count_buffer(struct hca_peer *peer)
{
    return peer->buffers + (uint64_t)(HCA_RECEIVES + HCA_WINDOW) * peer->hca->segment_bytes +
           peer->counts++ % HCA_COUNTS * sizeof(struct hca_head);
}

struct hca_piece *hca_next_piece(struct hca_peer *peer)
{
    struct window_piece *next = peer->paused ? NULL : window_next(&peer->window, 0);
    struct hca_piece *piece = (struct hca_piece *)next;
    if (piece) {
        piece->writes = NULL;
        piece->immediate = false;
    }
    return piece;
}

void hca_send_count(struct hca_peer *peer, struct hca_piece *piece, unsigned flags)
{
    window_add(&peer->window, &piece->base);
    if (!(flags & HCA_TELL))
        return;
    peer->window.asked = peer->window.made;
    hca_alive_watch(peer->hca);
}

/* The head is in the buffer, followed by so many bytes of payload. sges[1] to sges[count - 1]: more
 * payload. Takes the count that is owed along. */
static int send_message(struct hca_peer *peer, uint8_t *buffer, uint32_t copied_bytes,
                        struct ibv_sge *sges, unsigned count, struct hca_put *put)
{
    struct hca_head *head = (struct hca_head *)buffer;
    const uint32_t length = (uint32_t)sizeof(*head) + copied_bytes;
    head->counted = peer->credits.counted;
    sges[0] = (struct ibv_sge){
        .addr = (uintptr_t)buffer, .length = length, .lkey = peer->buffers_mr->lkey};
    struct ibv_send_wr request = {.opcode = IBV_WR_SEND, .sg_list = sges, .num_sge = (int)count};
    if (count == 1 && length <= peer->inline_bytes)
        request.send_flags = IBV_SEND_INLINE;
    int r = hca_send_chain(peer, &request, 1, put);
    if (r < 0)
        return r;
    credits_reported(&peer->credits);
    peer->asked = false;
    return 0;
}

/* The payload of a message of a put, from this packed position, from where it lies if it is long:
 * number of parts; 0: it has to be copied. *length_bytes: at most; what there is. */
static unsigned find_payload(const struct hca_put *put, uint64_t position_bytes,
                             struct ibv_sge *sges, uint32_t *length_bytes)
{
    struct iovec parts[HCA_SGES];
    uint32_t length = 0;
    if (*length_bytes <= HCA_COPY_BYTES || !put->part)
        return 0;
    const unsigned count =
        packed_parts(&put->source, position_bytes, *length_bytes, parts, put->peer->hca->sges - 1);
    for (unsigned i = 0; i < count; i++) {
        sges[i] = (struct ibv_sge){.addr = (uintptr_t)parts[i].iov_base,
                                   .length = (uint32_t)parts[i].iov_len,
                                   .lkey = put->lkey};
        length += (uint32_t)parts[i].iov_len;
    }
    if (count > 0)
        *length_bytes = length;
    return count;
}

int hca_send_piece(struct hca_put *put)
{
    struct hca_peer *peer = put->peer;
    struct ibv_sge sges[HCA_SGES];
    const uint64_t left = put->base.end_bytes - put->base.made_bytes,
                   most = peer->segment_bytes - sizeof(struct hca_head);
    const bool copied = put->copied;
    uint32_t length = (uint32_t)(left < most ? left : most);
    struct hca_piece *piece = hca_next_piece(peer);
    if (!piece || !hca_send_has_room(peer, 1))
        return -EAGAIN;
    uint8_t *buffer = window_buffer(peer, peer->window.made);
    const unsigned parts = find_payload(put, put->base.made_bytes, sges + 1, &length);
    const bool last = length == left;
    if (parts == 0 && length > 0)
        packed_read(&put->source, buffer + sizeof(struct hca_head), put->base.made_bytes, length);
    struct hca_head head = {
        .kind = HCA_PIECE,
        .flags = (last ? HCA_LAST : 0) | (last && !copied ? HCA_TELL : 0),
        .length_bytes = length,
        .landing = put->landing,
        .generation = put->generation,
        .position_bytes = length > 0 ? put->base.made_bytes + put->base.shift_bytes : 0,
    };
    memcpy(buffer, &head, sizeof(head));
    int r = send_message(peer, buffer, parts > 0 ? 0 : length, sges, 1 + parts, NULL);
    if (r < 0)
        return r;
    piece->base.put = copied ? NULL : &put->base;
    piece->base.flow = put->base.flow.flow;
    piece->base.done = copied && last;
    piece->writes = put->writes ? put : NULL;
    put->base.made_bytes += length;
    put->base.made = last;
    hca_send_count(peer, piece, head.flags);
    return 0;
}

int hca_send_notice(struct hca_peer *peer, enum hca_kind kind, const void *payload, uint32_t bytes,
                    struct hca_put *put)
{
    struct hca_piece *piece = hca_next_piece(peer);
    struct ibv_sge sge;
    if (!piece)
        return -EAGAIN;
    uint8_t *buffer = window_buffer(peer, peer->window.made);
    const struct hca_head head = {.kind = (uint8_t)kind, .flags = HCA_TELL, .length_bytes = bytes};
    memcpy(buffer, &head, sizeof(head));
    if (bytes > 0)
        memcpy(buffer + sizeof(head), payload, bytes);
    int r = send_message(peer, buffer, bytes, &sge, 1, put);
    if (r < 0)
        return r;
    hca_send_count(peer, piece, head.flags);
    return 0;
}

/* ---- messages that were lost ---- */

int hca_send_again(struct hca_peer *peer, uint64_t number)
{
    const struct window_piece *piece = window_piece(&peer->window, number);
    const struct hca_put *put = (const struct hca_put *)piece->put;
    uint8_t *buffer = window_buffer(peer, number);
    const struct hca_head *head = (const struct hca_head *)buffer;
    struct ibv_sge sges[HCA_SGES];
    uint32_t length = head->length_bytes;
    const unsigned parts =
        put ? find_payload(put, head->position_bytes - put->base.shift_bytes, sges + 1, &length)
            : 0;
    return send_message(peer, buffer, parts > 0 ? 0 : length, sges, 1 + parts, NULL);
}

void hca_send_instead(struct hca_peer *peer, uint64_t number)
{
    const struct hca_head head = {.kind = HCA_ASK, .flags = HCA_TELL};
    memcpy(window_buffer(peer, number), &head, sizeof(head));
}

/* ---- what is owed ---- */

static int send_ask(struct hca_peer *peer)
{
    int r = hca_send_notice(peer, HCA_ASK, NULL, 0, NULL);
    if (r == 0)
        peer->window.ask = false;
    return r;
}

int hca_send_owed(struct hca_peer *peer)
{
    struct ibv_sge sge;
    if (peer->window.ask && peer->window.made > peer->window.counted &&
        peer->window.asked == peer->window.made)
        peer->window.ask = false; /* a later message has asked */
    int r = peer->window.ask ? send_ask(peer) : 0;
    if (!peer->asked)
        return r;
    if (!hca_send_has_room(peer, 1))
        return -EAGAIN;
    uint8_t *buffer = count_buffer(peer);
    const struct hca_head head = {.kind = HCA_COUNT};
    memcpy(buffer, &head, sizeof(head));
    return send_message(peer, buffer, 0, &sge, 1, NULL);
}
