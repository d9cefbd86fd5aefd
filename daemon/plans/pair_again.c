/* Another connection for a pair whose connection has broken. Either process may notice that first.
 * The node that accepts connections expects one, with another secret if the daemons make it, and
 * says so; the other one dials, or asks its process for another offer. A number for each connection
 * tells new reports from old ones. */
#include <errno.h>
#include <string.h>

#include "daemon/peers/peer.h"
#include "daemon/plans/pairs_internal.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"
#include "proto/wait.h"

/* A process that ends every connection must not keep the daemons busy: so many in a second. */
#define SECOND_NS UINT64_C(1000000000)
enum { RENEWALS_MAX = 20 };

static void tell_other(const struct pair *pair)
{
    Tca__PeerPairAgain again = TCA__PEER_PAIR_AGAIN__INIT;
    Tca__Message message = TCA__MESSAGE__INIT;
    again.pair = pair->connection;
    again.turn = pair->turn;
    if (!pair->dials && pairs_are_made(pair->tcad, pair->rail))
        again.secret = (ProtobufCBinaryData){sizeof pair->secret, (uint8_t *)pair->secret};
    message.body_case = TCA__MESSAGE__BODY_PEER_PAIR_AGAIN;
    message.peer_pair_again = &again;
    peers_tell(pair->tcad->peers, pair->node, &message);
}

static bool too_often(struct pair *pair)
{
    const uint64_t now_ns = clock_now_ns();
    if (now_ns - pair->renewals_since_ns > SECOND_NS) {
        pair->renewals_since_ns = now_ns;
        pair->renewals = 0;
    }
    return ++pair->renewals > RENEWALS_MAX;
}

/* This node accepts it. */
static void expect(struct pair *pair)
{
    if (too_often(pair) || pair_expect(pair, PAIR_NAMED) < 0)
        pair_give_up(pair, -ENETDOWN);
    else
        tell_other(pair);
}

void pair_lost(struct session *session, const Tca__PairLost *lost)
{
    struct pair *pair = pair_find(session->tcad, lost->pair);
    if (!pair || pair->session != session->id)
        return;
    if (lost->refused)
        session->pair_rails &= ~(1u << pair->rail);
    if (!lost->again)
        pair_give_up(pair, -ENETDOWN);
    else if (lost->turn != pair->turn || pair->state != PAIR_UP)
        return; /* there is another one, or will be */
    else if (!pair->dials)
        expect(pair);
    else if (too_often(pair))
        pair_give_up(pair, -ENETDOWN);
    else
        tell_other(pair);
}

void pairs_again(struct tcad *tcad, uint32_t node, const Tca__PeerPairAgain *again)
{
    struct pair *pair = pair_of_connection(tcad, again->pair);
    if (!pair || pair->node != node || again->turn < pair->turn ||
        (pair->state != PAIR_UP && !pair_is_expected(pair)))
        return;
    const bool is_later = again->turn > pair->turn;
    pair->turn = again->turn;
    if (pair_is_expected(pair) && !is_later) {
        tell_other(pair); /* it was dialling when it was told */
        return;
    }
    if (!pair->dials) {
        expect(pair);
        return;
    }
    if (again->secret.len != pairs_secret_bytes(tcad, pair->rail))
        return;
    if (again->secret.len > 0)
        memcpy(pair->secret, again->secret.data, sizeof pair->secret);
    if (pair_dial(pair) < 0)
        pair_give_up(pair, -ENETDOWN);
}
