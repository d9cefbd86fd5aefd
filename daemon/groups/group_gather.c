/* The root's side of gathers, which implement barriers, too. A group has one at a time, because a
 * rank cannot begin the next before this one is complete. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/groups/group_internal.h"
#include "daemon/tcad.h"

enum { GATHERED_OVERHEAD_BYTES = 4 }; /* of each blob in the message */

static bool is_missing(const struct member *member)
{
    return member->state == MEMBER_IN && !member->gathering;
}

static bool is_gone(const struct member *member)
{
    return member->state == MEMBER_GONE;
}

static void stop_gathering(struct group *group, struct member *member)
{
    member->gathering = false;
    free(member->blob);
    member->blob = NULL;
    charge_lower(&group->charge, group->blob_bytes + 1);
    group->gathering--;
}

void group_fail_gather(struct root *root, struct group *group, int error, const char *text)
{
    for (uint32_t rank = 0; rank < group->size && group->gathering > 0; rank++) {
        struct member *member = &group->members[rank];
        if (!member->gathering)
            continue;
        stop_gathering(group, member);
        peers_fail(root->tcad->peers, member->node, member->tag, error, "%s", text);
    }
}

static void gather_expires(void *context)
{
    struct group *group = context;
    struct root *root = group->root;
    const uint64_t now_ns = clock_now_ns();
    char missing[GROUP_TEXT_MAX] = "";

    for (uint32_t rank = 0; rank < group->size && group->gathering > 0; rank++) {
        struct member *member = &group->members[rank];
        if (!member->gathering)
            continue;
        if (member->deadline_ns > now_ns) {
            deadline_advance(&root->deadlines, &group->gather_deadline, member->deadline_ns,
                             gather_expires, group);
            continue;
        }
        if (!missing[0])
            group_ranks(group, is_missing, missing, sizeof missing);
        stop_gathering(group, member);
        peers_fail(root->tcad->peers, member->node, member->tag, -ETIMEDOUT,
                   "group %s, collective call %" PRIu64
                   ": %s of %u did not take part within %.3g s",
                   group->name, group->sequence, missing, group->size,
                   (double)(now_ns - member->since_ns) / 1e9);
    }
}

static void finish(struct root *root, struct group *group)
{
    ProtobufCBinaryData *blobs = calloc(group->size, sizeof *blobs);
    if (!blobs) {
        group_fail_gather(root, group, -ENOMEM, "out of memory for the gathered data");
        return;
    }
    for (uint32_t rank = 0; rank < group->size; rank++)
        blobs[rank] =
            (ProtobufCBinaryData){.len = group->blob_bytes, .data = group->members[rank].blob};

    Tca__Gathered body = BODY_OF(gathered, .n_blobs = group->size, .blobs = blobs);
    const Tca__Message message = MESSAGE_OF(GATHERED, gathered, &body);
    group_answer_all(root, group, &message);
    for (uint32_t rank = 0; rank < group->size; rank++)
        stop_gathering(group, &group->members[rank]);
    free(blobs);
}

