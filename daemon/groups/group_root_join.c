/* The root's side of joins, until the last member has joined. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "daemon/groups/group_internal.h"
#include "daemon/tcad.h"
#include "proto/list.h"
#include "proto/status.h"

enum {
    MEMBERS_MAX =
        1
        << 20 /* of all groups together; a holder of the cluster key can name any number of users */
};

static bool is_absent(const struct group *group, uint32_t rank)
{
    return !group->members[rank].joins;
}

static bool is_in(const struct group *group, uint32_t rank)
{
    return group->sessions[rank] != 0 && group->left[group->roster.positions[rank]] > 0;
}

static uint32_t count_of_user(const struct root *root, uint32_t user)
{
    uint32_t count = 0;
    for (const struct group *group = root->groups; group; group = group->next)
        count += group->user == user;
    return count;
}

/* ---- requests ---- */

/* Its ranks still join. */
static void ask_drop(struct group *group, struct ask *ask)
{
    while (ask->members) {
        struct member *member = ask->members;
        LIST_REMOVE(member, next, link);
        member->ask = NULL;
    }
    LIST_REMOVE(ask, next, link);
    charge_lower(&group->charge, sizeof(*ask));
    free(ask);
}

static void ask_lose(struct group *group, struct member *member)
{
    struct ask *ask = member->ask;
    LIST_REMOVE(member, next, link);
    member->ask = NULL;
    if (--ask->count == 0)
        ask_drop(group, ask); /* its node has asked again, or not waited */
}

static void ask_add(struct ask *ask, struct member *member)
{
    LIST_ADD(&ask->members, member, next, link);
    member->ask = ask;
    ask->count++;
}

bool group_take_ask(struct group *group, uint32_t *ret_node, uint32_t *ret_tag)
{
    struct ask *ask = group->asks;
    if (!ask) {
        for (uint32_t rank = 0; rank < group->size && group->joining > 0; rank++) {
            group->joining -= group->members[rank].joins;
            group->members[rank].joins = false;
        }
        return false;
    }
    *ret_node = ask->node;
    *ret_tag = ask->tag;
    for (struct member *member = ask->members; member; member = member->next)
        member->joins = false;
    group->joining -= ask->count;
    ask_drop(group, ask);
    return true;
}

void group_fail_joins(struct root *root, struct group *group, int error, const char *text)
{
    uint32_t node, tag;
    while (group_take_ask(group, &node, &tag))
        peers_fail(root->tcad->peers, node, tag, error, "%s", text);
}

/* The reply to a request: these do not join. */
static void refuse(const struct root *root, uint32_t node, uint32_t tag, uint64_t *sessions,
                   size_t count, int error, char *text)
{
    Tca__Failure failure = BODY_OF(failure, .status = status_to_wire(error), .text = text);
    Tca__PeerGroupRefused refused =
        BODY_OF(peer_group_refused, .n_sessions = count, .sessions = sessions, .failure = &failure);
    const Tca__Message message = MESSAGE_OF(PEER_GROUP_REFUSED, peer_group_refused, &refused);
    peers_reply(root->tcad->peers, node, tag, &message);
}

/* ---- the last one has joined ---- */

static bool take_members(struct group *group)
{
    const struct member *members = group->members;
    uint32_t *nodes = calloc(group->size, sizeof(*nodes));

    group->sessions = calloc(group->size, sizeof(*group->sessions));
    for (uint32_t rank = 0; nodes && group->sessions && rank < group->size; rank++) {
        nodes[rank] = members[rank].node;
        group->sessions[rank] = members[rank].session;
    }
    const bool ok =
        nodes && group->sessions && roster_init(&group->roster, group->size, nodes) == 0;
    free(nodes);
    group->left = ok ? calloc(group->roster.nodes, sizeof(*group->left)) : NULL;
    if (!group->left)
        return false;
    for (uint32_t position = 0; position < group->roster.nodes; position++)
        group->left[position] = group->roster.starts[position + 1] - group->roster.starts[position];
    group->in = group->size;
    return true;
}

