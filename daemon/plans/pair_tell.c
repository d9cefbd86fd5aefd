/* What the process of a pair, and the other node, are told of it. */
#include "daemon/engine/engine.h"
#include "daemon/peers/peer.h"
#include "daemon/plans/pairs_internal.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"
#include "proto/status.h"

bool pair_by_kernel(const struct pair *pair)
{
    const struct driver_caps *caps = engine_driver_caps(pair->tcad->engine, pair->rail);
    return pair->encrypts && caps && caps->kernel_tls;
}

void pair_event(const struct pair *pair, Tca__Event__Kind kind, int status, int fd,
                const ProtobufCBinaryData *offer)
{
    struct session *session = session_find(pair->tcad, pair->session);
    Tca__Event event = TCA__EVENT__INIT;
    Tca__Pair body = TCA__PAIR__INIT;
    if (!session)
        return;
    body.id = pair->id;
    body.dialled = pair->dials;
    body.turn = pair->turn;
    body.rail = pair->rail;
    if (offer)
        body.offer = *offer;
    if (pair->encrypts && fd >= 0)
        body.secret = (ProtobufCBinaryData){sizeof pair->secret, (uint8_t *)pair->secret};
    body.kernel_tls = pair_by_kernel(pair);
    event.kind = kind;
    event.pair = &body;
    event.status = status_to_wire(status);
    session_event_fds(session, &event, &fd, fd >= 0);
}

void pair_hand_over(struct pair *pair, int fd, bool encrypts)
{
    pair_move(pair, PAIR_UP);
    pair->encrypts = encrypts;
    pair->turn++;
    pair_event(pair, TCA__EVENT__KIND__PAIR, 0, fd, NULL);
}

void pair_tell_other(const struct pair *pair, int status)
{
    Tca__PeerPairGone gone = TCA__PEER_PAIR_GONE__INIT;
    Tca__Message message = TCA__MESSAGE__INIT;
    gone.pair = pair->connection;
    gone.status = status_to_wire(status);
    message.body_case = TCA__MESSAGE__BODY_PEER_PAIR_GONE;
    message.peer_pair_gone = &gone;
    peers_tell(pair->tcad->peers, pair->node, &message);
}

void pair_end(struct pair *pair, int status)
{
    pair_event(pair, TCA__EVENT__KIND__PAIR_GONE, status, -1, NULL);
    pair_drop(pair);
}

void pair_give_up(struct pair *pair, int status)
{
    pair_tell_other(pair, status);
    pair_end(pair, status);
}
