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

#include "daemon/groups/group_internal.h"
#include "daemon/rails/costs.h"
#include "daemon/tcad.h"

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

void join_complete(struct place *place)
{
    struct session *session = session_find(place->groups->tcad, place->session);
    if (!session)
        return;
    place->state = PLACE_WAITS;
    session->group_requests++;
    deadline_set(&place->groups->deadlines, &place->deadline, place->join_deadline_ns, list_late,
                 place);
}

void join_members(struct place *place, struct team *team, int error, const char *text)
{
    struct session *session = session_find(place->groups->tcad, place->session);
    const uint64_t now_ns = clock_now_ns();

    if (!session)
        return;
    deadline_clear(&place->groups->deadlines, &place->deadline);
    party_leave(place); /* the list can come before the root's answer */
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
    place->tag = tag;
    place->join_deadline_ns = group_deadline(clock_now_ns(), join->timeout_ns);
    if (party_join(session, place, chosen, join->local_size) < 0) {
        session_fail(session, tag, -ENOMEM, "out of memory for a request to the group");
        place_leave(session->tcad->groups, place);
    }
}
