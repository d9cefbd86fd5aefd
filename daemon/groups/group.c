/*
 * The member's side: which session is in which group, and which ranks have ended.
 *
 * A join is sent to the root by group_join.c and group_request.c and handled there by
 * group_root_join.c.
 */
#include "daemon/groups/group.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/groups/group_internal.h"
#include "daemon/tcad.h"
#include "proto/list.h"

/* ---- places ---- */

struct place *place_find(const struct groups *groups, uint64_t session)
{
    return table_find(&groups->by_session, session);
}

struct place *place_new(struct session *session, const char *group, uint32_t root, uint32_t rank,
                        uint32_t size)
{
    struct groups *groups = session->tcad->groups;
    struct place *place = calloc(1, sizeof(*place));
    struct gone *gone = calloc(size, sizeof(*gone));
    if (!place || !gone) {
        free(place);
        free(gone);
        return NULL;
    }
    place->groups = groups;
    place->session = session->id;
    place->user = (uint32_t)session->uid;
    place->root = root;
    place->rank = rank;
    place->size = size;
    snprintf(place->group, sizeof(place->group), "%s", group);
    place->gone = gone;
    LIST_ADD(&groups->places, place, next, link);
    table_add(&groups->by_session, &place->entry, place->session, place);
    return place;
}

uint64_t group_place_bytes(uint32_t size)
{
    return sizeof(struct place) + size * sizeof(struct gone) +
           GROUP_REQUESTS_MAX * sizeof(struct request);
}

static void forget(struct place *place)
{
    LIST_REMOVE(place, next, link);
    free(place->gone);
    free(place);
}

static void place_free(struct groups *groups, struct place *place)
{
    table_remove(&groups->by_session, &place->entry);
    deadline_clear(&groups->deadlines, &place->deadline);
    place_drop_published(place);
    charge_drop(&place->charge);
    place->left = true;
    if (groups->looking == 0)
        forget(place);
}

void groups_begin_look(struct groups *groups)
{
    groups->looking++;
}

void groups_end_look(struct groups *groups)
{
    if (--groups->looking > 0)
        return;
    for (struct place *place = groups->places, *next; place; place = next) {
        next = place->next;
        if (place->left)
            forget(place);
    }
}

bool group_is_joining(const struct session *session)
{
    const struct place *place = place_find(session->tcad->groups, session->id);
    return place && place->state < PLACE_MEETS;
}

bool group_alone(const struct session *session)
{
    return session->sources == 1 && session->group[0] == '\0';
}

struct place *place_of_caller(struct session *session, uint32_t tag)
{
    struct place *place = place_find(session->tcad->groups, session->id);

    if (place && place->state == PLACE_IN)
        return place;
    if (place || !group_alone(session)) {
        session_fail(session, tag, -EINVAL,
                     "session %" PRIu64 " has not joined a group (it was opened for one of %u)",
                     session->id, session->sources);
        return NULL;
    }
    place = place_new(session, "", session->tcad->node, 0, 1);
    if (!place) {
        session_fail(session, tag, -ENOMEM, "out of memory for a group of one");
        return NULL;
    }
    place->state = PLACE_IN;
    return place;
}

/* ---- a session of this node ends ---- */

static void root_heard(void *context, int status, const Tca__Message *reply, const char *text)
{
}

static void tell_gone(struct groups *groups, const struct place *place)
{
    const struct session *session = session_find_any(groups->tcad, place->session);

    /* It ended during its join: the message must reach the root after the join, which may still be
     * in flight. */
    bool ordered = place->state < PLACE_MEETS && (!session || session->closing);
    uint8_t informed[PEER_NODES_MAX / 8] = {0};
    Tca__PeerSessionGone gone =
        BODY_OF(peer_session_gone, .session = place->session, .group = (char *)place->group,
                .user = place->user, .rank = place->rank);
    gone.node_down = groups->tcad->shutting_down; /* its process may still be running */
    const Tca__Message message = MESSAGE_OF(PEER_SESSION_GONE, peer_session_gone, &gone);

    for (uint32_t rank = 0; rank <= place->size; rank++) {
        bool member = place->state >= PLACE_MEETS && session && rank < place->size;
        uint32_t node = member ? session->members[rank].node : place->root;
        if (node >= PEER_NODES_MAX || (informed[node / 8] & (1 << node % 8)))
            continue;
        informed[node / 8] |= (uint8_t)(1 << node % 8);
        if (ordered)
            peers_request(groups->tcad->peers, node, &message,
                          groups->tcad->conf->control.request_timeout_ns, root_heard, NULL);
        else if (node == groups->tcad->node)
            groups_session_gone(groups, node, &gone);
        else
            peers_tell(groups->tcad->peers, node, &message);
    }
}

void place_leave(struct groups *groups, struct place *place)
{
    if (!place)
        return;
    if (place->group[0])
        tell_gone(groups, place);
    team_leave(place);
    place_free(groups, place);
}

void group_session_gone(struct session *session)
{
    struct groups *groups = session->tcad->groups;
    place_leave(groups, place_find(groups, session->id));
}

/* ---- other sessions end ---- */

static bool same_group(const struct place *place, const Tca__PeerSessionGone *gone)
{
    return place->user == gone->user && gone->rank < place->size && place->group[0] &&
           strcmp(place->group, gone->group) == 0;
}

