/*
 * The connections of pairs. The sender's daemon dials, unless the other daemon has to.
 *
 * Where the processes make the connection, the daemons carry what describes its ends. The process
 * that answers is ready to receive when its own offer is sent, and the one that dials sends first:
 * so neither sends to one that is not ready.
 *
 * When a connection breaks, either process may notice that first. The node that accepts connections
 * expects another one, with another secret if the daemons make it, and says so; the other one
 * dials, or asks its process for another offer. A number for each connection tells new reports from
 * old ones.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/worker.h"
#include "daemon/bindings/pairs.h"
#include "daemon/peers/peer.h"
#include "daemon/rails/link.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"
#include "proto/wait.h"

#define DIAL_NS UINT64_C(2000000000)

struct dial {
    struct tcad *tcad;
    uint64_t id, connection;
    struct driver *driver;
    uint8_t address[ADDRESS_MAX_BYTES], secret[PAIR_SECRET_BYTES];
    size_t address_bytes;
    bool encrypts;
    int fd; /* or why not */
};

static void dial_work(void *context)
{
    struct dial *dial = context;
    dial->fd =
        dial->driver->ops->pairs->dial(dial->driver, dial->address, dial->address_bytes,
                                       dial->connection, dial->secret, DIAL_NS, &dial->encrypts);
}

/* The dial of this connection of the pair; NULL: the pair has ended, or has got another
 * connection. */
static struct pair *dialling_pair(struct tcad *tcad, uint64_t id, uint64_t connection)
{
    struct pair *pair = pair_find(tcad, id);
    return pair && pair->connection == connection && pair->state == PAIR_DIALS ? pair : NULL;
}

/* Another node was asked whether it is up. */
struct pair_doubt {
    struct tcad *tcad;
    uint64_t id, connection;
};

static void doubt_ends(void *context, int status, const Tca__Message *reply, const char *text)
{
    struct pair_doubt *doubt = context;
    struct pair *pair = dialling_pair(doubt->tcad, doubt->id, doubt->connection);
    if (pair && status != -EHOSTDOWN) /* else pairs_node_gone() follows */
        pair_give_up(pair, -ENETDOWN);
    free(doubt);
}

/* A node that has just died refuses connections before its end is noticed. So the pair is kept
 * until the node has answered or is down: processes are told which of the two was lost, rail or
 * node. */
static void ask_for_life(struct pair *pair)
{
    struct tcad *tcad = pair->tcad;
    Tca__PeerPing ping = TCA__PEER_PING__INIT;
    const Tca__Message message = MESSAGE_OF(PEER_PING, peer_ping, &ping);
    struct pair_doubt *doubt = malloc(sizeof(*doubt));
    if (!doubt) {
        pair_give_up(pair, -ENETDOWN);
        return;
    }
    *doubt = (struct pair_doubt){.tcad = tcad, .id = pair->id, .connection = pair->connection};
    peers_request(tcad->peers, pair->node, &message, tcad->conf->control.request_timeout_ns,
                  doubt_ends, doubt);
}

static void dialled(void *context)
{
    struct dial *dial = context;
    struct pair *pair = dialling_pair(dial->tcad, dial->id, dial->connection);
    if (pair && dial->fd >= 0) {
        pair_hand_over(pair, dial->fd, dial->encrypts);
    } else if (pair) {
        log_warning(NULL,
                    "session %" PRIu64 ": no connection to session %" PRIu64 " of node %" PRIu32
                    ": %s",
                    pair->session, pair->other, pair->node, strerror(-dial->fd));
        ask_for_life(pair);
    }
    if (dial->fd >= 0)
        close(dial->fd);
    free(dial);
}

static void not_dialled(void *context)
{
    free(context);
}

static void ask_offer(struct pair *pair)
{
    pair_move(pair, PAIR_OFFERS);
    pair_event(pair, TCA__EVENT__KIND__PAIR, 0, -1, NULL);
}

/* Makes the connection, whose end it hands over, in the worker, or has the process make it.
 * -ENETDOWN, -ENOMEM. */
