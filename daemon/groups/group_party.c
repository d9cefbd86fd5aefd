/*
 * The member's side of joins: ranks of this node that ask together, with one request to the root.
 * It is sent to the next root when one does not answer or names another. Those that the root
 * refuses, or for which it waits no longer, are failed, and the party asks again for the others:
 * asking twice for a rank is harmless.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/cluster.h"
#include "config/text.h"
#include "daemon/base/log.h"
#include "daemon/groups/group_internal.h"
#include "daemon/groups/pace.h"
#include "daemon/rails/costs.h"
#include "daemon/tcad.h"
#include "proto/list.h"
#include "proto/status.h"

enum {
    MOVES_MAX = 8,
    REPEATS_MAX = 64,
    PROBE_PARTS =
        4, /* a root that does not answer takes one of so many parts of the time that is left, */
};
#define PROBE_NS UINT64_C(2000000000) /* and no more than this */

/* A rank that has ended before its join was sent. The others are to learn it. */
struct ghost {
    uint32_t rank;
    uint64_t session;
};

struct party {
    struct groups *groups;
    struct party *next, **link;
    struct table_entry entry; /* in groups->parties_by_name */
    enum {
        PARTY_COLLECTS,
        PARTY_ASKED, /* has a request at the root */
    } state;
    uint32_t user, size;
    char name[NAME_MAX_BYTES];
    bool chosen;    /* the root, by the group's name; */
    uint32_t named; /* else this one */
    uint32_t root;
    struct choices passed; /* nodes that would be the root, but do not answer */
    struct choices barred; /* nodes that cannot be the root, whatever other nodes say */
    unsigned moves;        /* to nodes that others have named as the root */
    bool answers;          /* that root, as far as is known */
    bool probes;           /* it is being asked whether it is there */
    bool complete;         /* no more ranks are waited for */
    unsigned repeats;      /* after a time-out that is nobody's */
    struct pace pace;
    struct deadline due; /* PARTY_COLLECTS: it is sent */
    struct place *places;
    size_t place_count;
    struct ghost *ghosts;
    size_t ghost_count;
};

size_t party_bytes(void)
{
    return sizeof(struct party);
}

static struct party *party_free(struct party *party)
{
    LIST_REMOVE(party, next, link);
    table_remove(&party->groups->parties_by_name, &party->entry);
    deadline_clear(&party->groups->deadlines, &party->due);
    free(party->ghosts);
    free(party);
    return NULL;
}

void parties_free(struct groups *groups)
{
    while (groups->parties)
        party_free(groups->parties);
    table_deinit(&groups->parties_by_name);
}

void party_leave(struct place *place)
{
    struct party *party = place->party;
    if (!party)
        return;
    struct session *session = session_find(party->groups->tcad, place->session);
    if (session)
        session->group_requests--;
    LIST_REMOVE(place, next_joining, link_joining);
    place->party = NULL;
    party->place_count--;
}

/* ---- failing ---- */

/* Its place is no longer in the party. */
static void fail_place(struct place *place, int error, const char *text)
{
    struct session *session = session_find(place->groups->tcad, place->session);
    party_leave(place);
    if (!session)
        return;
    session_fail(session, place->tag, error, "%s", text);
    join_failed(session, place);
}

/* Ends the party. */
static void fail_all(struct party *party, int error, const char *text)
{
    while (party->places)
        fail_place(party->places, error, text);
    party_free(party);
}

/* The root has not answered at all: fails those whose time is over. */
static void fail_overdue(struct party *party)
{
    const uint64_t now_ns = clock_now_ns();
    const char *root = group_node_name(party->groups->tcad, party->root);
    char text[GROUP_TEXT_MAX];

    snprintf(text, sizeof(text),
             "group %s is coordinated by node %s, which has not answered in time: it is stopped, "
             "busy or cut off (tcactl ping %s)",
             party->name, root, root);
    for (struct place *place = party->places, *next; place; place = next) {
        next = place->next_joining;
        if (now_ns >= group_deadline(place->join_deadline_ns, ROOT_GRACE_NS))
            fail_place(place, -ETIMEDOUT, text);
    }
}

