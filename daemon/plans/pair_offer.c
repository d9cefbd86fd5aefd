/* Pairs whose connection the processes make: the daemons carry what describes its ends. The process
 * that answers is ready to receive when its own offer is sent, and the one that dials sends first:
 * so neither sends to one that is not ready. */
#include <errno.h>

#include "daemon/peers/peer.h"
#include "daemon/plans/pairs_internal.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"

void pair_ask_offer(struct pair *pair)
{
    pair_move(pair, PAIR_OFFERS);
    pair_event(pair, TCA__EVENT__KIND__PAIR, 0, -1, NULL);
}

static void carry(const struct pair *pair, const ProtobufCBinaryData *offer)
{
    Tca__PeerPairOffer carried =
        BODY_OF(peer_pair_offer, .pair = pair->connection, .offer = *offer);
    const Tca__Message message = MESSAGE_OF(PEER_PAIR_OFFER, peer_pair_offer, &carried);
    peers_tell(pair->tcad->peers, pair->node, &message);
}

/* Offers that nobody has asked for are late ones: the process cannot know. */
void pair_offered(struct session *session, const Tca__PairOffer *offer)
{
    struct pair *pair = pair_find(session->tcad, offer->pair);
    if (!pair || pair->session != session->id ||
        (pair->state != PAIR_OFFERS && pair->state != PAIR_ANSWERS))
        return;
    pair_move(pair, pair->state == PAIR_OFFERS ? PAIR_OFFERED : PAIR_UP);
    if (offer->offer.len == 0 || offer->offer.len > OFFER_MAX_BYTES)
        pair_give_up(pair, -EPROTO);
    else
        carry(pair, &offer->offer);
}

void pairs_offered(struct tcad *tcad, uint32_t node, const Tca__PeerPairOffer *offer)
{
    struct pair *pair = pair_of_connection(tcad, offer->pair);
    if (!pair || pair->node != node || pairs_are_made(tcad, pair->rail))
        return;
    const bool awaited = pair->state == PAIR_OFFERED || pair_is_expected(pair);
    if (!awaited || offer->offer.len == 0 || offer->offer.len > OFFER_MAX_BYTES) {
        pair_give_up(pair, -EPROTO);
        return;
    }
    pair_move(pair, pair->state == PAIR_OFFERED ? PAIR_UP : PAIR_ANSWERS);
    pair->turn++;
    pair_event(pair, TCA__EVENT__KIND__PAIR, 0, -1, &offer->offer);
}
