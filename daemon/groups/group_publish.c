/* The root's side of published handles. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/groups/group_internal.h"
#include "daemon/tcad.h"
#include "proto/list.h"

enum { LOOKUPS_MAX = 4 * GROUP_SIZE_MAX }; /* pending in one group */

static struct published *find(const struct group *group, const char *name)
{
    for (const struct table_entry *entry = table_first(&group->names, table_text(name)); entry;
         entry = table_again(entry)) {
        struct published *published = entry->owner;
        if (strcmp(published->name, name) == 0)
            return published;
    }
    return NULL;
}

static void drop(struct group *group, struct published *published)
{
    LIST_REMOVE(published, next, link);
    table_remove(&group->names, &published->entry);
    charge_lower(&group->charge, sizeof(*published));
    free(published);
}

static void drop_lookup(struct group *group, struct lookup *lookup)
{
    deadline_clear(&group->root->deadlines, &lookup->deadline);
    LIST_REMOVE(lookup, next, link);
    table_remove(&group->sought, &lookup->entry);
    charge_lower(&group->charge, sizeof(*lookup));
    free(lookup);
}

/* Finds the group and checks that the rank is a member on that node and that the name is valid;
 * otherwise fails the request and returns NULL. */
static struct group *check(struct root *root, uint32_t node, uint32_t tag, uint32_t user,
                           const char *group_name, uint32_t rank, const char *name)
{
    struct peers *peers = root->tcad->peers;
    struct group *group = root_find(root, user, group_name);

    if (!group || !group->complete || rank >= group->size || group->members[rank].node != node ||
        group->members[rank].state != MEMBER_IN) {
        peers_fail(peers, node, tag, -ENOENT,
                   "group %.*s: node %s does not know rank %u of node %s as a member (was its tcad "
                   "restarted?)",
                   NAME_MAX_BYTES, group_name, group_node_name(root->tcad, root->tcad->node), rank,
                   group_node_name(root->tcad, node));
        return NULL;
    }
    if (!group_name_valid(name)) {
        peers_fail(peers, node, tag, -EINVAL,
                   "a published name has 1 to %d bytes of plain text, this one %zu",
                   NAME_MAX_BYTES - 1, strlen(name));
        return NULL;
    }
    return group;
}

/* ---- publishing ---- */

static void answer_found(struct root *root, uint32_t node, uint32_t tag,
                         const struct published *published)
{
    Tca__Found body = TCA__FOUND__INIT;
    body.handle = (ProtobufCBinaryData){.len = HANDLE_BYTES, .data = (uint8_t *)published->handle};
    const Tca__Message message = MESSAGE_OF(FOUND, found, &body);
    peers_reply(root->tcad->peers, node, tag, &message);
}

static int withdraw(struct root *root, struct group *group, const Tca__PeerPublish *publish,
                    char *text, size_t text_bytes)
{
    struct published *published = find(group, publish->name);
    char who[160];
    if (!published) {
        snprintf(text, text_bytes, "group %s has nothing published as \"%s\"", group->name,
                 publish->name);
        return -ENOENT;
    }
    if (published->rank != publish->rank) {
        group_who(root, group, published->rank, who, sizeof(who));
        snprintf(text, text_bytes, "\"%s\" was published by %s: only it can withdraw it",
                 publish->name, who);
        return -EPERM;
    }
    drop(group, published);
    return 0;
}

static int add(struct root *root, struct group *group, const Tca__PeerPublish *publish, char *text,
               size_t text_bytes)
{
    const uint32_t limit = root->tcad->conf->limits.published_per_group;
    struct published *published = find(group, publish->name);
    char who[160];

    if (published && published->rank == publish->rank) {
        memcpy(published->handle, publish->handle.data, HANDLE_BYTES);
        return 0;
    }
    if (published) {
        group_who(root, group, published->rank, who, sizeof(who));
        snprintf(text, text_bytes,
                 "group %s has \"%s\" published by %s already: withdraw it, or choose another name",
                 group->name, publish->name, who);
        return -EEXIST;
    }
    if (group->names.count >= limit) {
        snprintf(text, text_bytes,
                 "group %s has %u handles published, the limit (limits.published_per_group): "
                 "withdraw some, or "
                 "raise it",
                 group->name, limit);
        return -EDQUOT;
    }
    int r = group_charge(root, group, sizeof(*published), "a published name", text, text_bytes);
    if (r < 0)
        return r;
    published = calloc(1, sizeof(*published));
    if (!published) {
        charge_lower(&group->charge, sizeof(*published));
        snprintf(text, text_bytes, "out of memory for a published handle");
        return -ENOMEM;
    }
    published->rank = publish->rank;
    strcpy(published->name, publish->name); /* fits: checked */
    memcpy(published->handle, publish->handle.data, HANDLE_BYTES);
    LIST_ADD(&group->members[publish->rank].published, published, next, link);
    table_add(&group->names, &published->entry, table_text(published->name), published);
    return 0;
}