static int begin_dial(struct pair *pair)
{
    const struct link *link = links_find(pair->tcad->links, pair->node, pair->rail);
    if (!pairs_are_made(pair->tcad, pair->rail)) {
        ask_offer(pair);
        return 0;
    }
    struct dial *dial = calloc(1, sizeof(*dial));
    if (!dial || !link) {
        free(dial);
        return link ? -ENOMEM : -ENETDOWN;
    }
    *dial = (struct dial){.tcad = pair->tcad,
                          .id = pair->id,
                          .connection = pair->connection,
                          .address_bytes = link->address_bytes};
    dial->driver = engine_driver(pair->tcad->engine, pair->rail);
    memcpy(dial->address, link->address, link->address_bytes);
    memcpy(dial->secret, pair->secret, sizeof(dial->secret));
    int r = worker_submit(pair->tcad->dialler, pair->node, dial_work, dialled, not_dialled, dial);
    if (r < 0)
        free(dial);
    else
        pair_move(pair, PAIR_DIALS);
    return r;
}

static int dial(struct pair *pair, char *text, size_t text_bytes)
{
    pair->dials = true;
    int r = begin_dial(pair);
    if (r < 0) {
        snprintf(text, text_bytes, "no connection to node %" PRIu32 ": %s", pair->node,
                 strerror(-r));
        pair_give_up(pair, r);
    }
    return r;
}

/* Their sizes are equal: see pair_to(). */
static void take_secret(struct pair *pair, const Tca__BoundPut *bound)
{
    if (bound->secret.len > 0)
        memcpy(pair->secret, bound->secret.data, sizeof(pair->secret));
}

static int is_impossible(uint32_t node, char *text, size_t text_bytes)
{
    snprintf(text, text_bytes, "node %" PRIu32 " has named an invalid pair", node);
    return -EPROTO;
}

/* The pair is opened from both sides. */
static int cross(struct pair *pair, const Tca__BoundPut *bound, char *text, size_t text_bytes)
{
    const struct pair_state_row *row = &pair_states[pair->state];
    const enum pair_cross what = pair->tcad->node < pair->node ? row->lower : row->higher;
    if (what == PAIR_KEEPS)
        return 0;
    if (what == PAIR_IMPOSSIBLE)
        return is_impossible(pair->node, text, text_bytes);
    pair_forget(pair);
    pair_renumber(pair, bound->pair);
    take_secret(pair, bound);
    return dial(pair, text, text_bytes);
}

int pair_to(struct tcad *tcad, const struct session *from, uint32_t node, unsigned rail,
            const Tca__BoundPut *bound, struct pair **ret_pair, char *text, size_t text_bytes)
{
    struct pair *named = pair_of_connection(tcad, bound->pair),
                *pair = pair_with(tcad, from->id, node, bound->receiver);
    struct pair values = {.tcad = tcad,
                          .id = bound->pair,
                          .connection = bound->pair,
                          .node = node,
                          .session = from->id,
                          .other = bound->receiver,
                          .rail = rail};
    *ret_pair = pair;
    if (pair)
        pair_use(pair);
    if (pair && named == pair)
        return 0;
    if (named || bound->pair == 0 || bound->secret.len != pairs_secret_bytes(tcad, rail) ||
        (!pair && pair_find(tcad, bound->pair)))
        return is_impossible(node, text, text_bytes);
    if (pair)
        return cross(pair, bound, text, text_bytes);
    take_secret(&values, bound);
    int r = pair_new(tcad, &values, ret_pair, text, text_bytes);
    if (r < 0)
        pair_tell_other(&values, r); /* it expects this node to dial */
    return r < 0 ? r : dial(*ret_pair, text, text_bytes);
}

/* ---- connections that the processes make ---- */

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

/* ---- another connection for a pair whose connection has broken ---- */

/* A process that ends every connection must not keep the daemons busy: so many in a second. */
#define SECOND_NS UINT64_C(1000000000)
enum { RENEWALS_MAX = 20 };

static void tell_again(const struct pair *pair)
{
    const bool accepts = !pair->dials && pairs_are_made(pair->tcad, pair->rail);
    Tca__PeerPairAgain again =
        BODY_OF(peer_pair_again, .pair = pair->connection, .turn = pair->turn,
                .secret = {accepts ? sizeof(pair->secret) : 0, (uint8_t *)pair->secret});
    const Tca__Message message = MESSAGE_OF(PEER_PAIR_AGAIN, peer_pair_again, &again);
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
        tell_again(pair);
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
        tell_again(pair);
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
        tell_again(pair); /* it was dialling when it was told */
        return;
    }
    if (!pair->dials) {
        expect(pair);
        return;
    }
    if (again->secret.len != pairs_secret_bytes(tcad, pair->rail))
        return;
    if (again->secret.len > 0)
        memcpy(pair->secret, again->secret.data, sizeof(pair->secret));
    if (begin_dial(pair) < 0)
        pair_give_up(pair, -ENETDOWN);
}
