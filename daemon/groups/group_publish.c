/* Published handles, at the root of the tree of the group's nodes. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/groups/group_internal.h"
#include "daemon/tcad.h"
#include "proto/list.h"

enum { LOOKUPS_MAX = 4 * GROUP_SIZE_MAX }; /* pending in one group */

static struct published *find(const struct board *board, const char *name)
{
    for (const struct table_entry *entry = table_first(&board->names, table_text(name)); entry;
         entry = table_again(entry)) {
        struct published *published = entry->owner;
        if (strcmp(published->name, name) == 0)
            return published;
    }
    return NULL;
}

static void drop(struct team *team, struct published *published)
{
    LIST_REMOVE(published, next, link);
    table_remove(&team->board.names, &published->entry);
    charge_lower(&team->charge, sizeof(*published));
    free(published);
}

static void drop_lookup(struct lookup *lookup)
{
    struct team *team = lookup->team;
    deadline_clear(&team->groups->deadlines, &lookup->deadline);
    LIST_REMOVE(lookup, next, link);
    table_remove(&team->board.sought, &lookup->entry);
    charge_lower(&team->charge, sizeof(*lookup));
    free(lookup);
}

static uint32_t node_of(const struct team *team, uint32_t rank)
{
    return team->roster.node_at[team->roster.positions[rank]];
}

static void write_who(const struct team *team, uint32_t rank, char *text, size_t text_bytes)
{
    snprintf(text, text_bytes, "rank %" PRIu32 " (session %" PRIu64 " of node %s)", rank,
             team->members->list[rank].session,
             group_node_name(team->groups->tcad, node_of(team, rank)));
}

/* Finds the group and checks that the rank is a member on that node and that the name is valid;
 * otherwise fails the request and returns NULL. */
static struct team *check(struct groups *groups, uint32_t node, uint32_t tag, uint64_t id,
                          uint32_t rank, const char *name)
{
    struct tcad *tcad = groups->tcad;
    struct team *team = table_find(&groups->teams, id);
    bool down;

    if (!team || team->whole || team->position > 0 || rank >= team->roster.size ||
        node_of(team, rank) != node || ends_know(&team->ends, rank, &down)) {
        peers_fail(tcad->peers, node, tag, -ENOENT,
                   "node %s does not know rank %u of node %s as a member of its group (was its "
                   "tcad restarted?)",
                   group_node_name(tcad, tcad->node), rank, group_node_name(tcad, node));
        return NULL;
    }
    if (!group_name_valid(name)) {
        peers_fail(tcad->peers, node, tag, -EINVAL,
                   "a published name has 1 to %d bytes of plain text, this one %zu",
                   NAME_MAX_BYTES - 1, strlen(name));
        return NULL;
    }
    return team;
}

/* ---- publishing ---- */

static void answer_found(struct tcad *tcad, uint32_t node, uint32_t tag,
                         const struct published *published)
{
    Tca__Found body = TCA__FOUND__INIT;
    body.handle = (ProtobufCBinaryData){.len = HANDLE_BYTES, .data = (uint8_t *)published->handle};
    const Tca__Message message = MESSAGE_OF(FOUND, found, &body);
    peers_reply(tcad->peers, node, tag, &message);
}

static int withdraw(struct team *team, const Tca__PeerPublish *publish, char *text,
                    size_t text_bytes)
{
    struct published *published = find(&team->board, publish->name);
    char who[160];
    if (!published) {
        snprintf(text, text_bytes, "group %s has nothing published as \"%s\"", team->name,
                 publish->name);
        return -ENOENT;
    }
    if (published->rank != publish->rank) {
        write_who(team, published->rank, who, sizeof(who));
        snprintf(text, text_bytes, "\"%s\" was published by %s: only it can withdraw it",
                 publish->name, who);
        return -EPERM;
    }
    drop(team, published);
    return 0;
}

static int add(struct team *team, const Tca__PeerPublish *publish, char *text, size_t text_bytes)
{
    const uint32_t limit = team->groups->tcad->conf->limits.published_per_group;
    struct published *published = find(&team->board, publish->name);
    char who[160];

    if (published && published->rank == publish->rank) {
        memcpy(published->handle, publish->handle.data, HANDLE_BYTES);
        return 0;
    }
    if (published) {
        write_who(team, published->rank, who, sizeof(who));
        snprintf(text, text_bytes,
                 "group %s has \"%s\" published by %s already: withdraw it, or choose another name",
                 team->name, publish->name, who);
        return -EEXIST;
    }
    if (team->board.names.count >= limit) {
        snprintf(text, text_bytes,
                 "group %s has %u handles published, the limit (limits.published_per_group): "
                 "withdraw some, or "
                 "raise it",
                 team->name, limit);
        return -EDQUOT;
    }
    int r = charge_take(team->groups->tcad, &team->charge, team->user, USER_GROUPS,
                        sizeof(*published), "a published name", text, text_bytes);
    if (r < 0)
        return r;
    published = calloc(1, sizeof(*published));
    if (!published) {
        charge_lower(&team->charge, sizeof(*published));
        snprintf(text, text_bytes, "out of memory for a published handle");
        return -ENOMEM;
    }
    published->rank = publish->rank;
    strcpy(published->name, publish->name); /* fits: checked */
    memcpy(published->handle, publish->handle.data, HANDLE_BYTES);
    LIST_ADD(&team->board.published, published, next, link);
    table_add(&team->board.names, &published->entry, table_text(published->name), published);
    return 0;
}

