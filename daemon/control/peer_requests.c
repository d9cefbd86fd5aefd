/* Dispatches requests of daemons, including this one. */
#include "daemon/control/peer_requests.h"

#include <errno.h>

#include "daemon/bindings/binding.h"
#include "daemon/bindings/pairs.h"
#include "daemon/groups/group.h"
#include "daemon/peers/peer.h"
#include "daemon/plans/plan.h"
#include "daemon/rails/link.h"
#include "daemon/tcad.h"
#include "proto/status.h"

static void region_gone(struct tcad *tcad, uint32_t node, const Tca__PeerRegionGone *gone)
{
    const int error = status_from_wire(gone->status);
    plans_remote_region_gone(tcad, node, gone->region, error < 0 ? error : -ESTALE);
}

void peer_request(void *context, uint32_t node, uint32_t tag, const Tca__Message *request)
{
    struct tcad *tcad = context;
    switch (request->body_case) {
    case TCA__MESSAGE__BODY_PEER_BIND:
        bindings_requested(tcad, node, tag, request->peer_bind);
        return;
    case TCA__MESSAGE__BODY_PEER_UNBIND:
        bindings_unbind(tcad, node, request->peer_unbind);
        return;
    case TCA__MESSAGE__BODY_PEER_REGION_GONE:
        region_gone(tcad, node, request->peer_region_gone);
        return;
    case TCA__MESSAGE__BODY_PEER_PAIR_GONE:
        pairs_gone(tcad, node, request->peer_pair_gone);
        return;
    case TCA__MESSAGE__BODY_PEER_PAIR_AGAIN:
        pairs_again(tcad, node, request->peer_pair_again);
        return;
    case TCA__MESSAGE__BODY_PEER_PAIR_OFFER:
        pairs_offered(tcad, node, request->peer_pair_offer);
        return;
    case TCA__MESSAGE__BODY_PEER_OFFER:
        links_offered(tcad->links, node, tag, request->peer_offer);
        return;
    case TCA__MESSAGE__BODY_PEER_PING: /* from this daemon: daemon/peers handles those of others */
        peers_done(tcad->peers, node, tag);
        return;
    default:
        if (!groups_requested(tcad->groups, node, tag, request))
            peers_fail(tcad->peers, node, tag, -EPROTO, "node %u does not know this request",
                       tcad->node);
    }
}