/* Whether the session has, or may turn out to have, this rank. */
static bool may_be(const struct groups *groups, const struct place *place, uint32_t rank,
                   struct gone gone)
{
    const struct session *session = session_find(groups->tcad, place->session);
    return session &&
           (place->state < PLACE_MEETS || (session->members[rank].session == gone.session &&
                                           session->members[rank].node == gone.node));
}

/* Informs the session if this is new, which can end other sessions. */
static void mark_gone(struct groups *groups, struct place *place, uint32_t rank, struct gone gone)
{
    struct session *session = session_find(groups->tcad, place->session);

    if (!session || place->gone[rank].session)
        return;
    if (place->state < PLACE_MEETS) {
        place->gone[rank] = gone;
        return;
    }
    if (session->members[rank].session != gone.session ||
        session->members[rank].node != gone.node ||
        (place->session == gone.session && gone.node == groups->tcad->node))
        return;
    place->gone[rank] = gone;
    session_source_gone(session, rank, gone.state);
}

bool groups_session_gone(struct groups *groups, uint32_t node, const Tca__PeerSessionGone *message)
{
    struct gone gone = {
        .session = message->session,
        .node = message->about ? message->about - 1 : node,
        .state = message->node_down ? SOURCE_NODE_DOWN : SOURCE_DEAD,
    };
    bool its_own = gone.node == node, believed = its_own;
    if (!message->about)
        root_session_gone(groups->root, node, message);

    groups_begin_look(groups);
    for (struct place *place = groups->places; place; place = place->next) {
        if (place->left || !same_group(place, message) ||
            (!its_own && (place->root != node || !may_be(groups, place, message->rank, gone))))
            continue;
        believed = true;
        mark_gone(groups, place, message->rank, gone);
    }
    groups_end_look(groups);
    return believed;
}

static void mark_node_down(struct groups *groups, struct place *place, uint32_t node)
{
    for (uint32_t rank = 0; place->state >= PLACE_MEETS && rank < place->size; rank++) {
        const struct session *session = session_find(groups->tcad, place->session);
        if (!session)
            return;
        const struct session_member *member = &session->members[rank];
        struct gone gone = {.session = member->session, .node = node, .state = SOURCE_NODE_DOWN};
        if (member->node == node)
            mark_gone(groups, place, rank, gone);
    }
}

void groups_node_up(struct groups *groups, uint32_t node)
{
    choice_node_up(groups->root, node);
}

void groups_node_down(struct groups *groups, uint32_t node)
{
    root_node_down(groups->root, node);
    teams_node_down(groups, node);
    groups_begin_look(groups);
    for (struct place *place = groups->places; place; place = place->next)
        if (!place->left)
            mark_node_down(groups, place, node);
    groups_end_look(groups);
}

/* ---- requests to the root, display, lifetime ---- */

bool groups_requested(struct groups *groups, uint32_t node, uint32_t tag,
                      const Tca__Message *request)
{
    switch (request->body_case) {
    case TCA__MESSAGE__BODY_PEER_GROUP_JOIN:
        root_join(groups->root, node, tag, request->peer_group_join);
        return true;
    case TCA__MESSAGE__BODY_PEER_GROUP_FORMED:
        team_formed(groups, node, request->peer_group_formed);
        peers_done(groups->tcad->peers, node, tag);
        return true;
    case TCA__MESSAGE__BODY_PEER_TEAM:
        team_told(groups, node, request->peer_team);
        return true;
    case TCA__MESSAGE__BODY_PEER_PUBLISH:
        root_publish(groups->root, node, tag, request->peer_publish);
        return true;
    case TCA__MESSAGE__BODY_PEER_LOOKUP:
        root_lookup(groups->root, node, tag, request->peer_lookup);
        return true;
    default:
        return false;
    }
}

uint32_t groups_count(const struct groups *groups)
{
    return root_count(groups->root);
}

void groups_published(const struct groups *groups,
                      void (*each)(void *context, uid_t uid, const char *group, const char *name,
                                   const uint8_t handle[64]),
                      void *context)
{
    for (const struct place *place = groups->places; place; place = place->next)
        for (const struct own *own = place->published; own; own = own->next)
            each(context, place->user, place->group, own->name, own->handle);
}

int groups_new(struct tcad *tcad, struct groups **ret_groups)
{
    struct groups *groups = calloc(1, sizeof(*groups));
    if (!groups)
        return -ENOMEM;
    groups->tcad = tcad;
    int r = root_new(tcad, &groups->root);
    if (r == 0)
        r = deadlines_init(&groups->deadlines, tcad->loop);
    if (r < 0) {
        root_free(groups->root);
        free(groups);
        return r;
    }
    *ret_groups = groups;
    return 0;
}

struct groups *groups_free(struct groups *groups)
{
    if (!groups)
        return NULL;
    while (groups->requests)
        request_free(groups->requests);
    while (groups->places) {
        team_forget(groups->places);
        place_free(groups, groups->places);
    }
    root_free(groups->root);
    deadlines_deinit(&groups->deadlines);
    table_deinit(&groups->by_session);
    table_deinit(&groups->teams);
    free(groups);
    return NULL;
}
