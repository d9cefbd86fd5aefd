#include "daemon/bindings/pairs.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "daemon/bindings/binding.h"
#include "daemon/engine/engine.h"
#include "daemon/peers/peer.h"
#include "daemon/rails/link.h"
#include "daemon/rails/rails.h"
#include "daemon/sessions/region.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"
#include "drivers/seat_bytes.h"
#include "proto/list.h"
#include "proto/status.h"

struct pairs {
    struct table ids, connections, processes; /* of the pairs: by three of their fields */
    struct landings places;                   /* of bindings, by the number of their landing */
    uint64_t uses;                            /* see pair_use() */
};

int pairs_new(struct tcad *tcad, struct pairs **ret_pairs)
{
    struct pairs *pairs = calloc(1, sizeof(*pairs));
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

/* ---- looking them up ---- */

static uint64_t number_of(uint64_t session, uint32_t node, uint64_t other)
{
    return table_mix(table_mix(session, node), other);
}

struct pair *pair_with(const struct tcad *tcad, uint64_t session, uint32_t node, uint64_t other)
{
    const struct table_entry *entry =
        table_first(&tcad->pairs->processes, number_of(session, node, other));
    for (; entry; entry = table_again(entry)) {
        struct pair *pair = entry->owner;
        if (pair->session == session && pair->node == node && pair->other == other)
            return pair;
    }
    return NULL;
}

bool pairs_exist(const struct tcad *tcad, uint64_t session, uint32_t node, uint64_t other)
{
    return pair_with(tcad, session, node, other) != NULL;
}

struct pair *pair_of_connection(const struct tcad *tcad, uint64_t connection)
{
    return table_find(&tcad->pairs->connections, connection);
}

void pair_renumber(struct pair *pair, uint64_t connection)
{
    struct table *connections = &pair->tcad->pairs->connections;
    table_remove(connections, &pair->by_connection);
    pair->connection = connection;
    table_add(connections, &pair->by_connection, connection, pair);
}

/* In all places where it is looked up. */
static void enlist(struct pair *pair, struct session *session)
{
    struct pairs *pairs = pair->tcad->pairs;
    table_add(&pairs->ids, &pair->entry, pair->id, pair);
    table_add(&pairs->connections, &pair->by_connection, pair->connection, pair);
    table_add(&pairs->processes, &pair->by_processes,
              number_of(pair->session, pair->node, pair->other), pair);
    LIST_ADD(&session->pairs, pair, next_of_session, link_of_session);
    session->pair_count++;
}

static void delist(struct pair *pair)
{
    struct pairs *pairs = pair->tcad->pairs;
    struct session *session = session_find_any(pair->tcad, pair->session);
    table_remove(&pairs->ids, &pair->entry);
    table_remove(&pairs->connections, &pair->by_connection);
    table_remove(&pairs->processes, &pair->by_processes);
    LIST_REMOVE(pair, next_of_session, link_of_session);
    if (session) /* else tcad ends */
        session->pair_count--;
}

/* ---- states ---- */

#define MAY(state) (1u << PAIR_##state)

const struct pair_state_row pair_states[PAIR_STATES] = {
    [PAIR_NEW] = {"new", MAY(EXPECTS) | MAY(DIALS) | MAY(OFFERS), PAIR_KEEPS, PAIR_IMPOSSIBLE},
    [PAIR_EXPECTS] = {"expects", MAY(NAMED) | MAY(DIALS) | MAY(OFFERS) | MAY(ANSWERS) | MAY(UP),
                      PAIR_YIELDS, PAIR_YIELDS},
    [PAIR_NAMED] = {"named", MAY(NAMED) | MAY(DIALS) | MAY(OFFERS) | MAY(ANSWERS) | MAY(UP),
                    PAIR_KEEPS, PAIR_YIELDS},
    [PAIR_DIALS] = {"dials", MAY(UP), PAIR_KEEPS, PAIR_IMPOSSIBLE},
    [PAIR_OFFERS] = {"offers", MAY(OFFERED), PAIR_KEEPS, PAIR_IMPOSSIBLE},
    [PAIR_OFFERED] = {"offered", MAY(UP), PAIR_KEEPS, PAIR_IMPOSSIBLE},
    [PAIR_ANSWERS] = {"answers", MAY(UP), PAIR_KEEPS, PAIR_IMPOSSIBLE},
    [PAIR_UP] = {"up", MAY(NAMED) | MAY(DIALS) | MAY(OFFERS), PAIR_KEEPS, PAIR_IMPOSSIBLE},
};

void pair_move(struct pair *pair, enum pair_state state)
{
    assert(pair_states[pair->state].next & 1u << state);
    pair->state = state;
}

void pair_name(struct pair *pair)
{
    if (pair->state == PAIR_EXPECTS)
        pair_move(pair, PAIR_NAMED);
}

/* ---- life ---- */

static const struct driver_pair_ops *ops_of(const struct tcad *tcad, unsigned rail,
                                            struct driver **ret_driver)
{
    *ret_driver = engine_driver(tcad->engine, rail);
    return *ret_driver ? (*ret_driver)->ops->pairs : NULL;
}

bool pairs_served(const struct tcad *tcad, unsigned rail)
{
    struct driver *driver;
    return ops_of(tcad, rail, &driver) != NULL;
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

/* ---- those that nobody uses ---- */

void pair_use(struct pair *pair)
{
    pair->used = ++pair->tcad->pairs->uses;
}

/* The bindings of the other node are those of plans here. */
static bool is_used(const struct session *session, const struct pair *pair)
{
    return pair->state != PAIR_UP || pair->bindings > 0 ||
           session->tcad->pair_hooks->put_over(session, pair);
}

/* Of the unused ones, that which was asked for longest ago; NULL: all are used. */
static struct pair *least_used(const struct session *session)
{
    struct pair *found = NULL;
    for (struct pair *pair = session->pairs; pair; pair = pair->next_of_session)
        if ((!found || pair->used < found->used) && !is_used(session, pair))
            found = pair;
    return found;
}

bool pairs_have_room(const struct session *session)
{
    return session->pair_count < session->tcad->conf->limits.pairs_per_session ||
           least_used(session);
}

int pair_new(struct tcad *tcad, const struct pair *values, struct pair **ret_pair, char *text,
             size_t text_bytes)
{
    const uint32_t limit = tcad->conf->limits.pairs_per_session;
    struct session *session = session_find(tcad, values->session);
    if (!session) {
        snprintf(text, text_bytes, "session %" PRIu64 " of node %" PRIu32 " has ended",
                 values->session, tcad->node);
        return -EOWNERDEAD;
    }
    struct pair *unused = session->pair_count >= limit ? least_used(session) : NULL;
    if (unused)
        pair_give_up(unused, -ESHUTDOWN);
    if (session->pair_count >= limit) {
        snprintf(text, text_bytes,
                 "rank %" PRIu32 " (session %" PRIu64 " of node %" PRIu32 ") has %" PRIu32
                 " connections to processes of other "
                 "nodes, the limit (limits.pairs_per_session): let tcad put (TCA_SEAT_DAEMON), or "
                 "raise it",
                 session->rank, values->session, tcad->node, session->pair_count);
        return -EDQUOT;
    }
    struct pair *pair = malloc(sizeof(*pair));
    if (!pair) {
        snprintf(text, text_bytes, "no memory for a pair");
        return -ENOMEM;
    }
    *pair = *values;
    pair->tcad = tcad;
    pair_use(pair);
    enlist(pair, session);
    tcad->pair_hooks->changed(tcad, pair->session);
    *ret_pair = pair;
    return 0;
}

void pair_forget(struct pair *pair)
{
    struct driver *driver;
    const struct driver_pair_ops *ops = ops_of(pair->tcad, pair->rail, &driver);
    if (pair_is_expected(pair) && ops && ops->forget)
        ops->forget(driver, pair->connection);
}

static void drop_one(void *context, void *owner)
{
    struct pair *pair = owner;
    pair_forget(pair);
    delist(pair);
    free(pair);
}

static void pair_drop(struct pair *pair)
{
    struct tcad *tcad = pair->tcad;
    const uint64_t session = pair->session;
    drop_one(NULL, pair);
    tcad->pair_hooks->changed(tcad, session);
}

struct pairs *pairs_free(struct pairs *pairs)
{
    if (!pairs)
        return NULL;
    table_each(&pairs->ids, drop_one, NULL);
    table_deinit(&pairs->ids);
    table_deinit(&pairs->connections);
    table_deinit(&pairs->processes);
    landings_deinit(&pairs->places);
    free(pairs);
    return NULL;
}

/* ---- what its process, and the other node, are told of it ---- */

bool pair_by_kernel(const struct pair *pair)
{
    const struct driver_caps *caps = engine_driver_caps(pair->tcad->engine, pair->rail);
    return pair->encrypts && caps && caps->kernel_tls;
}

void pair_event(const struct pair *pair, Tca__Event__Kind kind, int status, int fd,
                const ProtobufCBinaryData *offer)
{
    struct session *session = session_find(pair->tcad, pair->session);
    if (!session)
        return;
    Tca__Pair body = BODY_OF(pair, .id = pair->id, .dialled = pair->dials, .turn = pair->turn,
                             .rail = pair->rail, .kernel_tls = pair_by_kernel(pair));
    Tca__Event event = BODY_OF(event, .kind = kind, .pair = &body, .status = status_to_wire(status),
                               .text = (char *)"");
    if (offer)
        body.offer = *offer;
    if (pair->encrypts && fd >= 0)
        body.secret = (ProtobufCBinaryData){sizeof(pair->secret), (uint8_t *)pair->secret};
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
    Tca__PeerPairGone gone =
        BODY_OF(peer_pair_gone, .pair = pair->connection, .status = status_to_wire(status));
    const Tca__Message message = MESSAGE_OF(PEER_PAIR_GONE, peer_pair_gone, &gone);
    peers_tell(pair->tcad->peers, pair->node, &message);
}

static void pair_end(struct pair *pair, int status)
{
    pair_event(pair, TCA__EVENT__KIND__PAIR_GONE, status, -1, NULL);
    pair_drop(pair);
}

void pair_give_up(struct pair *pair, int status)
{
    pair_tell_other(pair, status);
    pair_end(pair, status);
}

/* ---- the receiver's side ---- */

/* Numbers of connections come from other nodes, too. */
static int choose_number(struct tcad *tcad, struct pair *values)
{
    do
        if (getrandom(&values->id, sizeof(values->id), 0) != sizeof(values->id))
            return -EIO;
    while (values->id == 0 || pair_find(tcad, values->id) || pair_of_connection(tcad, values->id));
    values->connection = values->id;
    return 0;
}

int pair_expect(struct pair *pair, enum pair_state state)
{
    struct driver *driver;
    const struct driver_pair_ops *ops = ops_of(pair->tcad, pair->rail, &driver);
    int r = ops ? 0 : -ENETDOWN;
    if (r == 0 && ops->expect) {
        if (getrandom(pair->secret, sizeof(pair->secret), 0) != sizeof(pair->secret))
            return -EIO;
        r = ops->expect(driver, pair->connection, pair->secret);
    }
    if (r == 0)
        pair_move(pair, state);
    return r;
}

int pair_from(struct tcad *tcad, uint32_t node, uint64_t other, const struct session *to,
              unsigned rail, struct pair **ret_pair, char *text, size_t text_bytes)
{
    struct pair *known = pair_with(tcad, to->id, node, other);
    struct pair values = {.node = node, .session = to->id, .other = other, .rail = rail};
    if (known) {
        pair_use(known);
        *ret_pair = known;
        return 0;
    }
    int r = choose_number(tcad, &values);
    if (r == 0)
        r = pair_new(tcad, &values, ret_pair, text, text_bytes);
    if (r < 0)
        return r;
    r = pair_expect(*ret_pair, PAIR_EXPECTS);
    if (r < 0) {
        snprintf(text, text_bytes, "no memory for a pair");
        pair_drop(*ret_pair);
    }
    return r;
}

void pair_untold(struct tcad *tcad, uint64_t id)
{
    struct pair *pair = pair_find(tcad, id);
    if (pair && pair->state == PAIR_EXPECTS && pair->bindings == 0)
        pair_end(pair, -ENETDOWN);
}

void pair_untaken(struct tcad *tcad, uint32_t node, uint64_t connection)
{
    struct pair *pair = pair_of_connection(tcad, connection);
    if (pair && pair->node == node && pair_is_expected(pair) && pair->turn == 0 &&
        pair->bindings == 0)
        pair_give_up(pair, -ENETDOWN);
}

void pairs_connected(struct tcad *tcad, uint64_t connection, int fd, bool encrypts)
{
    struct pair *pair = pair_of_connection(tcad, connection);
    if (pair && pair_is_expected(pair))
        pair_hand_over(pair, fd, encrypts);
    close(fd);
}

void pair_bound(const struct binding *binding, int change)
{
    struct pair *pair = binding->pair ? pair_find(binding->tcad, binding->pair) : NULL;
    if (pair)
        pair->bindings += (uint32_t)change;
}

struct session *pair_receiver(const struct binding *binding)
{
    return binding->region ? binding->region->session : binding->notify;
}

static void fill_landing(const struct binding *binding, Tca__PairLanding *landing)
{
    const struct pair *pair = pair_find(binding->tcad, binding->pair);
    tca__pair_landing__init(landing);
    landing->pair = binding->pair;
    landing->rail = pair ? pair->rail : RAIL_NONE;
    landing->index = binding->place;
    landing->generation = binding->generation;
    if (binding->region) {
        landing->region = binding->region->id;
        landing->offset = binding->offset_bytes;
        landing->part_offset = binding->part_offset_bytes;
        landing->part_bytes = binding->part_bytes;
        landing->layout =
            (ProtobufCBinaryData){layout_bytes(binding->layout), (uint8_t *)binding->layout};
    }
    landing->notify = binding->notify != NULL;
    landing->line = binding->line;
    landing->signal = binding->signal;
}

int pair_land(struct binding *binding)
{
    struct pairs *pairs = binding->tcad->pairs;
    uint32_t unused;
    if (!pair_find(
            binding->tcad,
            binding->pair)) /* given up since it was asked for: the other node has refused it */
        return -ENETDOWN;
    int r = landings_add(&pairs->places, binding, &binding->place, &unused);
    if (r < 0)
        return r;
    binding->generation = session_target(pair_receiver(binding));
    binding->placed = true;
    return 0;
}

size_t pairs_tell_landings(struct binding *const *bindings, size_t count)
{
    Tca__PairLanding landings[BIND_PUTS_MAX], *list[BIND_PUTS_MAX];
    struct session *session = pair_receiver(bindings[0]);
    Tca__Event event = TCA__EVENT__INIT;
    size_t told = 0;
    for (; told < count && pair_receiver(bindings[told]) == session; told++) {
        if (!bindings[told]->placed)
            continue;
        list[event.n_landings] = &landings[event.n_landings];
        fill_landing(bindings[told], list[event.n_landings++]);
    }
    event.kind = TCA__EVENT__KIND__LANDING;
    event.landings = list;
    if (session && event.n_landings > 0)
        session_event(session, &event);
    return told;
}

void pair_unland(struct binding *binding)
{
    struct session *session = pair_receiver(binding);
    if (!binding->placed)
        return;
    binding->placed = false;
    if (session)
        session_withdraw(session, binding->generation);
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

void pairs_session_gone(const struct session *session)
{
    while (session->pairs) {
        pair_tell_other(session->pairs, session_end_error(session));
        pair_drop(session->pairs);
    }
}

static void end_with_node(void *context, void *owner)
{
    const uint32_t *node = context;
    struct pair *pair = owner;
    if (pair->node == *node)
        pair_end(pair, -EHOSTDOWN);
}

void pairs_node_gone(struct tcad *tcad, uint32_t node)
{
    table_each(&tcad->pairs->ids, end_with_node, &node);
}

/* ---- counting them, and what they take, for displays ---- */

uint64_t pair_bytes(const struct pair *pair)
{
    return seat_bytes(rail_at(pair->tcad, pair->rail)->driver, pair->encrypts);
}

uint64_t pairs_bytes(const struct session *session)
{
    uint64_t bytes = 0;
    for (const struct pair *pair = session->pairs; pair; pair = pair->next_of_session)
        bytes += pair_bytes(pair);
    return bytes;
}

struct count_to {
    uint32_t node;
    unsigned rail;
    bool made; /* by the daemons: then there is none before it was handed over */
    struct pairs_to to;
};

static void count_one_to(void *context, void *owner)
{
    struct count_to *count = context;
    const struct pair *pair = owner;
    if (pair->node != count->node || pair->rail != count->rail || (count->made && pair->turn == 0))
        return;
    count->to.encrypted += pair->encrypts;
    count->to.plain += !pair->encrypts;
}

struct pairs_to pairs_to_node(const struct tcad *tcad, uint32_t node, unsigned rail)
{
    struct count_to count = {.node = node, .rail = rail, .made = pairs_are_made(tcad, rail)};
    table_each(&tcad->pairs->ids, count_one_to, &count);
    return count.to;
}
