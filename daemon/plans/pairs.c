#include "daemon/plans/pairs_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "daemon/plans/binding.h"
#include "daemon/plans/plan.h"
#include "daemon/rails/link.h"
#include "daemon/rails/rails.h"
#include "daemon/sessions/region.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"
#include "proto/status.h"

int pairs_new(struct tcad *tcad, struct pairs **ret_pairs)
{
    struct pairs *pairs = calloc(1, sizeof *pairs);
    if (!pairs)
        return -ENOMEM;
    pairs->places = LANDINGS_INIT;
    *ret_pairs = pairs;
    return 0;
}

struct pair *pair_find(struct tcad *tcad, uint64_t id)
{
    return table_find(&tcad->pairs->ids, id);
}

/* ---- life ---- */

static const struct driver_pair_ops *ops_of(const struct tcad *tcad, unsigned rail,
                                            struct driver **ret_driver)
{
    *ret_driver = engine_driver(tcad->engine, rail);
    return *ret_driver ? (*ret_driver)->ops->pairs : NULL;
}

bool pairs_are_made(const struct tcad *tcad, unsigned rail)
{
    struct driver *driver;
    const struct driver_pair_ops *ops = ops_of(tcad, rail, &driver);
    return ops && ops->dial;
}

bool pairs_can(const struct session *session, unsigned rail)
{
    return pairs_are_made(session->tcad, rail) || session->pair_rails & 1u << rail;
}

size_t pairs_secret_bytes(const struct tcad *tcad, unsigned rail)
{
    return pairs_are_made(tcad, rail) ? PAIR_SECRET_BYTES : 0;
}

/* Rails over which any process can: then it has to ask for those that it may not have access to. */
unsigned pairs_rail(const struct tcad *tcad, uint32_t node, unsigned wanted)
{
    struct driver *driver;
    unsigned other = 0;
    const bool known = links_know(tcad->links, node);
    for (unsigned rail = 1; rail <= tcad->rails->last; rail++) {
        if ((wanted != 0 && !(wanted & 1u << rail)) || !ops_of(tcad, rail, &driver) ||
            !links_possible(tcad, rail, node) || (known && !links_exists(tcad->links, node, rail)))
            continue;
        if (pairs_are_made(tcad, rail))
            return rail;
        other = other ? other : rail;
    }
    return other;
}

void pairs_each(const struct tcad *tcad, void (*call)(void *context, void *pair), void *context)
{
    table_each(&tcad->pairs->ids, call, context);
}

int pair_new(struct tcad *tcad, const struct pair *values, struct pair **ret_pair, char *text,
             size_t text_bytes)
{
    const unsigned count = pairs_count(tcad, values->session);
    const uint32_t limit = tcad->conf->limits.pairs_per_session;
    if (count >= limit) {
        snprintf(text, text_bytes,
                 "session %" PRIu64 " of node %" PRIu32 " has %u connections to processes of other "
                 "nodes, the limit (limits.pairs_per_session): let tcad put (TCA_SEAT_DAEMON), or "
                 "raise it",
                 values->session, tcad->node, count);
        return -EDQUOT;
    }
    struct pair *pair = malloc(sizeof *pair);
    if (!pair) {
        snprintf(text, text_bytes, "no memory for a pair");
        return -ENOMEM;
    }
    *pair = *values;
    pair->tcad = tcad;
    table_add(&tcad->pairs->ids, &pair->entry, pair->id, pair);
    plans_pairs_changed(tcad, pair->session);
    *ret_pair = pair;
    return 0;
}

void pair_forget(struct pair *pair)
{
    struct driver *driver;
    const struct driver_pair_ops *ops = ops_of(pair->tcad, pair->rail, &driver);
    if (pair->expected && ops && ops->forget)
        ops->forget(driver, pair->connection);
    pair->expected = false;
}

static void drop_one(void *context, void *owner)
{
    struct pair *pair = owner;
    pair_forget(pair);
    table_remove(&pair->tcad->pairs->ids, &pair->entry);
    free(pair);
}

void pair_drop(struct pair *pair)
{
    struct tcad *tcad = pair->tcad;
    const uint64_t session = pair->session;
    drop_one(NULL, pair);
    plans_pairs_changed(tcad, session);
}

struct pairs *pairs_free(struct pairs *pairs)
{
    if (!pairs)
        return NULL;
    table_each(&pairs->ids, drop_one, NULL);
    table_deinit(&pairs->ids);
    landings_deinit(&pairs->places);
    free(pairs);
    return NULL;
}

/* ---- looking them up ---- */

struct search {
    struct pair wanted;
    struct pair *found;
};

static void match_processes(void *context, void *owner)
{
    struct search *search = context;
    struct pair *pair = owner;
    if (pair->session == search->wanted.session && pair->node == search->wanted.node &&
        pair->other == search->wanted.other)
        search->found = pair;
}

struct pair *pair_with(const struct tcad *tcad, uint64_t session, uint32_t node, uint64_t other)
{
    struct search search = {.wanted = {.session = session, .node = node, .other = other}};
    table_each(&tcad->pairs->ids, match_processes, &search);
    return search.found;
}

bool pairs_exist(const struct tcad *tcad, uint64_t session, uint32_t node, uint64_t other)
{
    return pair_with(tcad, session, node, other) != NULL;
}

static void match_connection(void *context, void *owner)
{
    struct search *search = context;
    struct pair *pair = owner;
    if (pair->connection == search->wanted.connection)
        search->found = pair;
}

struct pair *pair_of_connection(const struct tcad *tcad, uint64_t connection)
{
    struct search search = {.wanted = {.connection = connection}};
    table_each(&tcad->pairs->ids, match_connection, &search);
    return search.found;
}

/* ---- the receiver's side ---- */