/* Returns false if the root has refused nobody who asked. */
static bool fail_refused(struct party *party, const Tca__PeerGroupRefused *refused)
{
    const struct groups *groups = party->groups;
    const int error = refused->failure ? status_from_wire(refused->failure->status) : -EPROTO;
    const size_t before = party->place_count;
    const char *why = refused->failure ? refused->failure->text : "";
    char text[GROUP_TEXT_MAX * 2];

    snprintf(text, sizeof(text), "%s",
             config_text_clean(why, strlen(why)) ? why : "its coordinator does not want it");
    for (size_t i = 0; i < refused->n_sessions; i++) {
        struct place *place = place_find(groups, refused->sessions[i]);
        if (place && place->party == party)
            fail_place(place, error < 0 ? error : -EPROTO, text);
    }
    return party->place_count < before;
}

/* ---- asking ---- */

static uint64_t time_left(uint64_t deadline_ns, uint64_t now_ns)
{
    if (deadline_ns == UINT64_MAX)
        return UINT64_MAX;
    return deadline_ns > now_ns ? deadline_ns - now_ns : 0;
}

/* Until the first of them waits no longer. */
static uint64_t party_time_left(const struct party *party, uint64_t now_ns)
{
    uint64_t left_ns =
        party->places ? UINT64_MAX : party->groups->tcad->conf->control.request_timeout_ns;
    for (const struct place *place = party->places; place; place = place->next_joining) {
        const uint64_t own_ns = time_left(place->join_deadline_ns, now_ns);
        left_ns = own_ns < left_ns ? own_ns : left_ns;
    }
    return left_ns;
}

static void set_root(struct party *party, uint32_t root)
{
    party->root = root;
    for (struct place *place = party->places; place; place = place->next_joining)
        place->root = root;
}

static void replied(void *context, int status, const Tca__Message *reply, const char *text);

static void root_heard(void *context, int status, const Tca__Message *reply, const char *text)
{
}

/* These arrive after the join. */
static void tell_ghosts(struct peers *peers, uint32_t root, Tca__PeerSessionGone *gone,
                        uint64_t timeout_ns, const struct ghost *ghosts, size_t count)
{
    const Tca__Message message = MESSAGE_OF(PEER_SESSION_GONE, peer_session_gone, gone);
    for (size_t i = 0; i < count; i++) {
        gone->session = ghosts[i].session;
        gone->rank = ghosts[i].rank;
        peers_request(peers, root, &message, timeout_ns, root_heard, NULL);
    }
}

struct asking {
    uint64_t *sessions, *timeouts;
    uint32_t *ranks;
    size_t count;
};

static void set_asking(struct asking *asking, size_t at, uint32_t rank, uint64_t session,
                       uint64_t timeout_ns)
{
    asking->ranks[at] = rank;
    asking->sessions[at] = session;
    asking->timeouts[at] = timeout_ns;
}

static int asking_init(struct asking *asking, const struct party *party, uint64_t now_ns)
{
    const size_t count = party->place_count + party->ghost_count;
    size_t at = party->place_count;

    *asking = (struct asking){
        .count = count,
        .sessions = calloc(count, sizeof(*asking->sessions)),
        .timeouts = calloc(count, sizeof(*asking->timeouts)),
        .ranks = calloc(count, sizeof(*asking->ranks)),
    };
    if (!asking->sessions || !asking->timeouts || !asking->ranks)
        return -ENOMEM;
    /* In the order in which they have come; the list has the last one first. */
    for (const struct place *place = party->places; place; place = place->next_joining)
        set_asking(asking, --at, place->rank, place->session,
                   time_left(place->join_deadline_ns, now_ns));
    for (size_t i = 0; i < party->ghost_count; i++)
        set_asking(asking, party->place_count + i, party->ghosts[i].rank, party->ghosts[i].session,
                   party->groups->tcad->conf->control.request_timeout_ns);
    return 0;
}

