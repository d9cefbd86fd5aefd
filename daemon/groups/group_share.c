/* The member's side of gathers and published handles. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/groups/group_internal.h"
#include "daemon/tcad.h"
#include "proto/list.h"

/* ---- gathering ---- */

/* Who makes a call: the session as a rank of its group, or of a part of it. NULL: the request has
 * failed. *ret_alone: it is alone in its group, and the call needs nobody else. */
static struct caller *find_caller(struct session *session, uint32_t tag, uint64_t group,
                                  uint64_t sequence, bool *ret_alone)
{
    struct place *place = place_of_caller(session, tag);
    if (!place)
        return NULL;
    struct caller *caller = group ? team_find_part(place, group) : &place->caller;
    if (!caller)
        session_fail(session, tag, -ENOENT,
                     "session %" PRIu64 " has no group %" PRIu64
                     ": it was released, or belongs to others",
                     session->id, group);
    else if (sequence > GATHER_CALLS_MAX)
        session_fail(session, tag, -EINVAL, "%" PRIu64 " is not the number of a collective call",
                     sequence);
    *ret_alone = !group && place->group[0] == '\0';
    return sequence > GATHER_CALLS_MAX ? NULL : caller;
}

void group_gather(struct session *session, uint32_t tag, const Tca__Gather *gather)
{
    bool alone;
    struct caller *caller = find_caller(session, tag, gather->group, gather->sequence, &alone);
    if (!caller)
        return;
    if (gather->blob.len > BLOB_MAX_BYTES) {
        session_fail(session, tag, -EMSGSIZE,
                     "a gather has at most %d bytes per rank, this one %zu", BLOB_MAX_BYTES,
                     gather->blob.len);
        return;
    }
    if (gather->same_bytes > gather->blob.len) {
        session_fail(session, tag, -EINVAL, "a gather of %zu bytes cannot compare %" PRIu32,
                     gather->blob.len, gather->same_bytes);
        return;
    }
    if (alone) {
        Tca__Gathered body = BODY_OF(gathered, .blobs = gather->blob);
        const Tca__Message message = MESSAGE_OF(GATHERED, gathered, &body);
        session_answer(session, tag, &message, NULL, 0);
        return;
    }
    team_call(caller, CALL_GATHERS, tag, gather->sequence, gather->blob.data, gather->blob.len,
              gather->same_bytes, gather->timeout_ns);
}

void group_split(struct session *session, uint32_t tag, const Tca__GroupSplit *split)
{
    bool alone;
    struct caller *caller = find_caller(session, tag, split->group, split->sequence, &alone);
    if (!caller)
        return;
    if (alone) {
        Tca__GroupPart body = TCA__GROUP_PART__INIT;
        const Tca__Message message = MESSAGE_OF(GROUP_PART, group_part, &body);
        session_answer(session, tag, &message, NULL, 0);
        return;
    }
    team_split(caller, tag, split);
}

void group_shrink(struct session *session, uint32_t tag, const Tca__GroupShrink *shrink)
{
    bool alone;
    struct caller *caller = find_caller(session, tag, shrink->group, 0, &alone);
    if (caller && alone)
        session_fail(session, tag, -EINVAL, "a session without a group has nobody to lose");
    else if (caller)
        team_shrink(caller, tag, shrink->timeout_ns);
}

void group_release(struct session *session, uint32_t tag, const Tca__GroupRelease *release)
{
    bool alone;
    struct caller *caller = find_caller(session, tag, release->group, 0, &alone);
    if (!caller)
        return;
    if (release->group == 0)
        session_fail(session, tag, -EINVAL, "a session leaves its own group when it ends");
    else
        team_release(caller, tag);
}

/* ---- what a session has published ---- */

static struct own *own_find(const struct place *place, const char *name)
{
    for (const struct table_entry *entry = table_first(&place->names, table_text(name)); entry;
         entry = table_again(entry)) {
        struct own *own = entry->owner;
        if (strcmp(own->name, name) == 0)
            return own;
    }
    return NULL;
}

/* Records a published handle; replaces an earlier one of the same name. */
static int own_set(struct tcad *tcad, struct place *place, const char *name,
                   const uint8_t handle[HANDLE_BYTES], char *text, size_t text_bytes)
{
    struct own *own = own_find(place, name);
    if (!own) {
        int r = charge_take(tcad, &place->charge, place->user, USER_GROUPS, sizeof(*own),
                            "a published name", text, text_bytes);
        if (r < 0)
            return r;
        own = calloc(1, sizeof(*own));
        if (!own) {
            charge_lower(&place->charge, sizeof(*own));
            snprintf(text, text_bytes, "out of memory for a published handle");
            return -ENOMEM;
        }
        snprintf(own->name, sizeof(own->name), "%s", name);
        LIST_ADD(&place->published, own, next, link);
        table_add(&place->names, &own->entry, table_text(own->name), own);
    }
    memcpy(own->handle, handle, HANDLE_BYTES);
    return 0;
}

static void own_drop(struct place *place, struct own *own)
{
    LIST_REMOVE(own, next, link);
    table_remove(&place->names, &own->entry);
    charge_lower(&place->charge, sizeof(*own));
    free(own);
}

static void own_remove(struct place *place, const char *name)
{
    struct own *own = own_find(place, name);
    if (own)
        own_drop(place, own);
}

void place_drop_published(struct place *place)
{
    while (place->published)
        own_drop(place, place->published);
    table_deinit(&place->names);
}

