/* Dispatches requests of clients. */
#include <errno.h>

#include "daemon/bindings/pairs.h"
#include "daemon/control/admin.h"
#include "daemon/control/server.h"
#include "daemon/groups/group.h"
#include "daemon/offload/offload.h"
#include "daemon/plans/plan.h"
#include "daemon/plans/releases.h"
#include "daemon/sessions/client.h"
#include "daemon/sessions/client_request.h"
#include "daemon/sessions/region.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"

static void hello(struct client *client, uint32_t tag, const Tca__Hello *hello)
{
    if (hello->version != PROTO_VERSION) {
        client_failf(client, tag, -EPROTONOSUPPORT,
                     "the library speaks protocol %u, tcad " TCAD_VERSION
                     " speaks %d: install the same version of both",
                     hello->version, PROTO_VERSION);
        client_drop_later(client, "another protocol version");
        return;
    }
    if (client->session || client->admin) {
        client_failf(client, tag, -EINVAL, "a second hello on this connection");
        return;
    }
    if (hello->admin) {
        client->admin = true;
        Tca__Welcome welcome = BODY_OF(
            welcome, .version = PROTO_VERSION, .node = client->tcad->node,
            .node_name = client->tcad->conf->node.name, .incarnation = client->tcad->incarnation,
            .daemon_version = (char *)TCAD_VERSION);
        const Tca__Message message = MESSAGE_OF(WELCOME, welcome, &welcome);
        client_send(client, tag, &message, NULL, 0);
        return;
    }
    client->session = session_new(client->tcad, client, tag, hello);
}

static void serve(struct client *client, struct client_request *request)
{
    struct session *session = client->session;
    const Tca__Message *message = request->message;
    const uint32_t tag = request->header.tag;

    if (message->body_case == TCA__MESSAGE__BODY_HELLO) {
        hello(client, tag, message->hello);
        return;
    }
    if (message->body_case == TCA__MESSAGE__BODY_ADMIN && client->admin) {
        admin_request(client, tag, message->admin);
        return;
    }
    if (!session) {
        client_failf(client, tag, -EINVAL, "the first message must be a hello");
        client_drop_later(client, "did not begin with a hello");
        return;
    }
    if (message->body_case != TCA__MESSAGE__BODY_PLAN_RELEASE)
        releases_begin(session->tcad->releases);
    switch (message->body_case) {
    case TCA__MESSAGE__BODY_GROUP_JOIN:
        group_join(session, tag, message->group_join);
        break;
    case TCA__MESSAGE__BODY_GATHER:
        group_gather(session, tag, message->gather);
        break;
    case TCA__MESSAGE__BODY_GROUP_SPLIT:
        group_split(session, tag, message->group_split);
        break;
    case TCA__MESSAGE__BODY_GROUP_SHRINK:
        group_shrink(session, tag, message->group_shrink);
        break;
    case TCA__MESSAGE__BODY_GROUP_RELEASE:
        group_release(session, tag, message->group_release);
        break;
    case TCA__MESSAGE__BODY_PUBLISH:
        group_publish(session, tag, message->publish);
        break;
    case TCA__MESSAGE__BODY_LOOKUP:
        group_lookup(session, tag, message->lookup);
        break;
    case TCA__MESSAGE__BODY_SESSION_CLOSE:
        session_close_request(session, tag);
        break;
    case TCA__MESSAGE__BODY_REGION_ALLOC:
        region_alloc(session, tag, message->region_alloc, &request->fd);
        break;
    case TCA__MESSAGE__BODY_REGION_FREE:
        region_free_request(session, tag, message->region_free);
        break;
    case TCA__MESSAGE__BODY_REGION_REACH:
        region_reach(session, tag, message->region_reach);
        break;
    case TCA__MESSAGE__BODY_DCFA_OPEN:
    case TCA__MESSAGE__BODY_DCFA_CREATE:
    case TCA__MESSAGE__BODY_DCFA_CONNECT:
    case TCA__MESSAGE__BODY_DCFA_RELEASE:
        offload_request(session, tag, message);
        break;
    case TCA__MESSAGE__BODY_PAIR_RAILS:
        session->pair_rails = message->pair_rails->rails;
        break;
    case TCA__MESSAGE__BODY_PAIR_LOST:
        pair_lost(session, message->pair_lost);
        break;
    case TCA__MESSAGE__BODY_PAIR_OFFER:
        pair_offered(session, message->pair_offer);
        break;
    case TCA__MESSAGE__BODY_PLAN_TRY:
        plan_try_request(session, message->plan_try);
        break;
    case TCA__MESSAGE__BODY_PLAN_RELEASE:
        plan_release_request(session, tag, message->plan_release);
        break;
    default:
        client_failf(client, tag, -EPROTO, "clients may not send message %d",
                     (int)message->body_case);
        client_drop_later(client, "it sent a message that clients may not send");
    }
}

void request_serve(struct client *client, struct client_request *request)
{
    if (client->session && request->message->body_case == TCA__MESSAGE__BODY_PLAN_COMMIT) {
        plan_commit(client->session, request);
        return;
    }
    serve(client, request);
    client_request_free(request);
}