/* Sends the list of members to the root of the tree. False: out of memory. */
static bool send_list(const struct root *root, struct group *group)
{
    const struct roster *roster = &group->roster;
    uint32_t *nodes = calloc(group->size, sizeof(*nodes));
    struct reach_message costs;
    bool ok = nodes != NULL;

    for (uint32_t rank = 0; ok && rank < group->size; rank++)
        nodes[rank] = group->members[rank].node;
    reach_pack(&group->costs, &costs);
    Tca__PeerGroupFormed body =
        BODY_OF(peer_group_formed, .name = (char *)group->name, .user = group->user,
                .n_nodes = group->size, .nodes = nodes, .n_sessions = group->size,
                .sessions = group->sessions, .n_costs = REACH_COUNT, .costs = costs.list);
    if (ok && (ok = getrandom(&body.team, sizeof(body.team), 0) == sizeof(body.team))) {
        body.team |= 1;
        group->team = body.team;
        team_send_list(root->tcad->groups, roster->node_at[0], &body);
    }
    free(nodes);
    return ok;
}

static void complete(struct root *root, struct group *group)
{
    if (!take_members(group) || !send_list(root, group)) {
        group_fail_joins(root, group, -ENOMEM, "out of memory for the list of members");
        group_end(root, group);
        return;
    }
    group->complete = true;
    deadline_clear(&root->deadlines, &group->joins_deadline);
    for (uint32_t node, tag; group_take_ask(group, &node, &tag);)
        peers_done(root->tcad->peers, node, tag);
    free(group->members);
    group->members = NULL;
}

/* ---- joining ---- */

/* Whether the request can be for this group, which may not exist yet. */
static int check_join(struct root *root, const struct group *group, uint32_t node,
                      const Tca__PeerGroupJoin *join, char *text, size_t text_bytes)
{
    const uint32_t limit = root->tcad->conf->limits.groups_per_user;
    char who[160];

    if (!group && root->members + join->size > MEMBERS_MAX) {
        snprintf(
            text, text_bytes,
            "the groups that node %s coordinates have %" PRIu64
            " ranks, and %d is the limit: let another node coordinate this one of %u (NAME@NODE)",
            group_node_name(root->tcad, root->tcad->node), root->members, MEMBERS_MAX, join->size);
        return -EDQUOT;
    }
    if (!group) {
        if (count_of_user(root, join->user) < limit)
            return 0;
        snprintf(text, text_bytes,
                 "user %u has %u groups that node %s coordinates, the limit "
                 "(limits.groups_per_user): end some, or raise it",
                 join->user, limit, group_node_name(root->tcad, root->tcad->node));
        return -EDQUOT;
    }
    if (group->complete) {
        group_ranks(group, is_in, who, sizeof(who));
        snprintf(text, text_bytes,
                 "group %s has been complete before, and %s of %u have not ended: choose another "
                 "name, or end "
                 "them",
                 group->name, who, group->size);
        return -EEXIST;
    }
    if (group->size != join->size) {
        uint32_t rank = 0;
        while (!group->members[rank].joins)
            rank++;
        group_who(root, group, rank, who, sizeof(who));
        snprintf(text, text_bytes,
                 "group %s: %s gives size %u, rank %u (session %" PRIu64
                 " of node %s) gives size %u: all must give the same",
                 group->name, who, group->size, join->ranks[0], join->sessions[0],
                 group_node_name(root->tcad, node), join->size);
        return -EINVAL;
    }
    return 0;
}

static bool is_sound(const Tca__PeerGroupJoin *join)
{
    if (!group_name_valid(join->name) || join->size == 0 || join->size > GROUP_SIZE_MAX ||
        join->n_ranks == 0 || join->n_sessions != join->n_ranks ||
        join->n_timeouts_ns != join->n_ranks)
        return false;
    for (size_t i = 0; i < join->n_ranks; i++)
        if (join->ranks[i] >= join->size || join->sessions[i] == 0)
            return false;
    return true;
}