static struct lookup *find_lookup(const struct board *board, const char *name)
{
    for (const struct table_entry *entry = table_first(&board->sought, table_text(name)); entry;
         entry = table_again(entry)) {
        struct lookup *lookup = entry->owner;
        if (strcmp(lookup->name, name) == 0)
            return lookup;
    }
    return NULL;
}

/* Replies to the lookups that wait for this name. */
static void serve_lookups(struct team *team, const char *name)
{
    const struct published *published = find(&team->board, name);
    struct lookup *lookup;
    while (published && (lookup = find_lookup(&team->board, name))) {
        answer_found(team->groups->tcad, node_of(team, lookup->rank), lookup->tag, published);
        drop_lookup(lookup);
    }
}

void team_publish(struct groups *groups, uint32_t node, uint32_t tag,
                  const Tca__PeerPublish *publish)
{
    char text[GROUP_TEXT_MAX * 2];
    struct peers *peers = groups->tcad->peers;
    struct team *team = check(groups, node, tag, publish->team, publish->rank, publish->name);
    if (!team)
        return;

    int r;
    if (publish->handle.len == 0) {
        r = withdraw(team, publish, text, sizeof(text));
    } else if (publish->handle.len == HANDLE_BYTES) {
        r = add(team, publish, text, sizeof(text));
    } else {
        snprintf(text, sizeof(text), "a handle has %d bytes, not %zu", HANDLE_BYTES,
                 publish->handle.len);
        r = -EINVAL;
    }
    if (r < 0) {
        peers_fail(peers, node, tag, r, "%s", text);
        return;
    }
    peers_done(peers, node, tag);
    serve_lookups(team, publish->name);
}

/* ---- looking up ---- */

static void lookup_expires(void *context)
{
    struct lookup *lookup = context;
    const struct team *team = lookup->team;
    peers_fail(team->groups->tcad->peers, node_of(team, lookup->rank), lookup->tag, -ETIMEDOUT,
               "group %s: no session has published \"%s\" within %.3g s", team->name, lookup->name,
               (double)(clock_now_ns() - lookup->since_ns) / 1e9);
    drop_lookup(lookup);
}

void team_lookup(struct groups *groups, uint32_t node, uint32_t tag, const Tca__PeerLookup *request)
{
    struct peers *peers = groups->tcad->peers;
    struct team *team = check(groups, node, tag, request->team, request->rank, request->name);
    if (!team)
        return;
    const struct published *published = find(&team->board, request->name);
    if (published) {
        answer_found(groups->tcad, node, tag, published);
        return;
    }
    if (request->timeout_ns == 0) {
        peers_fail(peers, node, tag, -ENOENT, "group %s has nothing published as \"%s\"",
                   team->name, request->name);
        return;
    }
    char text[512];
    int r = charge_take(groups->tcad, &team->charge, team->user, USER_GROUPS, sizeof(struct lookup),
                        "a lookup", text, sizeof(text));
    if (r < 0) {
        peers_fail(peers, node, tag, r, "%s", text);
        return;
    }
    struct lookup *lookup =
        team->board.sought.count < LOOKUPS_MAX ? calloc(1, sizeof(*lookup)) : NULL;
    if (!lookup) {
        charge_lower(&team->charge, sizeof(*lookup));
        peers_fail(peers, node, tag, -ENOMEM,
                   "group %s: no room for another lookup; %zu are waiting", team->name,
                   team->board.sought.count);
        return;
    }
    lookup->team = team;
    lookup->rank = request->rank;
    lookup->tag = tag;
    lookup->since_ns = clock_now_ns();
    strcpy(lookup->name, request->name); /* fits: checked */
    LIST_ADD(&team->board.lookups, lookup, next, link);
    table_add(&team->board.sought, &lookup->entry, table_text(lookup->name), lookup);
    deadline_set(&groups->deadlines, &lookup->deadline,
                 group_deadline(lookup->since_ns, request->timeout_ns), lookup_expires, lookup);
}

/* ---- ranks and groups end ---- */

void board_ranks_ended(struct team *team)
{
    bool down;
    for (struct published *published = team->board.published, *next; published; published = next) {
        next = published->next;
        if (ends_know(&team->ends, published->rank, &down))
            drop(team, published);
    }
    for (struct lookup *lookup = team->board.lookups, *next; lookup; lookup = next) {
        next = lookup->next;
        if (ends_know(&team->ends, lookup->rank, &down))
            drop_lookup(lookup); /* nobody waits for the reply */
    }
}

void board_deinit(struct team *team)
{
    while (team->board.published)
        drop(team, team->board.published);
    while (team->board.lookups)
        drop_lookup(team->board.lookups);
    table_deinit(&team->board.names);
    table_deinit(&team->board.sought);
}
