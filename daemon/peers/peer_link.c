/* Links: messages are kept until the other side has acknowledged them, so that they can be sent
 * again on the next connection. */
#include <stdio.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/peers/peer_internal.h"

/* So much is acknowledged without waiting for a heartbeat. */
enum { ACKNOWLEDGE_MESSAGES = 256, ACKNOWLEDGE_BYTES = 256 << 10 };

bool peer_has_link(const struct peer *peer)
{
    return peer->state == PEER_UP || peer->state == PEER_LOST || peer->state == PEER_RECONNECTING ||
           peer->state == PEER_RESUMING;
}

void link_offer(struct connection *connection)
{
    struct half_link *half = &connection->peer->halves[0];

    connection->peer->halves[1] = *half;
    half->incarnation = connection->incarnation;
    memcpy(half->own_key, connection->link_key, LINK_KEY_BYTES);
    memcpy(half->other_key, connection->hello->peer_hello->link_key.data, LINK_KEY_BYTES);
}

void link_begin(struct peer *peer)
{
    struct peer_link *link = &peer->link;

    *link = (struct peer_link){0};
    outbox_init(&link->outbox);
    memcpy(link->own_key, peer->halves[0].own_key, LINK_KEY_BYTES);
    memcpy(link->other_key, peer->halves[0].other_key, LINK_KEY_BYTES);
    peer->halves[0] = peer->halves[1];
    explicit_bzero(&peer->halves[1], sizeof(peer->halves[1]));
}

void link_note_given(struct peer *peer, const uint8_t key[static LINK_KEY_BYTES])
{
    memcpy(peer->given[1], peer->given[0], LINK_KEY_BYTES);
    memcpy(peer->given[0], key, LINK_KEY_BYTES);
    peer->given_count += peer->given_count < 2;
}

void link_exchange(struct peer *peer)
{
    struct peer_link *link = &peer->link;
    struct half_link other = peer->halves[0];

    memcpy(peer->halves[0].own_key, link->own_key, LINK_KEY_BYTES);
    memcpy(peer->halves[0].other_key, link->other_key, LINK_KEY_BYTES);
    memcpy(link->own_key, other.own_key, LINK_KEY_BYTES);
    memcpy(link->other_key, other.other_key, LINK_KEY_BYTES);
    explicit_bzero(&other, sizeof(other));
}

void link_end(struct peer *peer)
{
    outbox_deinit(&peer->link.outbox);
    explicit_bzero(&peer->link, sizeof(peer->link));
}

/* ---- sending ---- */

static void send_kept(struct peer *peer, const struct kept *kept)
{
    if (peer->state == PEER_UP)
        connection_send_bytes(peer->connection, kept->tag, kept->bytes, kept->count);
}

static struct kept *keep(struct peer *peer, uint32_t tag, size_t count)
{
    struct peer_link *link = &peer->link;
    struct kept *kept;

    /* No message may follow one that is missing. */
    if (link->overrun || outbox_add(&link->outbox, tag, count, &kept) < 0) {
        link->overrun = true;
        peers_tick_soon(peer->peers);
        return NULL;
    }
    return kept;
}

void link_send(struct peer *peer, uint32_t tag, const Tca__Message *message)
{
    size_t count = tca__message__get_packed_size(message);
    struct kept *kept = count <= FRAME_PAYLOAD_MAX ? keep(peer, tag, count) : NULL;
    if (!kept)
        return;
    tca__message__pack(message, kept->bytes);
    send_kept(peer, kept);
}

void link_send_bytes(struct peer *peer, uint32_t tag, const void *bytes, size_t count)
{
    struct kept *kept = keep(peer, tag, count);
    if (!kept)
        return;
    memcpy(kept->bytes, bytes, count);
    send_kept(peer, kept);
}

void link_resume(struct peer *peer)
{
    const struct outbox *outbox = &peer->link.outbox;
    char fields[48];

    peer->reconnects++;
    snprintf(fields, sizeof(fields), "TCAD_NODE=%u", peer->node);
    log_info(fields, "node %s (id %u) is connected again; messages sent again: %llu", peer->name,
             peer->node, (unsigned long long)(outbox->sent - outbox->acknowledged));
    for (const struct kept *kept = outbox->first; kept; kept = kept->next)
        send_kept(peer, kept);
}

/* ---- receiving ---- */

static void acknowledge(struct peer *peer)
{
    Tca__PeerPong pong = TCA__PEER_PONG__INIT;
    const Tca__Message message = MESSAGE_OF(PEER_PONG, peer_pong, &pong);
    pong.received = link_tell(&peer->link);
    connection_send(peer->connection, 0, &message);
}

uint64_t link_tell(struct peer_link *link)
{
    link->acknowledged = link->received;
    link->untold_bytes = 0;
    return link->received;
}

void link_received(struct peer *peer, size_t count)
{
    struct peer_link *link = &peer->link;

    link->received++;
    link->untold_bytes += count;
    if (link->received - link->acknowledged >= ACKNOWLEDGE_MESSAGES ||
        link->untold_bytes >= ACKNOWLEDGE_BYTES)
        acknowledge(peer);
}

int link_acknowledged(struct connection *connection, uint64_t received)
{
    struct outbox *outbox = &connection->peer->link.outbox;
    char text[PEER_TEXT_MAX];

    int r = outbox_acknowledge(outbox, received);
    if (r < 0) {
        link_explain(outbox, received, text, sizeof(text));
        connection_fail(connection, r, text);
    }
    return r;
}

void link_explain(const struct outbox *outbox, uint64_t received, char *text, size_t text_bytes)
{
    snprintf(text, text_bytes,
             "it acknowledges %llu messages, of %llu that were sent and %llu that it has "
             "acknowledged before",
             (unsigned long long)received, (unsigned long long)outbox->sent,
             (unsigned long long)outbox->acknowledged);
}