static bool is_member(const struct group *group, uint32_t node, uint32_t rank, uint64_t session)
{
    return rank < group->size && group->sessions[rank] == session &&
           group->roster.node_at[group->roster.positions[rank]] == node;
}

/* The group is complete. Returns true if some of those who ask are its members: their node has
 * asked again before it had the list. */
static bool ask_again(struct root *root, const struct group *group, uint32_t node, uint32_t tag,
                      const Tca__PeerGroupJoin *join)
{
    char text[GROUP_TEXT_MAX * 2];
    uint64_t *others = calloc(join->n_ranks, sizeof(*others));
    size_t count = 0;

    for (size_t i = 0; others && i < join->n_ranks; i++)
        if (!is_member(group, node, join->ranks[i], join->sessions[i]))
            others[count++] = join->sessions[i];
    const bool again = others && count < join->n_ranks;
    if (again && count == 0)
        peers_done(root->tcad->peers, node, tag);
    else if (again)
        refuse(root, node, tag, others, count,
               check_join(root, group, node, join, text, sizeof(text)), text);
    free(others);
    return again;
}

void root_join(struct root *root, uint32_t node, uint32_t tag, const Tca__PeerGroupJoin *join)
{
    if (!is_sound(join)) {
        peers_fail(root->tcad->peers, node, tag, -EINVAL,
                   "ranks of %u are invalid: a group has 1 to %d ranks, counted from 0, and a name",
                   join->size, GROUP_SIZE_MAX);
        return;
    }
    const struct group *group = root_find(root, join->user, join->name);
    if (group && group->complete &&
        (ask_again(root, group, node, tag, join) || early_keep(root, node, tag, join)))
        return;
    root_try_join(root, node, tag, join);
}

/* ---- time-outs ---- */

/* Replies to a request if some of its ranks wait no longer; out of memory: for all. */
static void ask_expire(struct root *root, struct group *group, struct ask *ask, uint64_t now_ns,
                       const char *missing)
{
    uint64_t *sessions = calloc(ask->count, sizeof(*sessions)), since_ns = now_ns;
    char text[GROUP_TEXT_MAX * 2];
    uint32_t count = 0;

    for (struct member *member = ask->members; member; member = member->next) {
        if (sessions && member->deadline_ns > now_ns)
            continue;
        if (sessions)
            sessions[count] = member->session;
        count++;
        since_ns = member->since_ns < since_ns ? member->since_ns : since_ns;
        member->joins = false;
        group->joining--;
    }
    snprintf(text, sizeof(text),
             "group %s, coordinated by node %s: %s of %u did not join within %.3g s", group->name,
             group_node_name(root->tcad, root->tcad->node), missing, group->size,
             (double)(now_ns - since_ns) / 1e9);
    if (count == ask->count)
        peers_fail(root->tcad->peers, ask->node, ask->tag, -ETIMEDOUT, "%s", text);
    else if (count > 0)
        refuse(root, ask->node, ask->tag, sessions, count, -ETIMEDOUT, text);
    if (count > 0)
        ask_drop(group, ask);
    free(sessions);
}

static void joins_expire(void *context)
{
    struct group *group = context;
    struct root *root = group->root;
    const uint64_t now_ns = clock_now_ns();
    char missing[GROUP_TEXT_MAX];

    group_ranks(group, is_absent, missing, sizeof(missing));
    for (struct ask *ask = group->asks, *next; ask; ask = next) {
        next = ask->next;
        ask_expire(root, group, ask, now_ns, missing);
    }
    for (uint32_t rank = 0; rank < group->size; rank++) {
        struct member *member = &group->members[rank];
        if (member->joins && !member->ask && member->deadline_ns <= now_ns) {
            member->joins = false; /* its node knows no more of it */
            group->joining--;
        }
        if (member->joins)
            deadline_advance(&root->deadlines, &group->joins_deadline, member->deadline_ns,
                             joins_expire, group);
    }
    group_end_deserted(root, group);
}

/* ---- a request ---- */

