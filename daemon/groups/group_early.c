/*
 * Joins that arrive too early: a complete group of that name still exists but may be about to end,
 * as when a job is restarted right after it was killed. Such a join waits a moment before it is
 * refused.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/groups/group_internal.h"
#include "proto/list.h"

#define GRACE_NS 2000000000ull

enum { EARLY_MAX = GROUP_SIZE_MAX };

struct early {
    struct early *next, **link; /* in root->early */
    uint32_t node, tag;
    struct deadline deadline; /* of the next try */
    struct root *root;
    Tca__PeerGroupJoin join; /* points to `name` and `costs` */
    struct reach_message costs;
    struct charge charge;
    char name[NAME_MAX_BYTES];
};

static void take_out(struct early *early)
{
    LIST_REMOVE(early, next, link);
    early->root->early_count--;
}

static void early_free(struct early *early)
{
    if (early->link)
        take_out(early);
    deadline_clear(&early->root->deadlines, &early->deadline);
    charge_drop(&early->charge);
    free(early);
}

/* The group has ended, or the waiting time is over. */
static void try_again(void *context)
{
    struct early *early = context;
    take_out(early);
    root_try_join(early->root, early->node, early->tag, &early->join);
    early_free(early);
}

static void keep_costs(struct early *early, const Tca__PeerGroupJoin *join)
{
    struct reach_costs costs = {0};
    reach_worsen(&costs, join->n_costs, join->costs);
    reach_pack(&costs, &early->costs);
    early->join.costs = early->costs.list;
    early->join.n_costs = REACH_COUNT;
}

bool early_keep(struct root *root, uint32_t node, uint32_t tag, const Tca__PeerGroupJoin *join)
{
    struct early *early = root->early_count < EARLY_MAX ? calloc(1, sizeof(*early)) : NULL;
    struct charge charge = {0};
    char text[512];
    if (!early || charge_take(root->tcad, &charge, join->user, USER_GROUPS, sizeof(*early),
                              "a join that waits", text, sizeof(text)) < 0) {
        free(early);
        return false;
    }
    uint64_t now = clock_now_ns(), asked = group_deadline(now, join->timeout_ns);
    *early =
        (struct early){.node = node, .tag = tag, .root = root, .join = *join, .charge = charge};
    strncpy(early->name, join->name, sizeof(early->name) - 1);
    early->join.name = early->name;
    keep_costs(early, join);
    LIST_ADD(&root->early, early, next, link);
    root->early_count++;
    deadline_set(&root->deadlines, &early->deadline,
                 asked < now + GRACE_NS ? asked : now + GRACE_NS, try_again, early);
    return true;
}

void early_retry(struct root *root, const struct group *group)
{
    for (struct early *early = root->early; early; early = early->next)
        if (early->join.user == group->user && strcmp(early->name, group->name) == 0)
            deadline_set(&root->deadlines, &early->deadline, 0, try_again, early);
}

void early_drop_all(struct root *root)
{
    while (root->early)
        early_free(root->early);
}

void early_session_gone(struct root *root, uint32_t node, uint64_t session)
{
    for (struct early *early = root->early, *next; early; early = next) {
        next = early->next;
        if (early->node == node && (session == 0 || early->join.session == session))
            early_free(early); /* its own daemon fails the request */
    }
}
