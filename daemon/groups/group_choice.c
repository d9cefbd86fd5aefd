/*
 * Whether this node is to be the root of a group that was given to it because of the group's name.
 *
 * It is not if a node before it is up: members that did not reach that one have been too early, or too
 * late. Nor if one of the next nodes does not know it: members there have asked that node, because
 * their cluster file does not have this one either. What is not known when a group is created may show
 * before the group is complete; then the members that have joined are sent on.
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
    uint32_t rank = 0;
    for (struct member *member; (member = group_take_joining(group, &rank));)
        send_on(root, member->node, member->tag, to, pass);
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

bool choice_moves(struct root *root, uint32_t node, uint32_t tag, const Tca__PeerGroupJoin *join,
                  struct choices *ret_before)
{
    struct peers *peers = root->tcad->peers;
    struct choices others;
    uint32_t next;

    if (!join->chosen || !find_before(root, join->user, join->name, ret_before)) {
        *ret_before = (struct choices){0};
        return false;
    }
    for (unsigned i = 0; i < ret_before->count; i++) {
        if (!peers_is_up(peers, ret_before->nodes[i]))
            continue;
        send_on(root, node, tag, ret_before->nodes[i], false);
        return true;
    }
    others = *ret_before;
    if (others.count == CHOICES_MAX)
        return false;
    others.nodes[others.count++] = root->tcad->node;
    for (unsigned i = 0; i < NEXT && find_next(root, join->user, join->name, &others, &next); i++) {
        if (!peers_is_stranger(peers, next))
            continue;
        send_on(root, node, tag, next, true);
        return true;
    }
    return false;
}

/* ---- asking ---- */

struct question {
    struct root *root;
    uint32_t user, node;
    char name[NAME_MAX_BYTES];
};

static void answered(void *context, int status, const Tca__Message *reply, const char *text)
{
    struct question *question = context;
    struct root *root = question->root;
    struct group *group =
        status == -EHOSTDOWN ? root_find(root, question->user, question->name) : NULL;
    if (group && group->chosen && !group->complete &&
        peers_is_stranger(root->tcad->peers, question->node))
        move(root, group, question->node, true);
    free(question); /* a node before this one that is up: choice_node_up() */
}

static void ask(struct root *root, const struct group *group, uint32_t node)
{
    struct tcad *tcad = root->tcad;
    struct question *question;
    if (node == tcad->node || peers_is_up(tcad->peers, node) ||
        !(question = malloc(sizeof *question)))
        return;
    *question = (struct question){.root = root, .user = group->user, .node = node};
    snprintf(question->name, sizeof question->name, "%s", group->name);
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
        ask(root, group, next);
}

void choice_node_up(struct root *root, uint32_t node)
{
    struct group *next;
    for (struct group *group = root->groups; group; group = next) {
        next = group->next;
        for (unsigned i = 0; !group->complete && i < group->before.count; i++) {
            if (group->before.nodes[i] != node)
                continue;
            move(root, group, node, false);
            break;
        }
    }
}
