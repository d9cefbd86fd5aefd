/*
 * Connections that need both ends: each node makes a peer and sends its offer to the other one, in
 * a request or in the reply to one. If both request at once, each uses the other's request as the
 * reply to its own, and the replies only confirm it.
 *
 * A generation identifies a peer of a node. If a node offers a newer peer than the one that this
 * node's peer was completed with, the older one is gone: this node replaces its own. Older
 * generations are refused. So an offer completes only the peer that it was made for.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "daemon/peers/peer.h"
#include "daemon/rails/link_internal.h"
#include "daemon/rails/rails.h"
#include "daemon/tcad.h"

/* Takes an offer of another node, if it is within the limits. */
static bool take_offer(uint64_t generation, ProtobufCBinaryData data, struct offer *ret_offer)
{
    if (generation == 0 || data.len == 0 || data.len > OFFER_MAX_BYTES)
        return false;
    *ret_offer = (struct offer){.generation = generation, .bytes = data.len};
    memcpy(ret_offer->data, data.data, data.len);
    return true;
}

/* ---- this node's offer, and the reply to it ---- */

static void end_for(struct link *link, int error, const char *text)
{
    struct links *links = link->links;
    const bool was_connected = link->state == LINK_CONNECTED;
    const uint32_t node = link->node;
    const unsigned rail = link->rail;
    link_fail(link, error, text);
    if (was_connected)
        links->lost(links->tcad, node, rail, error);
}

static void take_reply(struct link *link, const Tca__Message *reply)
{
    struct offer offer;
    char text[128];
    if (reply->body_case != TCA__MESSAGE__BODY_PEER_OFFERED ||
        !take_offer(reply->peer_offered->generation, reply->peer_offered->offer, &offer)) {
        snprintf(text, sizeof(text), "node %" PRIu32 " replied with an invalid offer", link->node);
        end_for(link, -EPROTO, text);
    } else if (link->state == LINK_OFFERED && offer.generation > link->other.generation) {
        link->other = offer;
        link_answer(link);
    } else if (offer.generation != link->other.generation || link->other.bytes == 0) {
        snprintf(text, sizeof(text), "node %" PRIu32 " has replaced its end", link->node);
        end_for(link, -ENETDOWN, text);
    }
}

static void replied(void *context, int status, const Tca__Message *reply, const char *text)
{
    struct link *link = context;
    if (link->state != LINK_FAILED) {
        if (status < 0)
            end_for(link, status, text);
        else
            take_reply(link, reply);
    }
    link_unref(link);
}

void link_ask(struct link *link)
{
    struct links *links = link->links;
    const struct rail *rail = rail_at(links->tcad, link->rail);
    Tca__RailKey key = BODY_OF(rail_key, .driver = (char *)driver_name(rail->driver),
                               .plane = (char *)rail->plane);
    Tca__PeerOffer offer = BODY_OF(peer_offer, .rail = &key, .generation = link->own.generation,
                                   .offer = (ProtobufCBinaryData){link->own.bytes, link->own.data});
    const Tca__Message message = MESSAGE_OF(PEER_OFFER, peer_offer, &offer);

    link_move(link, LINK_OFFERED);
    link->refs++;
    peers_request(links->tcad->peers, link->node, &message,
                  links->tcad->conf->control.request_timeout_ns, replied, link);
}

/* ---- the other node's offer ---- */

void link_reply(struct link *link, int status, const char *text)
{
    struct peers *peers = link->links->tcad->peers;
    const uint32_t tag = link->reply_tag;
    if (tag == 0)
        return;
    link->reply_tag = 0;
    if (status < 0) {
        peers_fail(peers, link->node, tag, status, "%s", text);
        return;
    }
    Tca__PeerOffered offered =
        BODY_OF(peer_offered, .generation = link->own.generation,
                .offer = (ProtobufCBinaryData){link->own.bytes, link->own.data});
    const Tca__Message message = MESSAGE_OF(PEER_OFFERED, peer_offered, &offered);
    peers_reply(peers, link->node, tag, &message);
}

/* A live link that can take the offer. NULL: out of memory. */
static struct link *replace_stale(struct links *links, struct link *link)
{
    const uint32_t node = link->node;
    const unsigned rail = link->rail;
    if (link->state != LINK_ANSWERING && link->state != LINK_CONNECTED)
        return link;
    end_for(link, -ENETDOWN, "the other node has replaced its end");
    link = links_find(links, node, rail);
    return link && link->state < LINK_ANSWERING ? link : NULL;
}

static int take_request(struct link *link, uint32_t tag, const struct offer *offer)
{
    link_reply(link, -ESTALE, "a newer offer has replaced this one");
    link->other = *offer;
    link->reply_tag = tag;
    if (link->state == LINK_OFFERED) {
        link_answer(link);
        return 0;
    }
    int r =
        link->state == LINK_IDLE ? link_connect(link, NULL) : 0; /* else connect_done() goes on */
    return r == -EINPROGRESS ? 0 : r;
}

static void refuse(struct link *link, int error)
{
    link->other.bytes = 0;
    link_reply(link, error, strerror(-error));
}

void links_offered(struct links *links, uint32_t node, uint32_t tag, const Tca__PeerOffer *request)
{
    struct tcad *tcad = links->tcad;
    struct offer offer;
    const Tca__RailKey *key = request->rail;
    const unsigned rail = key ? rail_find(tcad, key->driver, key->plane) : RAIL_NONE;
    struct link *link = rail && node != tcad->node ? links_find(links, node, rail) : NULL;
    if (!link || !engine_driver(tcad->engine, rail)->ops->peer_answer) {
        peers_fail(tcad->peers, node, tag, -ENETDOWN,
                   "node %" PRIu32 " has no rail of that name to node %" PRIu32
                   " that takes offers",
                   tcad->node, node);
        return;
    }
    if (!take_offer(request->generation, request->offer, &offer)) {
        peers_fail(tcad->peers, node, tag, -EPROTO,
                   "an offer of %zu bytes, generation %" PRIu64 ": 1 to %d bytes are allowed, and "
                   "generations from 1",
                   request->offer.len, request->generation, OFFER_MAX_BYTES);
        return;
    }
    if (offer.generation <= link->other.generation) {
        peers_fail(tcad->peers, node, tag, -ESTALE, "offer %" PRIu64 " is not newer than %" PRIu64,
                   offer.generation, link->other.generation);
        return;
    }
    link = replace_stale(links, link);
    int r = link ? take_request(link, tag, &offer) : -ENOMEM;
    if (!link)
        peers_fail(tcad->peers, node, tag, r, "out of memory for a link");
    else if (r < 0)
        refuse(link, r);
}
