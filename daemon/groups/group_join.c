/*
 * A join has two halves: the root sends the list of members, then comes a barrier. After the
 * barrier every member's daemon knows the group, so the first plan of the fastest member is not
 * refused by the daemon of the slowest.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/cluster.h"
#include "daemon/base/log.h"
#include "daemon/groups/group_internal.h"
#include "daemon/rails/costs.h"
#include "daemon/tcad.h"

enum {
    MOVES_MAX = 8,
    PROBE_PARTS =
        4, /* a root that does not answer takes one of so many parts of the time that is left, */
};
#define PROBE_NS UINT64_C(2000000000) /* and no more than this */

static void take_members(struct session *session, struct members *members)
{
    members_unuse(session->members);
    session->members = members_use(members);
}

/* Restores the state before the request to join. */
static void leave(struct groups *groups, struct session *session, struct place *place)
{
    place_leave(groups, place);
    session->joined = false;
    session->group[0] = '\0';
    session->rank = 0;
    session->size = 1;
    session->root = session->tcad->node;
    take_members(session, session->self);
}

static void list_late(void *context)
{
    struct place *place = context;
    struct session *session = session_find(place->groups->tcad, place->session);
    if (!session)
        return;
    session->group_requests--;
    session_fail(
        session, place->tag, -ETIMEDOUT,
        "group %s is complete, but the list of its members has not come: a node between is "
        "stopped or cut off (tcactl nodes), or the cluster files differ",
        place->group);
    join_failed(session, place);
}

void join_complete(struct request *request, struct place *place)
{
    struct session *session = session_find(place->groups->tcad, place->session);
    if (place->state == PLACE_ASKS && session) {
        place->state = PLACE_WAITS;
        session->group_requests++;
        deadline_set(&place->groups->deadlines, &place->deadline, request->deadline_ns, list_late,
                     place);
    }
    request_free(request);
}

void join_members(struct place *place, struct team *team, int error, const char *text)
{
    struct session *session = session_find(place->groups->tcad, place->session);
    const uint64_t now_ns = clock_now_ns();

    if (!session)
        return;
    deadline_clear(&place->groups->deadlines, &place->deadline);
    if (place->state == PLACE_WAITS)
        session->group_requests--;
    if (!team) {
        session_fail(session, place->tag, error, "%s", text);
        join_failed(session, place);
        return;
    }
    take_members(session, team->members);
    session->costs = team->costs;
    memcpy(session->group, place->group, sizeof(session->group));
    session->rank = place->rank;
    session->size = place->size;
    session->root = place->root;
    session->joined = true;
    place->state = PLACE_MEETS;
    session->tcad->session_hooks->joined(session);
    const uint64_t left_ns =
        place->join_deadline_ns > now_ns ? place->join_deadline_ns - now_ns : 0;
    team_call(&place->caller, CALL_JOINS, place->tag, GROUP_JOIN_SEQUENCE, NULL, 0, 0,
              place->join_deadline_ns == UINT64_MAX ? UINT64_MAX : left_ns);
}

void join_done(struct session *session, struct place *place, int *memfd)
{
    place->state = PLACE_IN;
    team_answer_members(place->caller.team, session, place->tag, memfd);
}

void join_failed(struct session *session, struct place *place)
{
    leave(session->tcad->groups, session, place);
}

static int check_join(const struct session *session, const Tca__GroupJoin *join, char *text,
                      size_t text_bytes)
{
    if (place_find(session->tcad->groups, session->id)) {
        snprintf(text, text_bytes, "session %" PRIu64 " is in a group already", session->id);
        return -EALREADY;
    }
    if (join->size == 0 || join->size > session->sources || join->rank >= join->size) {
        snprintf(text, text_bytes,
                 "rank %u of %u is invalid: ranks count from 0, and session %" PRIu64
                 " was opened for a group of at most %u",
                 join->rank, join->size, session->id, session->sources);
        return -EINVAL;
    }
    return 0;
}

static void answer_alone(struct session *session, uint32_t tag)
{
    struct group_member self = session->self->list[0];
    self.subcluster = team_subcluster(session->tcad, self.node);
    struct reach_message costs;
    reach_pack(&session->costs, &costs);
    Tca__GroupMembers body = BODY_OF(group_members, .members = {sizeof(self), (uint8_t *)&self},
                                     .n_costs = REACH_COUNT, .costs = costs.list);
    const Tca__Message message = MESSAGE_OF(GROUP_MEMBERS, group_members, &body);
    session_answer(session, tag, &message, NULL, 0);
}

static void join_alone(struct session *session, uint32_t tag)
{
    if (!place_of_caller(session, tag))
        return;
    session->joined = true;
    rails_costs(session->tcad, &session->costs);
    answer_alone(session, tag);
}

/* ---- the root ---- */