static void asking_deinit(struct asking *asking)
{
    free(asking->sessions);
    free(asking->timeouts);
    free(asking->ranks);
}

static void send_asking(struct party *party, const struct asking *asking, uint64_t now_ns)
{
    struct tcad *tcad = party->groups->tcad;
    struct reach_costs own;
    struct reach_message costs;

    rails_costs(tcad, &own);
    reach_pack(&own, &costs);
    Tca__PeerGroupJoin body = BODY_OF(
        peer_group_join, .name = party->name, .user = party->user, .size = party->size,
        .n_costs = REACH_COUNT, .costs = costs.list, .chosen = party->chosen,
        .n_barred = party->barred.count, .barred = party->barred.nodes, .n_ranks = asking->count,
        .ranks = asking->ranks, .n_sessions = asking->count, .sessions = asking->sessions,
        .n_timeouts_ns = asking->count, .timeouts_ns = asking->timeouts);
    const Tca__Message message = MESSAGE_OF(PEER_GROUP_JOIN, peer_group_join, &body);
    /* The root applies the time-outs. This daemon waits a little longer, so that the callers get
     * the root's text, but not as long as the callers themselves (client/session.c). */
    peers_request(tcad->peers, party->root, &message,
                  group_deadline(party_time_left(party, now_ns), ROOT_GRACE_NS), replied, party);
}

/* Can end the party. */
static void ask(struct party *party)
{
    struct tcad *tcad = party->groups->tcad;
    const uint64_t now_ns = clock_now_ns();
    const uint32_t root = party->root;
    struct asking asking;
    char name[NAME_MAX_BYTES];

    if (party->place_count + party->ghost_count == 0) {
        party_free(party);
        return;
    }
    if (asking_init(&asking, party, now_ns) < 0) {
        asking_deinit(&asking);
        fail_all(party, -ENOMEM, "out of memory for a request to the group");
        return;
    }
    struct ghost *ghosts = party->ghosts;
    const size_t ghost_count = party->ghost_count;
    memcpy(name, party->name, sizeof(name));
    Tca__PeerSessionGone gone = BODY_OF(peer_session_gone, .group = name, .user = party->user);
    party->ghosts = NULL;
    party->ghost_count = 0;
    party->state = PARTY_ASKED;
    party->answers = true;
    pace_sent(&party->pace, now_ns);
    send_asking(party, &asking, now_ns);
    asking_deinit(&asking);
    tell_ghosts(tcad->peers, root, &gone, tcad->conf->control.request_timeout_ns, ghosts,
                ghost_count);
    free(ghosts);
}

static bool move_on(struct party *party, const char *why, char *ret_text, size_t text_bytes);

static void go_on(struct party *party);

static void probed(void *context, int status, const Tca__Message *reply, const char *text)
{
    struct party *party = context;
    char why[GROUP_TEXT_MAX * 2];

    party->probes = false;
    party->answers = status == 0;
    if (status == 0)
        go_on(party);
    else if (party->place_count == 0)
        party_free(party);
    else if (status == -ECANCELED)
        fail_all(party, status, text);
    else if (!move_on(party, text, why, sizeof(why)))
        fail_all(party, status, why);
}

static void due(void *context)
{
    struct party *party = context;
    party->complete = true;
    go_on(party);
}

/* Asks the root when that is known to answer, and no more ranks are waited for. A chosen root need
 * not be up, and one that counts as up need not answer: it may be stopped. */
static void go_on(struct party *party)
{
    const struct tcad *tcad = party->groups->tcad;
    const uint64_t now_ns = clock_now_ns(), due_ns = pace_due(&party->pace),
                   part_ns = party_time_left(party, now_ns) / PROBE_PARTS;
    const bool answers = !party->chosen || party->answers || party->root == tcad->node;

    if (party->state == PARTY_COLLECTS && !party->complete && due_ns > now_ns)
        deadline_set(&party->groups->deadlines, &party->due, due_ns, due, party);
    else
        party->complete = true;
    if (party->complete)
        deadline_clear(&party->groups->deadlines, &party->due);
    if (answers && party->complete) {
        ask(party);
    } else if (!answers && !party->probes) { /* while ranks come */
        party->probes = true;
        peers_probe(tcad->peers, party->root, part_ns < PROBE_NS ? part_ns : PROBE_NS, probed,
                    party);
    }
}