static struct lookup *find_lookup(const struct group *group, const char *name)
{
    for (const struct table_entry *entry = table_first(&group->sought, table_text(name)); entry;
         entry = table_again(entry)) {
        struct lookup *lookup = entry->owner;
        if (strcmp(lookup->name, name) == 0)
            return lookup;
    }
    return NULL;
}

/* Replies to the lookups that wait for this name. */
static void serve_lookups(struct root *root, struct group *group, const char *name)
{
    const struct published *published = find(group, name);
    struct lookup *lookup;
    while (published && (lookup = find_lookup(group, name))) {
        answer_found(root, group->members[lookup->rank].node, lookup->tag, published);
        drop_lookup(group, lookup);
    }
}

void root_publish(struct root *root, uint32_t node, uint32_t tag, const Tca__PeerPublish *publish)
{
    char text[GROUP_TEXT_MAX * 2];
    struct group *group =
        check(root, node, tag, publish->user, publish->group, publish->rank, publish->name);
    if (!group)
        return;

    int r;
    if (publish->handle.len == 0) {
        r = withdraw(root, group, publish, text, sizeof(text));
    } else if (publish->handle.len == HANDLE_BYTES) {
        r = add(root, group, publish, text, sizeof(text));
    } else {
        snprintf(text, sizeof(text), "a handle has %d bytes, not %zu", HANDLE_BYTES,
                 publish->handle.len);
        r = -EINVAL;
    }
    if (r < 0) {
        peers_fail(root->tcad->peers, node, tag, r, "%s", text);
        return;
    }
    peers_done(root->tcad->peers, node, tag);
    serve_lookups(root, group, publish->name);
}

/* ---- looking up ---- */

static void lookup_expires(void *context)
{
    struct lookup *lookup = context;
    struct group *group = lookup->group;
    peers_fail(group->root->tcad->peers, group->members[lookup->rank].node, lookup->tag, -ETIMEDOUT,
               "group %s: no session has published \"%s\" within %.3g s", group->name, lookup->name,
               (double)(clock_now_ns() - lookup->since_ns) / 1e9);
    drop_lookup(group, lookup);
}

void root_lookup(struct root *root, uint32_t node, uint32_t tag, const Tca__PeerLookup *request)
{
    struct peers *peers = root->tcad->peers;
    struct group *group =
        check(root, node, tag, request->user, request->group, request->rank, request->name);
    if (!group)
        return;
    const struct published *published = find(group, request->name);
    if (published) {
        answer_found(root, node, tag, published);
        return;
    }
    if (request->timeout_ns == 0) {
        peers_fail(peers, node, tag, -ENOENT, "group %s has nothing published as \"%s\"",
                   group->name, request->name);
        return;
    }
    char text[512];
    int r = group_charge(root, group, sizeof(struct lookup), "a lookup", text, sizeof(text));
    if (r < 0) {
        peers_fail(peers, node, tag, r, "%s", text);
        return;
    }
    struct lookup *lookup = group->sought.count < LOOKUPS_MAX ? calloc(1, sizeof(*lookup)) : NULL;
    if (!lookup) {
        charge_lower(&group->charge, sizeof(*lookup));
        peers_fail(peers, node, tag, -ENOMEM,
                   "group %s: no room for another lookup; %zu are waiting", group->name,
                   group->sought.count);
        return;
    }
    lookup->group = group;
    lookup->rank = request->rank;
    lookup->tag = tag;
    lookup->since_ns = clock_now_ns();
    strcpy(lookup->name, request->name); /* fits: checked */
    LIST_ADD(&group->lookups, lookup, next, link);
    table_add(&group->sought, &lookup->entry, table_text(lookup->name), lookup);
    deadline_set(&root->deadlines, &lookup->deadline,
                 group_deadline(lookup->since_ns, request->timeout_ns), lookup_expires, lookup);
}

/* ---- ranks and groups end ---- */

static void drop_published(struct group *group, uint32_t rank)
{
    while (group->members[rank].published)
        drop(group, group->members[rank].published);
}

void group_drop_rank(struct group *group, uint32_t rank)
{
    drop_published(group, rank);
    for (struct lookup *lookup = group->lookups, *next; lookup; lookup = next) {
        next = lookup->next;
        if (lookup->rank == rank)
            drop_lookup(group, lookup); /* nobody waits for the reply */
    }
}

void group_drop_all(struct group *group)
{
    for (uint32_t rank = 0; rank < group->size; rank++)
        drop_published(group, rank);
    while (group->lookups)
        drop_lookup(group, group->lookups); /* their sessions have all ended */
    table_deinit(&group->names);
    table_deinit(&group->sought);
}
