/* The root's side of published handles. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/groups/group_internal.h"
#include "daemon/tcad.h"

enum { LOOKUPS_MAX = 4 * GROUP_SIZE_MAX }; /* that wait in one group */

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
    *published->link = published->next;
    if (published->next)
        published->next->link = published->link;
    table_remove(&group->names, &published->entry);
    group->published_count--;
    charge_lower(&group->charge, sizeof *published);
    free(published);
}

/* The group, when this node has a member in it and the name is one; else the question is failed. */
static struct group *check(struct root *root, uint32_t node, uint32_t tag, uint32_t user,
                           const char *group_name, const char *name)
{
    struct peers *peers = root->tcad->peers;
    struct group *group = root_find(root, user, group_name);
    bool member = false;

    for (uint32_t rank = 0; group && group->complete && rank < group->size && !member; rank++)
        member = group->members[rank].node == node && group->members[rank].state == MEMBER_IN;
    if (!member) {
        peers_fail(
            peers, node, tag, -ENOENT,
            "group %.*s: node %s knows no member of it at node %s; has it been restarted since?",
            NAME_MAX_BYTES, group_name, group_node_name(root->tcad, root->tcad->node),
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
    Tca__Message message = TCA__MESSAGE__INIT;
    message.body_case = TCA__MESSAGE__BODY_FOUND;
    message.found = &body;
    peers_answer(root->tcad->peers, node, tag, &message);
}

static void answer_done(struct root *root, uint32_t node, uint32_t tag)
{
    Tca__Done body = TCA__DONE__INIT;
    Tca__Message message = TCA__MESSAGE__INIT;
    message.body_case = TCA__MESSAGE__BODY_DONE;
    message.done = &body;
    peers_answer(root->tcad->peers, node, tag, &message);
}

static int withdraw(struct root *root, struct group *group, uint32_t node, const char *name,
                    char *text, size_t text_bytes)
{
    struct published *published = find(group, name);
    if (!published) {
        snprintf(text, text_bytes, "group %s has nothing published as \"%s\"", group->name, name);
        return -ENOENT;
    }
    if (published->node != node) {
        snprintf(text, text_bytes, "\"%s\" was published by node %s: only it can withdraw it", name,
                 group_node_name(root->tcad, published->node));
        return -EPERM;
    }
    drop(group, published);
    return 0;
}

static int add(struct root *root, struct group *group, uint32_t node,
               const Tca__PeerPublish *publish, char *text, size_t text_bytes)
{
    const uint32_t limit = root->tcad->conf->limits.published_per_group;
    struct published *published = find(group, publish->name);

    if (published && publish->replace && published->node == node) {
        memcpy(published->handle, publish->handle.data, HANDLE_BYTES);
        return 0;
    }
    if (published) {
        snprintf(
            text, text_bytes,
            "group %s has \"%s\" published by node %s already: withdraw it, or take another name",
            group->name, publish->name, group_node_name(root->tcad, published->node));
        return -EEXIST;
    }
    if (group->published_count >= limit) {
        snprintf(text, text_bytes,
                 "group %s has %u handles published, the limit (limits.published_per_group): "
                 "withdraw some, or "
                 "raise it",
                 group->name, limit);
        return -EDQUOT;
    }
    int r = group_charge(root, group, sizeof *published, "a published name", text, text_bytes);
    if (r < 0)
        return r;
    published = calloc(1, sizeof *published);
    if (!published) {
        charge_lower(&group->charge, sizeof *published);
        snprintf(text, text_bytes, "no memory for a published handle");
        return -ENOMEM;
    }
    published->node = node;
    strcpy(published->name, publish->name); /* was checked to fit */
    memcpy(published->handle, publish->handle.data, HANDLE_BYTES);
    published->next = group->published;
    published->link = &group->published;
    if (published->next)
        published->next->link = &published->next;
    group->published = published;
    table_add(&group->names, &published->entry, table_text(published->name), published);
    group->published_count++;
    return 0;
}

/* Whoever has waited for this name. */
static void serve_lookups(struct root *root, struct group *group, const char *name)
{
    const struct published *published = find(group, name);

    for (struct lookup **at = &group->lookups; published && *at;) {
        struct lookup *lookup = *at;
        if (strcmp(lookup->name, name) != 0) {
            at = &lookup->next;
            continue;
        }
        *at = lookup->next;
        group->lookup_count--;
        charge_lower(&group->charge, sizeof *lookup);
        answer_found(root, lookup->node, lookup->tag, published);
        free(lookup);
    }
}

void root_publish(struct root *root, uint32_t node, uint32_t tag, const Tca__PeerPublish *publish)
{
    char text[GROUP_TEXT_MAX * 2];
    struct group *group = check(root, node, tag, publish->user, publish->group, publish->name);
    if (!group)
        return;

    int r;
    if (publish->handle.len == 0) {
        r = withdraw(root, group, node, publish->name, text, sizeof text);
    } else if (publish->handle.len == HANDLE_BYTES) {
        r = add(root, group, node, publish, text, sizeof text);
    } else {
        snprintf(text, sizeof text, "a handle has %d bytes, not %zu", HANDLE_BYTES,
                 publish->handle.len);
        r = -EINVAL;
    }
    if (r < 0) {
        peers_fail(root->tcad->peers, node, tag, r, "%s", text);
        return;
    }
    answer_done(root, node, tag);
    serve_lookups(root, group, publish->name);
}

/* ---- looking up ---- */

void root_lookup(struct root *root, uint32_t node, uint32_t tag, const Tca__PeerLookup *question)
{
    struct peers *peers = root->tcad->peers;
    struct group *group = check(root, node, tag, question->user, question->group, question->name);
    if (!group)
        return;
    const struct published *published = find(group, question->name);
    if (published) {
        answer_found(root, node, tag, published);
        return;
    }
    if (question->timeout_ns == 0) {
        peers_fail(peers, node, tag, -ENOENT, "group %s has nothing published as \"%s\"",
                   group->name, question->name);
        return;
    }
    char text[512];
    int r = group_charge(root, group, sizeof(struct lookup), "a lookup", text, sizeof text);
    if (r < 0) {
        peers_fail(peers, node, tag, r, "%s", text);
        return;
    }
    struct lookup *lookup = group->lookup_count < LOOKUPS_MAX ? calloc(1, sizeof *lookup) : NULL;
    if (!lookup) {
        charge_lower(&group->charge, sizeof *lookup);
        peers_fail(peers, node, tag, -ENOMEM, "group %s: no room for a lookup beside %u that wait",
                   group->name, group->lookup_count);
        return;
    }
    lookup->node = node;
    lookup->tag = tag;
    lookup->since_ns = group_now_ns();
    lookup->deadline_ns = group_deadline(lookup->since_ns, question->timeout_ns);
    strcpy(lookup->name, question->name); /* was checked to fit */
    lookup->next = group->lookups;
    group->lookups = lookup;
    group->lookup_count++;
    root_wait(root);
}

bool group_lookups_expire(struct root *root, struct group *group, uint64_t now_ns)
{
    for (struct lookup **at = &group->lookups; *at;) {
        struct lookup *lookup = *at;
        if (lookup->deadline_ns > now_ns) {
            at = &lookup->next;
            continue;
        }
        *at = lookup->next;
        group->lookup_count--;
        charge_lower(&group->charge, sizeof *lookup);
        peers_fail(root->tcad->peers, lookup->node, lookup->tag, -ETIMEDOUT,
                   "group %s: nobody has published \"%s\" within %.3g s", group->name, lookup->name,
                   (double)(now_ns - lookup->since_ns) / 1e9);
        free(lookup);
    }
    return group->lookups != NULL;
}

/* ---- ends ---- */

void group_drop_node(struct group *group, uint32_t node)
{
    for (struct published *published = group->published, *next; published; published = next) {
        next = published->next;
        if (published->node == node)
            drop(group, published);
    }
    for (struct lookup **at = &group->lookups; *at;) {
        struct lookup *lookup = *at;
        if (lookup->node != node) {
            at = &lookup->next;
            continue;
        }
        *at = lookup->next;
        group->lookup_count--;
        charge_lower(&group->charge, sizeof *lookup);
        free(lookup); /* nobody is there to hear */
    }
}

void group_drop_all(struct group *group)
{
    while (group->published)
        drop(group, group->published);
    table_deinit(&group->names);
    while (group->lookups)
        group_drop_node(group, group->lookups->node); /* their sessions have all gone */
}