/* The root does not answer. Returns false if no other node can be the root; ret_text: why. */
static bool move_on(struct party *party, const char *why, char *ret_text, size_t text_bytes)
{
    const struct tcad *tcad = party->groups->tcad;
    uint32_t root;

    choices_add(&party->passed, party->root);
    if (!group_choose(tcad->cluster, party->user, party->name, &party->passed, &root)) {
        snprintf(ret_text, text_bytes,
                 "group %s: none of the %u nodes that could coordinate it answers: start them, or "
                 "choose another (%s@NODE). %s",
                 party->name, party->passed.count, party->name, why);
        return false;
    }
    log_debug(NULL, "group %s: node %s coordinates it: %s", party->name,
              group_node_name(tcad, root), why);
    set_root(party, root);
    party->state = PARTY_COLLECTS;
    party->answers = false;
    party->complete = true;
    go_on(party);
    return true;
}

/* The root names another one. Returns false if it is one too many; ret_text: why. */
static bool move_to(struct party *party, const Tca__PeerGroupMoved *moved, char *ret_text,
                    size_t text_bytes)
{
    const struct tcad *tcad = party->groups->tcad;

    if (++party->moves > MOVES_MAX) {
        snprintf(ret_text, text_bytes,
                 "group %s: nodes do not agree which of them coordinates it; node %s says node "
                 "%.64s: their cluster files differ, or not all of them reach each other (tcactl "
                 "nodes). Choose a node that all reach (%s@NODE)",
                 party->name, group_node_name(tcad, party->root), moved->node_name, party->name);
        return false;
    }
    if (!cluster_by_id(tcad->cluster, moved->node)) { /* the cluster files differ */
        choices_add(&party->barred, moved->node);
    } else {
        if (moved->pass) {
            choices_add(&party->passed, party->root);
            choices_add(&party->barred, party->root);
        }
        set_root(party, moved->node);
    }
    ask(party); /* another node has reached it */
    return true;
}

/* ---- replies ---- */

/* The group is complete. Ends the party. */
static void completed(struct party *party)
{
    while (party->places) {
        struct place *place = party->places;
        party_leave(place);
        join_complete(place);
    }
    party_free(party);
}

static void failed(struct party *party, int status, const char *text)
{
    const struct tcad *tcad = party->groups->tcad;
    const char *root = group_node_name(tcad, party->root);
    char why[GROUP_TEXT_MAX * 2], down[GROUP_TEXT_MAX * 4];

    if (status == -EHOSTDOWN && !peers_is_up(tcad->peers, party->root)) {
        if (party->chosen && move_on(party, text, why, sizeof(why)))
            return;
        snprintf(down, sizeof(down),
                 "group %s is coordinated by node %s, which is down: start it, or choose another "
                 "node (%s@NODE). %s",
                 party->name, root, party->name, party->chosen ? why : text);
        text = down;
    }
    fail_all(party, status, text);
}

/* Either the root has said so of all, or it has not answered while the first of them waited. */
static void timed_out(struct party *party, const char *text)
{
    const uint64_t now_ns = clock_now_ns();
    const size_t before = party->place_count;
    bool waits = false;

    for (const struct place *place = party->places; place; place = place->next_joining)
        waits = waits || place->join_deadline_ns > now_ns;
    fail_overdue(party);
    if (party->place_count < before || (waits && party->repeats++ < REPEATS_MAX))
        ask(party); /* the first one may have ended meanwhile */
    else
        failed(party, -ETIMEDOUT, text);
}