/* ---- publishing ---- */

/* A group of one needs no root. A name to be withdrawn exists: checked. */
static int publish_alone(struct session *session, struct place *place, const Tca__Publish *publish,
                         char *text, size_t text_bytes)
{
    const uint32_t limit = session->tcad->conf->limits.published_per_group;

    if (publish->handle.len == 0) {
        own_remove(place, publish->name);
        return 0;
    }
    if (place->names.count >= limit && !own_find(place, publish->name)) {
        snprintf(text, text_bytes,
                 "%u handles are published, the limit (limits.published_per_group): withdraw some, "
                 "or raise it",
                 limit);
        return -EDQUOT;
    }
    return own_set(session->tcad, place, publish->name, publish->handle.data, text, text_bytes);
}

static int check_publish(const struct place *place, const Tca__Publish *publish, char *text,
                         size_t text_bytes)
{
    if (!group_name_valid(publish->name) ||
        (publish->handle.len != 0 && publish->handle.len != HANDLE_BYTES)) {
        snprintf(text, text_bytes,
                 "publishing needs a name of 1 to %d bytes of plain text and a handle of %d bytes",
                 NAME_MAX_BYTES - 1, HANDLE_BYTES);
        return -EINVAL;
    }
    if (publish->handle.len == 0 && !own_find(place, publish->name)) {
        snprintf(text, text_bytes, "this session has nothing published as \"%s\"", publish->name);
        return -ENOENT;
    }
    return 0;
}

/* Sends the request without waiting for a reply. */
static void withdraw(struct groups *groups, const struct place *place, const char *name)
{
    const struct team *team = place->caller.team;
    const uint32_t root = team->roster.node_at[0];
    Tca__PeerPublish body =
        BODY_OF(peer_publish, .team = team->id, .rank = place->rank, .name = (char *)name);
    const Tca__Message message = MESSAGE_OF(PEER_PUBLISH, peer_publish, &body);
    if (root == groups->tcad->node)
        team_publish(groups, root, 0, &body);
    else
        peers_tell(groups->tcad->peers, root, &message);
}

void share_published(struct request *request, struct session *session, struct place *place)
{
    char text[512];
    int r = 0;
    if (request->kind == REQUEST_WITHDRAW)
        own_remove(place, request->name);
    else
        r = own_set(session->tcad, place, request->name, request->handle, text, sizeof(text));
    if (r < 0) {
        withdraw(request->groups, place, request->name);
        session_fail(session, request->tag, r, "%s", text);
    } else {
        session_done(session, request->tag);
    }
}

void group_publish(struct session *session, uint32_t tag, const Tca__Publish *publish)
{
    char text[GROUP_TEXT_MAX * 2];
    struct place *place = place_of_caller(session, tag);
    if (!place)
        return;
    int r = check_publish(place, publish, text, sizeof(text));
    bool local = place->group[0] == '\0';
    if (r == 0 && local)
        r = publish_alone(session, place, publish, text, sizeof(text));
    if (r < 0) {
        session_fail(session, tag, r, "%s", text);
        return;
    }
    if (local) {
        session_done(session, tag);
        return;
    }
    const bool gives_up = publish->handle.len == 0;
    struct request *request =
        request_new(session, place, gives_up ? REQUEST_WITHDRAW : REQUEST_PUBLISH, tag,
                    session->tcad->conf->control.request_timeout_ns);
    if (!request)
        return;
    snprintf(request->name, sizeof(request->name), "%s", publish->name);
    if (!gives_up)
        memcpy(request->handle, publish->handle.data, HANDLE_BYTES);

    Tca__PeerPublish body =
        BODY_OF(peer_publish, .team = place->caller.team->id, .name = publish->name,
                .handle = publish->handle, .rank = place->rank);
    const Tca__Message message = MESSAGE_OF(PEER_PUBLISH, peer_publish, &body);
    request_send(request, &message);
}

/* ---- looking up ---- */

static void answer_found(struct session *session, uint32_t tag, const uint8_t handle[HANDLE_BYTES])
{
    Tca__Found body = TCA__FOUND__INIT;
    body.handle = (ProtobufCBinaryData){.len = HANDLE_BYTES, .data = (uint8_t *)handle};
    const Tca__Message message = MESSAGE_OF(FOUND, found, &body);
    session_answer(session, tag, &message, NULL, 0);
}

void group_lookup(struct session *session, uint32_t tag, const Tca__Lookup *lookup)
{
    struct place *place = place_of_caller(session, tag);
    if (!place)
        return;
    if (!group_name_valid(lookup->name)) {
        session_fail(session, tag, -EINVAL, "a published name has 1 to %d bytes of plain text",
                     NAME_MAX_BYTES - 1);
        return;
    }
    if (place->group[0] == '\0') {
        const struct own *own = own_find(place, lookup->name);
        if (own)
            answer_found(session, tag, own->handle);
        else /* nobody else could publish it */
            session_fail(session, tag, -ENOENT, "nothing is published as \"%s\"", lookup->name);
        return;
    }
    struct request *request = request_new(session, place, REQUEST_LOOKUP, tag, lookup->timeout_ns);
    if (!request)
        return;
    Tca__PeerLookup body =
        BODY_OF(peer_lookup, .team = place->caller.team->id, .name = lookup->name,
                .timeout_ns = lookup->timeout_ns, .rank = place->rank);
    const Tca__Message message = MESSAGE_OF(PEER_LOOKUP, peer_lookup, &body);
    request_send(request, &message);
}
