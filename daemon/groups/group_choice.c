/*
 * Whether this node is to be the root of a group that was given to it because of the group's name.
 *
 * It is not if a node before it answers: members that did not reach that one have been too early,
 * or too late. That the node counts as up says nothing: it may have just ended, or be stopped,
 * which this node notices later than the member. Nor if one of the next nodes does not know this
 * one: members there have asked that node, because their cluster file does not have this one. Both
 * may show when a member waits already, and as long as the group is not complete, its members are
 * then sent on.
 *
 * A member may not know the node to which it is sent (its cluster file does not have it), or have
 * been sent on from there. It says so, and is not sent there: where cluster files differ, members
 * meet at a node that all of them know.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "config/cluster.h"
#include "daemon/groups/group_internal.h"
#include "daemon/tcad.h"
#include "proto/status.h"

enum { NEXT = 3 }; /* nodes that must know the root */

static void send_on(const struct root *root, uint32_t node, uint32_t tag, uint32_t to, bool pass)
{
    Tca__PeerGroupMoved moved =
        BODY_OF(peer_group_moved, .node = to, .node_name = (char *)group_node_name(root->tcad, to),
                .pass = pass);
    const Tca__Message message = MESSAGE_OF(PEER_GROUP_MOVED, peer_group_moved, &moved);
    peers_reply(root->tcad->peers, node, tag, &message);
}

/* Can end the group. */
static void move(struct root *root, struct group *group, uint32_t to, bool pass)
{
    for (uint32_t node, tag; group_take_ask(group, &node, &tag);)
        send_on(root, node, tag, to, pass);
    group_end_deserted(root, group);
}

/* The nodes before this one. False: this one is not among the first. */
static bool find_before(const struct root *root, uint32_t user, const char *name,
                        struct choices *ret_before)
{
    uint32_t node;
    *ret_before = (struct choices){0};
    while (group_choose(root->tcad->cluster, user, name, ret_before, &node)) {
        if (node == root->tcad->node)
            return true;
        ret_before->nodes[ret_before->count++] = node;
    }
    return false;
}

/* The node after these, which are not full. */
static bool find_next(const struct root *root, uint32_t user, const char *name,
                      struct choices *others, uint32_t *ret_node)
{
    if (!group_choose(root->tcad->cluster, user, name, others, ret_node))
        return false;
    others->nodes[others->count++] = *ret_node;
    return true;
}

static bool is_barred(const Tca__PeerGroupJoin *join, uint32_t node)
{
    for (size_t i = 0; i < join->n_barred; i++)
        if (join->barred[i] == node)
            return true;
    return false;
}

bool choice_moves(struct root *root, uint32_t node, uint32_t tag, const Tca__PeerGroupJoin *join,
                  struct choices *ret_before)
{
    struct choices others;
    uint32_t next;

    if (!join->chosen || !find_before(root, join->user, join->name, ret_before)) {
        *ret_before = (struct choices){0};
        return false;
    }
    others = *ret_before;
    if (others.count == CHOICES_MAX)
        return false;
    others.nodes[others.count++] = root->tcad->node;
    for (unsigned i = 0; i < NEXT && find_next(root, join->user, join->name, &others, &next); i++) {
        if (!peers_is_stranger(root->tcad->peers, next) || is_barred(join, next))
            continue;
        send_on(root, node, tag, next, true);
        return true;
    }
    return false;
}

void choice_bar(struct group *group, const Tca__PeerGroupJoin *join)
{
    for (size_t i = 0; i < join->n_barred; i++)
        choices_add(&group->barred, join->barred[i]);
}

/* ---- asking ---- */

struct question {
    struct root *root;
    uint32_t user, node;
    char name[NAME_MAX_BYTES];
};

static void ask(struct root *root, const struct group *group, uint32_t node);

static void answered(void *context, int status, const Tca__Message *reply, const char *text)
{
    struct question *question = context;
    struct root *root = question->root;
    const uint32_t node = question->node;
    struct group *group =
        status == -ECANCELED ? NULL : root_find(root, question->user, question->name);
    free(question);
    if (!group || !group->chosen || group->complete || choices_have(&group->barred, node))
        return;
    const bool is_before = choices_have(&group->before, node);
    if (status == 0 && is_before)
        move(root, group, node, false);
    else if (status == -ETIMEDOUT && is_before)
        ask(root, group, node); /* it may be stopped, or busy */
    else if (status == -EHOSTDOWN && peers_is_stranger(root->tcad->peers, node))
        move(root, group, node, true);
}

static void ask(struct root *root, const struct group *group, uint32_t node)
{
    struct tcad *tcad = root->tcad;
    struct question *question =
        node == tcad->node || choices_have(&group->barred, node) ? NULL : malloc(sizeof(*question));
    if (!question)
        return;
    *question = (struct question){.root = root, .user = group->user, .node = node};
    snprintf(question->name, sizeof(question->name), "%s", group->name);
    peers_probe(tcad->peers, node, tcad->conf->control.request_timeout_ns, answered, question);
}

void choice_ask(struct root *root, const struct group *group)
{
    struct choices others = group->before;
    uint32_t next;

    if (!group->chosen || group->size == 1)
        return;
    for (unsigned i = 0; i < group->before.count; i++)
        ask(root, group, group->before.nodes[i]);
    if (others.count == CHOICES_MAX)
        return;
    others.nodes[others.count++] = root->tcad->node;
    for (unsigned i = 0; i < NEXT && find_next(root, group->user, group->name, &others, &next); i++)
        if (!peers_is_up(root->tcad->peers, next)) /* else it knows this node */
            ask(root, group, next);
}

void choice_node_up(struct root *root, uint32_t node)
{
    struct group *next;
    for (struct group *group = root->groups; group; group = next) {
        next = group->next;
        if (!group->complete && choices_have(&group->before, node) &&
            !choices_have(&group->barred, node))
            move(root, group, node, false);
    }
}