static void replied(void *context, int status, const Tca__Message *reply, const char *text)
{
    struct party *party = context;
    const uint32_t kind = status == 0 ? reply->body_case : TCA__MESSAGE__BODY__NOT_SET;
    char why[GROUP_TEXT_MAX * 2];

    if (party->place_count == 0) { /* all have ended, or know the group from its list already */
        party_free(party);
    } else if (kind == TCA__MESSAGE__BODY_DONE) {
        completed(party);
    } else if (kind == TCA__MESSAGE__BODY_PEER_GROUP_MOVED && party->chosen) {
        if (!move_to(party, reply->peer_group_moved, why, sizeof(why)))
            fail_all(party, -EINVAL, why);
    } else if (kind == TCA__MESSAGE__BODY_PEER_GROUP_REFUSED &&
               fail_refused(party, reply->peer_group_refused)) {
        ask(party); /* for the others */
    } else if (status == 0) {
        fail_all(party, -EPROTO, "the group's root has sent an unexpected reply");
    } else if (status == -ETIMEDOUT) {
        timed_out(party, text);
    } else {
        failed(party, status, text);
    }
}

/* ---- ranks that come and go ---- */

/* A party that takes the rank. NULL: there is none; *ret_before: the last one that took some. */
static struct party *party_find(const struct place *place, bool chosen, uint64_t key,
                                const struct party **ret_before)
{
    *ret_before = NULL;
    for (const struct table_entry *entry = table_first(&place->groups->parties_by_name, key); entry;
         entry = table_again(entry)) {
        struct party *party = entry->owner;
        if (party->user != place->user || party->size != place->size || party->chosen != chosen ||
            (!chosen && party->named != place->root) || strcmp(party->name, place->group) != 0 ||
            party->place_count == 0)
            continue;
        if (party->state != PARTY_ASKED)
            return party;
        if (!*ret_before || (*ret_before)->pace.sent < party->pace.sent)
            *ret_before = party;
    }
    return NULL;
}

/* before: the root has answered that one, or is about to. */
static struct party *party_new(const struct place *place, bool chosen, uint64_t key,
                               const struct party *before)
{
    struct groups *groups = place->groups;
    struct party *party = calloc(1, sizeof(*party));
    if (!party)
        return NULL;
    party->groups = groups;
    party->user = place->user;
    party->size = party->pace.size = place->size;
    memcpy(party->name, place->group, sizeof(party->name));
    party->chosen = chosen;
    party->named = party->root = place->root;
    if (before) {
        party->root = before->root;
        party->answers = before->answers;
        party->passed = before->passed;
        party->barred = before->barred;
        party->moves = before->moves;
        party->pace = before->pace;
    }
    LIST_ADD(&groups->parties, party, next, link);
    table_add(&groups->parties_by_name, &party->entry, key, party);
    return party;
}

int party_join(struct session *session, struct place *place, bool chosen, uint32_t local_size)
{
    const uint64_t key = table_mix(place->user, table_text(place->group)), now_ns = clock_now_ns();
    const struct party *before;
    struct party *party = party_find(place, chosen, key, &before);

    if (!party)
        party = party_new(place, chosen, key, before);
    if (!party)
        return -ENOMEM;
    place->root = party->root;
    place->party = party;
    LIST_ADD(&party->places, place, next_joining, link_joining);
    party->place_count++;
    session->group_requests++;
    if (party->pace.known == 0)
        party->pace.known = local_size;
    pace_come(&party->pace, now_ns);
    go_on(party);
    return 0;
}

bool party_ended(struct place *place)
{
    struct party *party = place->party;
    struct ghost *ghosts;

    if (!party)
        return false;
    const bool unsent = party->state != PARTY_ASKED && !party->groups->tcad->shutting_down;
    party_leave(place);
    if (!unsent)
        return false;
    ghosts = reallocarray(party->ghosts, party->ghost_count + 1, sizeof(*ghosts));
    if (ghosts) {
        party->ghosts = ghosts;
        ghosts[party->ghost_count++] = (struct ghost){place->rank, place->session};
    }
    party->complete = true;
    go_on(party);
    return true;
}
