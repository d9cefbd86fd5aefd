/*
 * The member's side: which session is in which group.
 *
 * A join is sent to the root by group_party.c and handled there by group_root_join.c.
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
    if (!place)
        return NULL;
    place->groups = groups;
    place->session = session->id;
    place->user = (uint32_t)session->uid;
    place->root = root;
    place->rank = rank;
    place->size = size;
    snprintf(place->group, sizeof(place->group), "%s", group);
    LIST_ADD(&groups->places, place, next, link);
    table_add(&groups->by_session, &place->entry, place->session, place);
    return place;
}

uint64_t group_place_bytes(void)
{
    return sizeof(struct place) + party_bytes() + GROUP_REQUESTS_MAX * sizeof(struct request);
}

static void forget(struct place *place)
{
    LIST_REMOVE(place, next, link);
    free(place);
}

static void place_free(struct groups *groups, struct place *place)
{
    table_remove(&groups->by_session, &place->entry);
    deadline_clear(&groups->deadlines, &place->deadline);
    party_leave(place);
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

/* The root, for which the name is then free once all have ended: of a complete group, the last rank
 * of this node tells it for all. */
static void tell_gone(struct groups *groups, const struct place *place)
{
    const struct session *session = session_find_any(groups->tcad, place->session);
    const struct team *team = place->caller.team;

    /* It ended during its join: the message must reach the root after the join, which may still be
     * in flight. */
    bool ordered = place->state < PLACE_MEETS && (!session || session->closing);
    Tca__PeerSessionGone gone =
        BODY_OF(peer_session_gone, .session = place->session, .group = (char *)place->group,
                .user = place->user, .rank = place->rank);
    if (team && team->callers->next)
        return;
    if (team)
        gone.team = team->id;
    gone.node_down = groups->tcad->shutting_down; /* its process may still be running */
    const Tca__Message message = MESSAGE_OF(PEER_SESSION_GONE, peer_session_gone, &gone);

    if (ordered)
        peers_request(groups->tcad->peers, place->root, &message,
                      groups->tcad->conf->control.request_timeout_ns, root_heard, NULL);
    else if (place->root == groups->tcad->node)
        root_session_gone(groups->root, place->root, &gone);
    else
        peers_tell(groups->tcad->peers, place->root, &message);
}

void place_leave(struct groups *groups, struct place *place)
{
    if (!place)
        return;
    if (!party_ended(place) && place->group[0])
        tell_gone(groups, place);
    team_leave_parts(place);
    team_leave(&place->caller);
    place_free(groups, place);
}

void group_session_gone(struct session *session)
{
    struct groups *groups = session->tcad->groups;
    place_leave(groups, place_find(groups, session->id));
}

/* ---- nodes ---- */

void groups_node_up(struct groups *groups, uint32_t node)
{
    choice_node_up(groups->root, node);
}

void groups_node_down(struct groups *groups, uint32_t node)
{
    root_node_down(groups->root, node);
    teams_node_down(groups, node);
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
        if (tag != 0)
            peers_done(groups->tcad->peers, node, tag);
        return true;
    case TCA__MESSAGE__BODY_PEER_GROUP_ENDS:
        team_ends_told(groups, node, tag, request->peer_group_ends);
        return true;
    case TCA__MESSAGE__BODY_PEER_SESSION_GONE:
        root_session_gone(groups->root, node, request->peer_session_gone);
        peers_done(groups->tcad->peers, node, tag);
        return true;
    case TCA__MESSAGE__BODY_PEER_PUBLISH:
        team_publish(groups, node, tag, request->peer_publish);
        return true;
    case TCA__MESSAGE__BODY_PEER_LOOKUP:
        team_lookup(groups, node, tag, request->peer_lookup);
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
        team_forget_parts(groups->places);
        team_forget(&groups->places->caller);
        place_free(groups, groups->places);
    }
    parties_free(groups);
    teams_free(groups);
    root_free(groups->root);
    deadlines_deinit(&groups->deadlines);
    table_deinit(&groups->by_session);
    table_deinit(&groups->teams);
    free(groups);
    return NULL;
}