/* The rank joins. -EEXIST: another session has it. */
static int admit(struct root *root, struct group *group, struct ask *ask,
                 const Tca__PeerGroupJoin *join, size_t i)
{
    const uint64_t now_ns = clock_now_ns();
    struct member *member = &group->members[join->ranks[i]];
    const bool again =
        member->joins && member->node == ask->node && member->session == join->sessions[i];

    if (member->joins && !again)
        return -EEXIST;
    if (again && member->ask == ask)
        return 0;
    if (again && member->ask)
        ask_lose(group, member);
    if (!again) {
        *member = (struct member){
            .joins = true, .node = ask->node, .session = join->sessions[i], .since_ns = now_ns};
        group->joining++;
    }
    member->deadline_ns = group_deadline(now_ns, join->timeouts_ns[i]);
    deadline_advance(&root->deadlines, &group->joins_deadline, member->deadline_ns, joins_expire,
                     group);
    ask_add(ask, member);
    return 0;
}

/* Another session has this rank: that is the reply, and the others ask again. */
static void refuse_twin(struct root *root, struct group *group, struct ask *ask, uint32_t rank,
                        uint64_t session)
{
    char who[160], text[GROUP_TEXT_MAX * 2];

    group_who(root, group, rank, who, sizeof(who));
    snprintf(text, sizeof(text),
             "group %s: %s has joined already; session %" PRIu64
             " of node %s must use another rank",
             group->name, who, session, group_node_name(root->tcad, ask->node));
    refuse(root, ask->node, ask->tag, &session, 1, -EEXIST, text);
    ask_drop(group, ask);
}

static void admit_all(struct root *root, struct group *group, uint32_t node, uint32_t tag,
                      const Tca__PeerGroupJoin *join)
{
    struct ask *ask = calloc(1, sizeof(*ask));
    size_t twin = join->n_ranks;
    char text[GROUP_TEXT_MAX * 2];

    int r = ask ? group_charge(root, group, sizeof(*ask), "a join", text, sizeof(text)) : -ENOMEM;
    if (r < 0) {
        peers_fail(root->tcad->peers, node, tag, r, "%s", ask ? text : "out of memory for a join");
        free(ask);
        return;
    }
    ask->node = node;
    ask->tag = tag;
    LIST_ADD(&group->asks, ask, next, link);
    for (size_t i = 0; i < join->n_ranks; i++)
        if (admit(root, group, ask, join, i) < 0 && twin == join->n_ranks)
            twin = i;
    reach_worsen(&group->costs, join->n_costs, join->costs);
    choice_bar(group, join);
    if (twin < join->n_ranks)
        refuse_twin(root, group, ask, join->ranks[twin], join->sessions[twin]);
}

void root_try_join(struct root *root, uint32_t node, uint32_t tag, const Tca__PeerGroupJoin *join)
{
    struct peers *peers = root->tcad->peers;
    char text[GROUP_TEXT_MAX * 2];
    struct group *group = root_find(root, join->user, join->name);
    int r = check_join(root, group, node, join, text, sizeof(text));
    if (r < 0) {
        peers_fail(peers, node, tag, r, "%s", text);
        return;
    }
    struct choices before = {0};
    const bool is_new = !group;
    if (is_new && choice_moves(root, node, tag, join, &before))
        return;
    if (is_new)
        group = group_new(root, join);
    if (!group) {
        peers_fail(peers, node, tag, -ENOMEM, "out of memory for a group of %u", join->size);
        return;
    }
    if (!group->charge.user &&
        (r = group_charge(root, group, sizeof(*group) + group->size * sizeof(*group->members),
                          "a group", text, sizeof(text))) < 0) {
        group_end(root, group);
        peers_fail(peers, node, tag, r, "%s", text);
        return;
    }
    admit_all(root, group, node, tag, join);
    if (group->joining == group->size) {
        complete(root, group);
    } else if (is_new && group->joining > 0) {
        group->chosen = join->chosen;
        group->before = before;
        choice_ask(root, group);
    } else {
        group_end_deserted(root, group);
    }
}