/* Numbers of connections come from other nodes, too. */
static int choose_number(struct tcad *tcad, struct pair *values)
{
    do
        if (getrandom(&values->id, sizeof values->id, 0) != sizeof values->id)
            return -EIO;
    while (values->id == 0 || pair_find(tcad, values->id) || pair_of_connection(tcad, values->id));
    values->connection = values->id;
    return 0;
}

int pair_expect(struct pair *pair)
{
    struct driver *driver;
    const struct driver_pair_ops *ops = ops_of(pair->tcad, pair->rail, &driver);
    if (ops && !ops->expect) {
        pair->expected = true;
        return 0;
    }
    if (getrandom(pair->secret, sizeof pair->secret, 0) != sizeof pair->secret)
        return -EIO;
    int r = ops ? ops->expect(driver, pair->connection, pair->secret) : -ENETDOWN;
    pair->expected = r == 0;
    return r;
}

int pair_from(struct tcad *tcad, uint32_t node, uint64_t other, const struct session *to,
              unsigned rail, struct pair **ret_pair, char *text, size_t text_bytes)
{
    struct pair *known = pair_with(tcad, to->id, node, other);
    struct pair values = {.node = node, .session = to->id, .other = other, .rail = rail};
    if (known) {
        *ret_pair = known;
        return 0;
    }
    int r = choose_number(tcad, &values);
    if (r == 0)
        r = pair_new(tcad, &values, ret_pair, text, text_bytes);
    if (r < 0)
        return r;
    r = pair_expect(*ret_pair);
    if (r < 0) {
        snprintf(text, text_bytes, "no memory for a pair");
        pair_drop(*ret_pair);
    }
    return r;
}

void pair_untold(struct tcad *tcad, uint64_t id)
{
    struct pair *pair = pair_find(tcad, id);
    if (pair && pair->expected && !pair->named && !bindings_need_pair(tcad, id))
        pair_end(pair, -ENETDOWN);
}

void pair_untaken(struct tcad *tcad, uint32_t node, uint64_t connection)
{
    struct pair *pair = pair_of_connection(tcad, connection);
    if (pair && pair->node == node && pair->expected && pair->turn == 0 &&
        !bindings_need_pair(tcad, pair->id))
        pair_give_up(pair, -ENETDOWN);
}

void pairs_connected(struct tcad *tcad, uint64_t connection, int fd, bool encrypts)
{
    struct pair *pair = pair_of_connection(tcad, connection);
    if (pair && pair->expected) {
        pair->expected = false;
        pair_hand_over(pair, fd, encrypts);
    }
    close(fd);
}

struct session *pair_receiver(const struct binding *binding)
{
    return binding->region ? binding->region->session : binding->notify;
}

static void send_landing(const struct binding *binding, const struct pair *pair)
{
    struct session *session = pair_receiver(binding);
    Tca__Event event = TCA__EVENT__INIT;
    Tca__PairLanding landing = TCA__PAIR_LANDING__INIT;
    if (!session)
        return;
    landing.pair = binding->pair;
    landing.rail = pair->rail;
    landing.index = binding->place;
    landing.generation = binding->generation;
    if (binding->region) {
        landing.region = binding->region->id;
        landing.offset = binding->offset_bytes;
        landing.part_offset = binding->part_offset_bytes;
        landing.part_bytes = binding->part_bytes;
        landing.layout =
            (ProtobufCBinaryData){layout_bytes(binding->layout), (uint8_t *)binding->layout};
    }
    landing.notify = binding->notify != NULL;
    landing.rank = binding->rank;
    landing.slot = binding->slot;
    event.kind = TCA__EVENT__KIND__LANDING;
    event.landing = &landing;
    session_event(session, &event);
}

int pair_land(struct binding *binding)
{
    struct pairs *pairs = binding->tcad->pairs;
    const struct pair *pair = pair_find(binding->tcad, binding->pair);
    uint32_t unused;
    if (!pair) /* given up since it was asked for: the other node has refused it */
        return -ENETDOWN;
    int r = landings_add(&pairs->places, binding, &binding->place, &unused);
    if (r < 0)
        return r;
    binding->generation = ++pairs->last_generation;
    binding->placed = true;
    send_landing(binding, pair);
    return 0;
}

void pair_unland(struct binding *binding)
{
    struct session *session = pair_receiver(binding);
    if (!binding->placed)
        return;
    binding->placed = false;
    if (session)
        session_withdraw(session, TCA__EVENT__KIND__UNLANDING, binding->place, binding->generation);
    landings_remove(&binding->tcad->pairs->places, binding->place);
}

/* ---- ends ---- */

void pairs_gone(struct tcad *tcad, uint32_t node, const Tca__PeerPairGone *gone)
{
    struct pair *pair = pair_of_connection(tcad, gone->pair);
    const int status = status_from_wire(gone->status);
    if (pair && pair->node == node)
        pair_end(pair, status < 0 ? status : -EPROTO);
}

struct end {
    const struct session *session; /* ours; NULL: all of the node */
    uint32_t node;
};

static void end_one(void *context, void *owner)
{
    const struct end *end = context;
    struct pair *pair = owner;
    if (end->session && pair->session == end->session->id) {
        pair_tell_other(pair, session_end_error(end->session));
        pair_drop(pair);
    } else if (!end->session && pair->node == end->node) {
        pair_end(pair, -EHOSTDOWN);
    }
}

void pairs_session_gone(struct tcad *tcad, const struct session *session)
{
    table_each(&tcad->pairs->ids, end_one, &(struct end){.session = session});
}

void pairs_node_gone(struct tcad *tcad, uint32_t node)
{
    table_each(&tcad->pairs->ids, end_one, &(struct end){.node = node});
}
