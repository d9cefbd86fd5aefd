/* The root's side: groups whose root is this daemon, and the ends of their members. A group exists
 * from the first join until all nodes have said that their last rank has ended, or are down. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/groups/group_internal.h"
#include "daemon/tcad.h"
#include "proto/list.h"

static uint64_t key(uint32_t user, const char *name)
{
    return table_mix(user, table_text(name));
}

struct group *root_find(const struct root *root, uint32_t user, const char *name)
{
    for (const struct table_entry *entry = table_first(&root->by_name, key(user, name)); entry;
         entry = table_again(entry)) {
        struct group *group = entry->owner;
        if (group->user == user && strcmp(group->name, name) == 0)
            return group;
    }
    return NULL;
}

uint32_t root_count(const struct root *root)
{
    return root->count;
}

/* ---- groups ---- */

struct group *group_new(struct root *root, const Tca__PeerGroupJoin *join)
{
    struct group *group = calloc(1, sizeof(*group));
    struct member *members = calloc(join->size, sizeof(*members));
    if (!group || !members) {
        free(group);
        free(members);
        return NULL;
    }
    group->root = root;
    group->user = join->user;
    snprintf(group->name, sizeof(group->name), "%s", join->name);
    group->size = join->size;
    group->members = members;
    LIST_ADD(&root->groups, group, next, link);
    table_add(&root->by_name, &group->entry, key(group->user, group->name), group);
    root->count++;
    root->members += group->size;
    return group;
}

int group_charge(struct root *root, struct group *group, uint64_t bytes, const char *what,
                 char *text, size_t text_bytes)
{
    return charge_take(root->tcad, &group->charge, group->user, USER_GROUPS, bytes, what, text,
                       text_bytes);
}

void group_end(struct root *root, struct group *group)
{
    LIST_REMOVE(group, next, link);
    table_remove(&root->by_name, &group->entry);
    root->count--;
    root->members -= group->size;
    deadline_clear(&root->deadlines, &group->joins_deadline);
    early_retry(root, group);
    for (uint32_t node, tag; group_take_ask(group, &node, &tag);)
        ; /* the daemon ends */
    free(group->members);
    roster_deinit(&group->roster);
    free(group->sessions);
    free(group->left);
    charge_drop(&group->charge);
    free(group);
}

void group_end_deserted(struct root *root, struct group *group)
{
    if (group->joining == 0 && group->in == 0)
        group_end(root, group);
}

/* ---- members end ---- */

/* A group that is not complete ends when a member is lost. */
static void joins_broken(struct root *root, struct group *group, uint32_t rank, int error)
{
    char who[160], text[GROUP_TEXT_MAX];

    group_who(root, group, rank, who, sizeof(who));
    snprintf(text, sizeof(text), "group %s: %s has ended before the group was complete",
             group->name, who);
    group_fail_joins(root, group, error,
                     text); /* including its own: its daemon waits for a reply */
}

/* All ranks of a node have ended. */
static void node_left(struct group *group, uint32_t node)
{
    const uint32_t position = roster_position(&group->roster, node);
    if (position == UINT32_MAX)
        return;
    group->in -= group->left[position];
    group->left[position] = 0;
}

/* One of them. */
static void session_left(struct group *group, uint32_t node, uint32_t rank, uint64_t session)
{
    const uint32_t position = group->roster.positions[rank];
    if (group->roster.node_at[position] != node || group->sessions[rank] != session ||
        group->left[position] == 0)
        return;
    group->sessions[rank] = 0;
    group->left[position]--;
    group->in--;
}

void root_session_gone(struct root *root, uint32_t node, const Tca__PeerSessionGone *gone)
{
    struct group *group = root_find(root, gone->user, gone->group);
    const uint32_t rank = gone->rank;
    const int error = gone->node_down ? -EHOSTDOWN : -EOWNERDEAD;

    early_session_gone(root, node, gone->session);
    if (!group || (gone->team && gone->team != group->team))
        return;
    if (gone->team)
        node_left(group, node);
    else if (rank >= group->size || gone->session == 0)
        return;
    else if (group->complete)
        session_left(group, node, rank, gone->session);
    else if (group->members[rank].joins && group->members[rank].node == node &&
             group->members[rank].session == gone->session)
        joins_broken(root, group, rank, error);
    group_end_deserted(root, group);
}

void root_node_down(struct root *root, uint32_t node)
{
    struct group *next;
    early_session_gone(root, node, 0);
    for (struct group *group = root->groups; group; group = next) {
        next = group->next;
        if (group->complete)
            node_left(group, node);
        for (uint32_t rank = 0; !group->complete && rank < group->size; rank++)
            if (group->members[rank].joins && group->members[rank].node == node)
                joins_broken(root, group, rank, -EHOSTDOWN);
        group_end_deserted(root, group);
    }
}

/* ---- lifetime ---- */

int root_new(struct tcad *tcad, struct root **ret_root)
{
    struct root *root = calloc(1, sizeof(*root));
    if (!root)
        return -ENOMEM;
    root->tcad = tcad;
    int r = deadlines_init(&root->deadlines, tcad->loop);
    if (r < 0) {
        free(root);
        return r;
    }
    *ret_root = root;
    return 0;
}

struct root *root_free(struct root *root)
{
    if (!root)
        return NULL;
    while (root->groups)
        group_end(root, root->groups);
    early_drop_all(root);
    deadlines_deinit(&root->deadlines);
    table_deinit(&root->by_name);
    free(root);
    return NULL;
}
