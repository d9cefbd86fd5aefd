/*
 * Joins that come too early: a group of that name is there, complete, and perhaps about to end (a
 * job started again right after it was killed). They wait a moment for that before they are
 * refused.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/groups/group_internal.h"

#define GRACE_NS 2000000000ull

enum { EARLY_MAX = GROUP_SIZE_MAX };

struct early {
    struct early *next;
    uint32_t node, tag;
    uint64_t deadline_ns;
    Tca__PeerGroupJoin join;
    struct charge charge;
    char name[NAME_MAX_BYTES];
};

static void early_free(struct early *early)
{
    charge_drop(&early->charge);
    free(early);
}

bool early_keep(struct root *root, uint32_t node, uint32_t tag, const Tca__PeerGroupJoin *join)
{
    struct early **at = &root->early;
    unsigned count = 0;
    for (; *at; at = &(*at)->next)
        count++;
    struct early *early = count < EARLY_MAX ? calloc(1, sizeof *early) : NULL;
    struct charge charge = {0};
    char text[512];
    if (!early || charge_take(root->tcad, &charge, join->user, USER_GROUPS, sizeof *early,
                              "a join that waits", text, sizeof text) < 0) {
        free(early);
        return false;
    }
    uint64_t now = group_now_ns(), asked = group_deadline(now, join->timeout_ns);
    *early = (struct early){.node = node,
                            .tag = tag,
                            .deadline_ns = asked < now + GRACE_NS ? asked : now + GRACE_NS,
                            .join = *join,
                            .charge = charge};
    strncpy(early->name, join->name, sizeof early->name - 1);
    early->join.name = early->name;
    *at = early;
    root_wait(root);
    return true;
}

bool early_retry(struct root *root, uint64_t now_ns)
{
    struct early **at = &root->early;
    while (*at) {
        struct early *early = *at;
        const struct group *group = root_find(root, early->join.user, early->name);
        bool late = early->deadline_ns <= now_ns;
        if (group && group->complete && !late) {
            at = &early->next;
            continue;
        }
        *at = early->next;
        root_try_join(root, early->node, early->tag, &early->join);
        early_free(early);
    }
    return root->early != NULL;
}

void early_session_gone(struct root *root, uint32_t node, uint64_t session)
{
    for (struct early **at = &root->early; *at;) {
        struct early *early = *at;
        if (early->node != node || (session != 0 && early->join.session != session)) {
            at = &early->next;
            continue;
        }
        *at = early->next; /* its daemon fails the request by itself */
        early_free(early);
    }
}
