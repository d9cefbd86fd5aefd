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
    Tca__PeerGroupJoin join; /* points to `name`, `costs`, `barred` and `numbers` */
    struct reach_message costs;
    struct charge charge;
    char name[NAME_MAX_BYTES];
    uint32_t barred[CHOICES_MAX];
    uint64_t numbers[]; /* sessions, time-outs, ranks */
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

static void keep_barred(struct early *early, const Tca__PeerGroupJoin *join)
{
    const size_t count = join->n_barred < CHOICES_MAX ? join->n_barred : CHOICES_MAX;
    for (size_t i = 0; i < count; i++)
        early->barred[i] = join->barred[i];
    early->join.barred = early->barred;
    early->join.n_barred = count;
}

static void keep_ranks(struct early *early, const Tca__PeerGroupJoin *join)
{
    const size_t count = join->n_ranks;
    early->join.sessions = early->numbers;
    early->join.timeouts_ns = early->numbers + count;
    early->join.ranks = (uint32_t *)(early->numbers + 2 * count);
    memcpy(early->join.sessions, join->sessions, count * sizeof(*join->sessions));
    memcpy(early->join.timeouts_ns, join->timeouts_ns, count * sizeof(*join->timeouts_ns));
    memcpy(early->join.ranks, join->ranks, count * sizeof(*join->ranks));
}

/* Of the first that waits no longer. */
static uint64_t least_timeout(const Tca__PeerGroupJoin *join)
{
    uint64_t least_ns = UINT64_MAX;
    for (size_t i = 0; i < join->n_ranks; i++)
        least_ns = join->timeouts_ns[i] < least_ns ? join->timeouts_ns[i] : least_ns;
    return least_ns;
}

bool early_keep(struct root *root, uint32_t node, uint32_t tag, const Tca__PeerGroupJoin *join)
{
    const size_t bytes =
        sizeof(struct early) + join->n_ranks * (2 * sizeof(uint64_t) + sizeof(uint32_t));
    struct early *early = root->early_count < EARLY_MAX ? calloc(1, bytes) : NULL;
    struct charge charge = {0};
    char text[512];
    if (!early || charge_take(root->tcad, &charge, join->user, USER_GROUPS, bytes,
                              "a join that waits", text, sizeof(text)) < 0) {
        free(early);
        return false;
    }
    uint64_t now = clock_now_ns(), asked = group_deadline(now, least_timeout(join));
    early->node = node;
    early->tag = tag;
    early->root = root;
    early->join = *join;
    early->charge = charge;
    strncpy(early->name, join->name, sizeof(early->name) - 1);
    early->join.name = early->name;
    keep_barred(early, join);
    keep_costs(early, join);
    keep_ranks(early, join);
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

static void lose_session(Tca__PeerGroupJoin *join, uint64_t session)
{
    size_t kept = 0;
    for (size_t i = 0; i < join->n_ranks; i++) {
        if (join->sessions[i] == session)
            continue;
        join->sessions[kept] = join->sessions[i];
        join->timeouts_ns[kept] = join->timeouts_ns[i];
        join->ranks[kept++] = join->ranks[i];
    }
    join->n_ranks = join->n_sessions = join->n_timeouts_ns = kept;
}

void early_session_gone(struct root *root, uint32_t node, uint64_t session)
{
    for (struct early *early = root->early, *next; early; early = next) {
        next = early->next;
        if (early->node == node && session != 0)
            lose_session(&early->join, session);
        if (early->node == node && (session == 0 || early->join.n_ranks == 0))
            early_free(early); /* its own daemon fails the request */
    }
}
