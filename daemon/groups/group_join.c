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
#include "daemon/groups/group_internal.h"
#include "daemon/rails/costs.h"
#include "daemon/tcad.h"

/* A node that a reload has removed from the cluster is alone. */
static uint32_t subcluster_of(const struct cluster *cluster, uint32_t id)
{
    const struct cluster_node *node = cluster_by_id(cluster, id);
    return node ? node->subcluster_id : id;
}

static void answer_members(struct session *session, uint32_t tag)
{
    Tca__Member *members = calloc(session->size, sizeof *members);
    Tca__Member **list = calloc(session->size, sizeof *list);
    if (members && list) {
        for (uint32_t rank = 0; rank < session->size; rank++) {
            members[rank] = (Tca__Member)TCA__MEMBER__INIT;
            members[rank].rank = rank;
            members[rank].node = session->members[rank].node;
            members[rank].session = session->members[rank].session;
            members[rank].incarnation = session->members[rank].incarnation;
            members[rank].subcluster =
                subcluster_of(session->tcad->cluster, session->members[rank].node);
            list[rank] = &members[rank];
        }
        struct reach_message costs;
        reach_pack(&session->costs, &costs);
        Tca__GroupMembers body = BODY_OF(group_members, .n_members = session->size, .members = list,
                                         .n_costs = REACH_COUNT, .costs = costs.list);
        const Tca__Message message = MESSAGE_OF(GROUP_MEMBERS, group_members, &body);
        session_answer(session, tag, &message, NULL, 0);
    } else {
        session_fail(session, tag, -ENOMEM, "out of memory for the list of members");
    }
    free(members);
    free(list);
}

/* Checks and stores the root's list: every rank once, with this session at its own rank. */
static int take_members(struct session *session, const struct place *place,
                        const Tca__GroupMembers *list)
{
    if (list->n_members != place->size || place->size > session->sources)
        return -EPROTO;
    struct session_member *members = calloc(session->sources, sizeof *members);
    if (!members)
        return -ENOMEM;
    int r = 0;
    for (size_t i = 0; i < list->n_members && r == 0; i++) {
        const Tca__Member *from = list->members[i];
        if (from->rank >= place->size || members[from->rank].known)
            r = -EPROTO;
        else
            members[from->rank] =
                (struct session_member){from->node, from->session, from->incarnation, true};
    }
    if (r == 0 && (members[place->rank].session != session->id ||
                   members[place->rank].node != session->tcad->node))
        r = -EPROTO;
    if (r < 0) {
        free(members);
        return r;
    }
    free(session->members);
    session->members = members;
    return 0;
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
    session->members[0] =
        (struct session_member){session->tcad->node, session->id, session->tcad->incarnation, true};
}

/* Marks ranks that had ended before the list of members arrived. This can end the session. */
static void mark_early(struct session *session, struct place *place)
{
    struct tcad *tcad = session->tcad;
    uint64_t id = session->id;

    for (uint32_t rank = 0; rank < place->size; rank++) {
        struct gone *gone = &place->gone[rank];
        const struct session_member *member = &session->members[rank];
        if (gone->session == 0)
            continue;
        if (gone->session != member->session || gone->node != member->node)
            gone->session = 0; /* from an earlier group of this name */
        else
            session_source_gone(session, rank, gone->state);
        if (!session_find(tcad, id))
            return;
    }
}

void join_members(struct request *request, struct session *session, struct place *place,
                  const Tca__GroupMembers *list)
{
    struct groups *groups = request->groups;

    int r = take_members(session, place, list);
    if (r < 0) {
        session_fail(session, request->tag, r, "node %s has sent an invalid list of members",
                     group_node_name(session->tcad, place->root));
        leave(groups, session, place);
        request_free(request);
        return;
    }
    session->costs = (struct reach_costs){0};
    reach_worsen(&session->costs, list->n_costs, list->costs);
    memcpy(session->group, place->group, sizeof session->group);
    session->rank = place->rank;
    session->size = place->size;
    session->root = place->root;
    session->joined = true;
    place->joined = true;
    session->tcad->session_hooks->joined(session);
    request->kind = REQUEST_BARRIER;
    request_gather(request, place->rank, GROUP_JOIN_SEQUENCE, (ProtobufCBinaryData){0});
    mark_early(session, place);
}

void join_done(struct request *request, struct session *session, struct place *place)
{
    place->entered = true;
    answer_members(session, request->tag);
}

void join_failed(struct request *request, struct session *session, struct place *place)
{
    leave(request->groups, session, place);
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

static void join_alone(struct session *session, uint32_t tag)
{
    if (!place_of_caller(session, tag))
        return;
    session->joined = true;
    rails_costs(session->tcad, &session->costs);
    answer_members(session, tag);
}

void group_join(struct session *session, uint32_t tag, const Tca__GroupJoin *join)
{
    char text[GROUP_TEXT_MAX], name[NAME_MAX_BYTES];
    uint32_t root;

    int r = check_join(session, join, text, sizeof text);
    if (r == 0 && join->name[0] == '\0' && group_alone(session)) {
        join_alone(session, tag);
        return;
    }
    if (r == 0)
        r = group_place(session->tcad, (uint32_t)session->uid, join->name, name, &root, text,
                        sizeof text);
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
    struct reach_costs own;
    struct reach_message costs;
    rails_costs(session->tcad, &own);
    reach_pack(&own, &costs);
    Tca__PeerGroupJoin body =
        BODY_OF(peer_group_join, .name = name, .user = place->user, .rank = join->rank,
                .size = join->size, .session = session->id, .timeout_ns = join->timeout_ns,
                .n_costs = REACH_COUNT, .costs = costs.list);
    const Tca__Message message = MESSAGE_OF(PEER_GROUP_JOIN, peer_group_join, &body);
    request_send(request, &message);
}
