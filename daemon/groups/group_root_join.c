/* The root's side of joins, until the last member has joined. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "daemon/groups/group_internal.h"
#include "daemon/tcad.h"

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

struct member *group_take_joining(struct group *group, uint32_t *rank)
{
    while (*rank < group->size) {
        struct member *member = &group->members[(*rank)++];
        if (!member->joins)
            continue;
        member->joins = false;
        group->joining--;
        return member;
    }
    return NULL;
}

void group_fail_joins(struct root *root, struct group *group, int error, const char *text)
{
    uint32_t rank = 0;
    for (struct member *member; (member = group_take_joining(group, &rank));)
        peers_fail(root->tcad->peers, member->node, member->tag, error, "%s", text);
}

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
    struct member *members = group->members;
    const uint32_t size = group->size;
    group->complete = true;
    group->joining = 0;
    deadline_clear(&root->deadlines, &group->joins_deadline);
    group->members = NULL;
    for (uint32_t rank = 0; rank < size; rank++)
        peers_done(root->tcad->peers, members[rank].node, members[rank].tag);
    free(members);
}

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
                 group->name, who, group->size, join->rank, join->session,
                 group_node_name(root->tcad, node), join->size);
        return -EINVAL;
    }
    if (group->members[join->rank].joins) {
        group_who(root, group, join->rank, who, sizeof(who));
        snprintf(text, text_bytes,
                 "group %s: %s has joined already; session %" PRIu64
                 " of node %s must use another rank",
                 group->name, who, join->session, group_node_name(root->tcad, node));
        return -EEXIST;
    }
    return 0;
}

void root_join(struct root *root, uint32_t node, uint32_t tag, const Tca__PeerGroupJoin *join)
{
    struct peers *peers = root->tcad->peers;

    if (!group_name_valid(join->name) || join->size == 0 || join->size > GROUP_SIZE_MAX ||
        join->rank >= join->size || join->session == 0) {
        peers_fail(
            peers, node, tag, -EINVAL,
            "rank %u of %u is invalid: a group has 1 to %d ranks, counted from 0, and a name",
            join->rank, join->size, GROUP_SIZE_MAX);
        return;
    }
    const struct group *group = root_find(root, join->user, join->name);
    if (!group || !group->complete || !early_keep(root, node, tag, join))
        root_try_join(root, node, tag, join);
}

static void joins_expire(void *context)
{
    struct group *group = context;
    struct root *root = group->root;
    const uint64_t now_ns = clock_now_ns();
    char missing[GROUP_TEXT_MAX];

    group_ranks(group, is_absent, missing, sizeof(missing));
    for (uint32_t rank = 0; rank < group->size; rank++) {
        struct member *member = &group->members[rank];
        if (!member->joins)
            continue;
        if (member->deadline_ns > now_ns) {
            deadline_advance(&root->deadlines, &group->joins_deadline, member->deadline_ns,
                             joins_expire, group);
            continue;
        }
        peers_fail(root->tcad->peers, member->node, member->tag, -ETIMEDOUT,
                   "group %s, coordinated by node %s: %s of %u did not join within %.3g s",
                   group->name, group_node_name(root->tcad, root->tcad->node), missing, group->size,
                   (double)(now_ns - member->since_ns) / 1e9);
        member->joins = false;
        group->joining--;
    }
    group_end_deserted(root, group);
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
    uint64_t now = clock_now_ns();
    group->members[join->rank] = (struct member){
        .joins = true,
        .node = node,
        .tag = tag,
        .session = join->session,
        .since_ns = now,
        .deadline_ns = group_deadline(now, join->timeout_ns),
    };
    reach_worsen(&group->costs, join->n_costs, join->costs);
    choice_bar(group, join);
    group->joining++;
    if (group->joining == group->size) {
        complete(root, group);
        return;
    }
    deadline_advance(&root->deadlines, &group->joins_deadline,
                     group->members[join->rank].deadline_ns, joins_expire, group);
    if (is_new) {
        group->chosen = join->chosen;
        group->before = before;
        choice_ask(root, group);
    }
}
