/* Pairs at the sender's daemon, which dials unless the other daemon has to. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/worker.h"
#include "daemon/peers/peer.h"
#include "daemon/plans/pairs_internal.h"
#include "daemon/rails/link.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"

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
    struct pair_doubt *doubt = malloc(sizeof *doubt);
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

int pair_dial(struct pair *pair)
{
    const struct link *link = links_find(pair->tcad->links, pair->node, pair->rail);
    if (!pairs_are_made(pair->tcad, pair->rail)) {
        pair_ask_offer(pair);
        return 0;
    }
    struct dial *dial = calloc(1, sizeof *dial);
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
    memcpy(dial->secret, pair->secret, sizeof dial->secret);
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
    int r = pair_dial(pair);
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
        memcpy(pair->secret, bound->secret.data, sizeof pair->secret);
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