/* Checks a call by itself. */
static int check_call(struct root *root, const struct group *group, uint32_t node,
                      const Tca__PeerGather *gather, char *text, size_t text_bytes)
{
    if (!group || !group->complete || gather->rank >= group->size ||
        group->members[gather->rank].node != node) {
        snprintf(text, text_bytes,
                 "group %.*s: node %s does not know rank %u of node %s as a member (was its tcad "
                 "restarted?)",
                 NAME_MAX_BYTES, gather->group, group_node_name(root->tcad, root->tcad->node),
                 gather->rank, group_node_name(root->tcad, node));
        return -ENOENT;
    }
    if (gather->blob.len > BLOB_MAX_BYTES) {
        snprintf(text, text_bytes,
                 "group %s: rank %u contributes %zu bytes to a gather, the limit is %d",
                 group->name, gather->rank, gather->blob.len, BLOB_MAX_BYTES);
        return -EMSGSIZE;
    }
    uint64_t answer_bytes = group->size * (gather->blob.len + GATHERED_OVERHEAD_BYTES);
    if (answer_bytes * group->most_of_a_node >
        PEER_BURST_MAX_BYTES) { /* the node would seem not to read */
        snprintf(text, text_bytes,
                 "group %s: a gather of %zu bytes per rank returns to %" PRIu32
                 " ranks of one node %" PRIu64 " bytes each, and a node accepts at most %d at a "
                 "time: gather in smaller parts, or put the data",
                 group->name, gather->blob.len, group->most_of_a_node, answer_bytes,
                 PEER_BURST_MAX_BYTES);
        return -EMSGSIZE;
    }
    if (group->members[gather->rank].gathering) {
        snprintf(text, text_bytes, "group %s: rank %u is in a collective call already", group->name,
                 gather->rank);
        return -EBUSY;
    }
    for (uint32_t rank = 0; rank < group->size; rank++) {
        const struct member *member = &group->members[rank];
        if (member->state != MEMBER_GONE)
            continue;
        char gone[GROUP_TEXT_MAX];
        group_ranks(group, is_gone, gone, sizeof gone);
        snprintf(text, text_bytes, "group %s: %s of %u ended", group->name, gone, group->size);
        return member->gone;
    }
    return 0;
}

/* Whether this call matches the others'. If not, it fails for all of them. */
static bool agrees(struct root *root, struct group *group, uint32_t node, uint32_t tag,
                   const Tca__PeerGather *gather)
{
    if (group->gathering == 0 ||
        (group->sequence == gather->sequence && group->blob_bytes == gather->blob.len))
        return true;
    char text[GROUP_TEXT_MAX];
    snprintf(text, sizeof text,
             "group %s: rank %u makes collective call %" PRIu64
             " with %zu bytes, rank %u call %" PRIu64 " with %zu bytes: all "
             "ranks must make the same calls in the same order",
             group->name, group->first, group->sequence, group->blob_bytes, gather->rank,
             gather->sequence, gather->blob.len);
    group_fail_gather(root, group, -EPROTO, text);
    peers_fail(root->tcad->peers, node, tag, -EPROTO, "%s", text);
    return false;
}

void root_gather(struct root *root, uint32_t node, uint32_t tag, const Tca__PeerGather *gather)
{
    struct group *group = root_find(root, gather->user, gather->group);
    char text[GROUP_TEXT_MAX * 2];

    int r = check_call(root, group, node, gather, text, sizeof text);
    if (r < 0) {
        peers_fail(root->tcad->peers, node, tag, r, "%s", text);
        return;
    }
    if (!agrees(root, group, node, tag, gather))
        return;
    struct member *member = &group->members[gather->rank];
    r = group_charge(root, group, gather->blob.len + 1, "a gather", text, sizeof text);
    if (r < 0) {
        peers_fail(root->tcad->peers, node, tag, r, "%s", text);
        return;
    }
    member->blob = malloc(gather->blob.len + 1);
    if (!member->blob) {
        charge_lower(&group->charge, gather->blob.len + 1);
        peers_fail(root->tcad->peers, node, tag, -ENOMEM, "out of memory for a gather");
        return;
    }
    if (gather->blob.len > 0)
        memcpy(member->blob, gather->blob.data, gather->blob.len);
    if (group->gathering == 0)
        group->first = gather->rank;
    group->sequence = gather->sequence;
    group->blob_bytes = gather->blob.len;
    group->gathering++;
    member->gathering = true;
    member->tag = tag;
    member->since_ns = clock_now_ns();
    member->deadline_ns = group_deadline(member->since_ns, gather->timeout_ns);
    if (group->gathering == group->size)
        finish(root, group);
    else
        deadline_advance(&root->deadlines, &group->gather_deadline, member->deadline_ns,
                         gather_expires, group);
}