static void send_join(struct request *request, const struct place *place)
{
    struct reach_costs own;
    struct reach_message costs;
    rails_costs(request->groups->tcad, &own);
    reach_pack(&own, &costs);
    Tca__PeerGroupJoin body =
        BODY_OF(peer_group_join, .name = request->group, .user = place->user, .rank = place->rank,
                .size = place->size, .session = place->session, .n_costs = REACH_COUNT,
                .costs = costs.list, .timeout_ns = request_time_left(request));
    const Tca__Message message = MESSAGE_OF(PEER_GROUP_JOIN, peer_group_join, &body);
    body.chosen = request->chosen;
    body.n_barred = request->barred.count;
    body.barred = request->barred.nodes;
    request_send(request, &message);
}

static void probed(void *context, int status, const Tca__Message *reply, const char *text)
{
    struct request *request = context;
    struct session *session = session_find(request->groups->tcad, request->session);
    struct place *place = place_find(request->groups, request->session);
    char why[GROUP_TEXT_MAX * 2];

    if (!session || !place) {
        request_free(request); /* its process has ended */
    } else if (status == 0) {
        send_join(request, place);
    } else if (status == -ECANCELED ||
               !join_elsewhere(request, session, place, text, why, sizeof(why))) {
        session_fail(session, request->tag, status, "%s", status == -ECANCELED ? text : why);
        join_failed(session, place);
        request_free(request);
    }
}

/* A chosen root need not be up, and one that counts as up need not answer: it may be stopped. */
static void ask_root(struct request *request, const struct place *place)
{
    struct tcad *tcad = request->groups->tcad;
    const uint64_t part_ns = request_time_left(request) / PROBE_PARTS;
    if (!request->chosen || request->root == tcad->node)
        send_join(request, place);
    else
        peers_probe(tcad->peers, request->root, part_ns < PROBE_NS ? part_ns : PROBE_NS, probed,
                    request);
}

bool join_elsewhere(struct request *request, struct session *session, struct place *place,
                    const char *why, char *ret_text, size_t text_bytes)
{
    const struct tcad *tcad = request->groups->tcad;
    uint32_t root;

    choices_add(&request->passed, request->root);
    if (!group_choose(tcad->cluster, request->user, request->group, &request->passed, &root)) {
        snprintf(ret_text, text_bytes,
                 "group %s: none of the %u nodes that could coordinate it answers: start them, or "
                 "choose another (%s@NODE). %s",
                 request->group, request->passed.count, request->group, why);
        return false;
    }
    log_debug(NULL, "group %s: node %s coordinates it: %s", request->group,
              group_node_name(tcad, root), why);
    request->root = place->root = root;
    ask_root(request, place);
    return true;
}

bool join_moved(struct request *request, struct session *session, struct place *place,
                const Tca__PeerGroupMoved *moved, char *ret_text, size_t text_bytes)
{
    const struct tcad *tcad = request->groups->tcad;
    const char *from = group_node_name(tcad, request->root);

    if (++request->moves > MOVES_MAX) {
        snprintf(ret_text, text_bytes,
                 "group %s: nodes do not agree which of them coordinates it; node %s says node "
                 "%.64s: their cluster files differ, or not all of them reach each other (tcactl "
                 "nodes). Choose a node that all reach (%s@NODE)",
                 request->group, from, moved->node_name, request->group);
        return false;
    }
    if (!cluster_by_id(tcad->cluster, moved->node)) { /* the cluster files differ */
        choices_add(&request->barred, moved->node);
    } else {
        if (moved->pass) {
            choices_add(&request->passed, request->root);
            choices_add(&request->barred, request->root);
        }
        request->root = place->root = moved->node;
    }
    send_join(request, place); /* another node has reached it */
    return true;
}

void group_join(struct session *session, uint32_t tag, const Tca__GroupJoin *join)
{
    char text[GROUP_TEXT_MAX], name[NAME_MAX_BYTES];
    uint32_t root;
    bool chosen;

    int r = check_join(session, join, text, sizeof(text));
    if (r == 0 && join->name[0] == '\0' && group_alone(session)) {
        join_alone(session, tag);
        return;
    }
    if (r == 0)
        r = group_place(session->tcad, (uint32_t)session->uid, join->name, name, &root, &chosen,
                        text, sizeof(text));
    if (r < 0) {
        session_fail(session, tag, r, "%s", text);
        return;
    }
    struct place *place = place_new(session, name, root, join->rank, join->size);
    if (!place) {
        session_fail(session, tag, -ENOMEM, "out of memory for a group of %u", join->size);
        return;
    }
    struct request *request = request_new(session, place, REQUEST_JOIN, tag, join->timeout_ns);
    if (!request) {
        place_leave(session->tcad->groups, place);
        return;
    }
    request->chosen = chosen;
    place->tag = tag;
    place->join_deadline_ns = request->deadline_ns;
    ask_root(request, place);
}
