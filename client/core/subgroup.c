#include "client/core/subgroup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "client/core/error.h"
#include "client/core/session.h"
#include "client/core/wait.h"
#include "proto/frame_memfd.h"
#include "proto/limits.h"

/* ---- making and releasing ---- */

/* Whether the ranks are evenly spaced, in ascending order. */
static bool are_even(const uint32_t *ranks, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (ranks[i] <= ranks[i - 1] || ranks[i] - ranks[i - 1] != ranks[1] - ranks[0])
            return false;
    return true;
}

static int set_ranks(struct tca_group *group, const uint32_t *ranks, size_t count)
{
    const struct tca *session = group->session;
    size_t own = count;

    for (size_t i = 0; i < count; i++) {
        if (ranks[i] >= session->identity.size)
            return error_set(-EPROTO, "tcad named rank %u of a group of %u", ranks[i],
                             session->identity.size);
        if (ranks[i] == session->identity.rank)
            own = i;
    }
    if (own == count || count > session->identity.size)
        return error_set(-EPROTO, "tcad named %zu ranks of a group that this one is not in", count);
    group->size = (uint32_t)count;
    group->rank = (uint32_t)own;
    group->first = ranks[0];
    group->stride = count > 1 ? ranks[1] - ranks[0] : 1;
    if (are_even(ranks, count))
        return 0;
    group->ranks = malloc(count * sizeof(*ranks));
    if (!group->ranks)
        return error_static(-ENOMEM, "out of memory");
    memcpy(group->ranks, ranks, count * sizeof(*ranks));
    return 0;
}

/* This rank makes no further calls of the group. */
static void release(struct tca *session, uint64_t id)
{
    Tca__GroupRelease body = TCA__GROUP_RELEASE__INIT;
    const Tca__Message request = REQUEST(GROUP_RELEASE, group_release, &body);

    body.group = id;
    standby_enter(session->standby);
    control_post(&session->control, &request, session_end(session));
    standby_leave(session->standby);
}

static void forget(struct tca_group *group)
{
    struct tca *session = group->session;

    if (group->previous)
        group->previous->next = group->next;
    else
        session->groups = group->next;
    if (group->next)
        group->next->previous = group->previous;
    free(group->ranks);
    free(group);
}

static int make(struct tca *session, const Tca__GroupPart *part, struct tca_group **ret_group)
{
    const uint32_t *ranks = part->ranks;
    size_t count = part->n_ranks;
    struct tca_group *group = calloc(1, sizeof(*group));

    if (part->group == 0) {
        ranks = &session->identity.rank;
        count = 1;
    }
    int r = error_static(-ENOMEM, "out of memory");
    if (group) {
        group->session = session;
        r = set_ranks(group, ranks, count);
    }
    if (r < 0) {
        free(group);
        if (part->group != 0)
            release(session, part->group);
        return r;
    }
    group->id = part->group;
    group->uses = 1;
    group->next = session->groups;
    if (group->next)
        group->next->previous = group;
    session->groups = group;
    *ret_group = group;
    return 0;
}

struct tca_group *group_use(struct tca_group *group)
{
    if (group)
        group->uses++;
    return group;
}

bool group_keep(struct tca_group *group, unsigned uses)
{
    if (!group)
        return true;
    if (group->uses <= uses)
        return false;
    group->uses -= uses;
    return true;
}

void group_unkeep(struct tca_group *group, unsigned uses)
{
    if (group)
        group->uses += uses;
}

uint64_t group_calls(const struct tca *session, const struct tca_group *group)
{
    return group ? group->collectives : session->collectives;
}

struct tca_group *group_unuse(struct tca_group *group)
{
    if (!group || --group->uses > 0)
        return NULL;
    struct session_keeper *keeper = group->session->keeper;
    group->uses = 1; /* while that makes its uses known, and ends them */
    if (keeper)
        keeper->drop(keeper, group);
    if (--group->uses > 0) /* by what cannot be ended before the session is closed */
        return NULL;
    if (group->id != 0)
        release(group->session, group->id);
    forget(group);
    return NULL;
}

struct tca_group *tca_group_free(struct tca_group *group)
{
    return group_unuse(group);
}

void groups_end(struct tca *session)
{
    while (session->groups)
        forget(session->groups);
}

static int check_session(const struct tca *session, const struct tca_group *group)
{
    if (!group || group->session == session)
        return 0;
    return error_static(-EINVAL, "the group belongs to another session");
}

int tca_group_split(struct tca *session, struct tca_group *parent, uint32_t colour, int32_t key,
                    int64_t timeout_ns, struct tca_group **ret_group)
{
    struct reply reply;
    Tca__GroupPart alone = TCA__GROUP_PART__INIT;
    Tca__GroupSplit body = TCA__GROUP_SPLIT__INIT;
    const Tca__Message request = REQUEST(GROUP_SPLIT, group_split, &body);
    uint64_t *collectives = parent ? &parent->collectives : &session->collectives;
    struct tca_group *group = NULL;

    int r = check_session(session, parent);
    if (r >= 0)
        r = session_timeout(session, timeout_ns, &timeout_ns);
    if (r < 0)
        return r;
    if (group_size(session, parent) == 1) {
        r = colour == TCA_GROUP_NONE ? 0 : make(session, &alone, &group);
    } else {
        body.group = parent ? parent->id : 0;
        body.sequence = *collectives;
        body.colour = colour;
        body.key = key;
        body.timeout_ns = session_wire_timeout(timeout_ns);
        r = session_request_timed(session, &request, TCA__MESSAGE__BODY_GROUP_PART, timeout_ns,
                                  &reply);
        if (r < 0)
            return r;
        (*collectives)++;
        if (colour != TCA_GROUP_NONE)
            r = make(session, reply.message->group_part, &group);
        reply_free(&reply);
    }
    if (r >= 0)
        *ret_group = group;
    return r;
}

int tca_group_shrink(struct tca *session, struct tca_group *parent, int64_t timeout_ns,
                     struct tca_group **ret_group)
{
    struct reply reply;
    Tca__GroupPart alone = TCA__GROUP_PART__INIT;
    Tca__GroupShrink body = TCA__GROUP_SHRINK__INIT;
    const Tca__Message request = REQUEST(GROUP_SHRINK, group_shrink, &body);

    int r = check_session(session, parent);
    if (r >= 0)
        r = session_timeout(session, timeout_ns, &timeout_ns);
    if (r < 0)
        return r;
    if (group_size(session, parent) == 1)
        return make(session, &alone, ret_group);
    body.group = parent ? parent->id : 0;
    body.timeout_ns = session_wire_timeout(timeout_ns);
    r = session_request_timed(session, &request, TCA__MESSAGE__BODY_GROUP_PART, timeout_ns, &reply);
    if (r < 0)
        return r;
    r = make(session, reply.message->group_part, ret_group);
    reply_free(&reply);
    return r;
}

/* ---- ranks ---- */

uint32_t tca_group_size(const struct tca_group *group)
{
    return group->size;
}

uint32_t tca_group_rank(const struct tca_group *group)
{
    return group->rank;
}

int tca_group_rank_in_session(const struct tca_group *group, uint32_t rank)
{
    if (rank >= group->size)
        return error_set(-EINVAL, "rank %u: the group's ranks go from 0 to %u", rank,
                         group->size - 1);
    return (int)group_to_session(group, rank);
}

int tca_group_rank_of(const struct tca_group *group, uint32_t session_rank)
{
    if (!group->ranks) {
        const uint32_t distance = session_rank - group->first;
        if (session_rank >= group->first && distance % group->stride == 0 &&
            distance / group->stride < group->size)
            return (int)(distance / group->stride);
    }
    for (uint32_t rank = 0; group->ranks && rank < group->size; rank++)
        if (group->ranks[rank] == session_rank)
            return (int)rank;
    return error_set(-ENOENT, "rank %u of the session is not in the group", session_rank);
}

/* ---- calls ---- */

/* A call of all ranks. 1: and this rank is alone, so that there is no reply. */
static int gather(struct tca *session, struct tca_group *group, const void *blob, size_t blob_bytes,
                  size_t same_bytes, int64_t timeout_ns, struct reply *ret_reply)
{
    const uint32_t size = group_size(session, group);
    int r = check_session(session, group);
    if (r >= 0)
        r = session_timeout(session, timeout_ns, &timeout_ns);
    if (r < 0)
        return r;
    if (!session->grouped || (group && size == 1))
        return 1;
    Tca__Gather body = TCA__GATHER__INIT;
    const Tca__Message request = REQUEST(GATHER, gather, &body);
    uint64_t *collectives = group ? &group->collectives : &session->collectives;
    body.group = group ? group->id : 0;
    body.sequence = *collectives;
    body.blob = (ProtobufCBinaryData){.len = blob_bytes, .data = (uint8_t *)blob};
    body.same_bytes = (uint32_t)same_bytes;
    body.timeout_ns = session_wire_timeout(timeout_ns);
    r = session_request_timed(session, &request, TCA__MESSAGE__BODY_GATHERED, timeout_ns,
                              ret_reply);
    if (r < 0)
        return r;
    (*collectives)++; /* not after a failure: the repeated call has the same number */
    const Tca__Gathered *gathered = ret_reply->message->gathered;
    const uint64_t bytes = gathered->memfd_bytes > 0 ? gathered->memfd_bytes : gathered->blobs.len;
    if (bytes == size * (uint64_t)blob_bytes && gathered->other < size)
        return 0;
    reply_free(ret_reply);
    return error_set(-EPROTO, "tcad gathered %llu bytes of a group of %u, not %zu each",
                     (unsigned long long)bytes, size, blob_bytes);
}

/* Its memfd, if it has one: then `all` is elsewhere. */
static int memfd_of(const struct reply *reply)
{
    return reply->frame->fd_count > 0 ? reply->frame->fds[0] : -1;
}

static int unreadable(int error)
{
    return error_set(error, "reading what tcad has gathered: %s", strerror(-error));
}

int group_gather(struct tca *session, struct tca_group *group, const void *blob, size_t blob_bytes,
                 void *ret_all, int64_t timeout_ns)
{
    struct reply reply;

    if (blob_bytes > BLOB_MAX_BYTES || (blob_bytes > 0 && (!blob || !ret_all)))
        return error_set(-EINVAL,
                         "allgather of %zu bytes per rank: at most %d, with memory for both "
                         "arguments",
                         blob_bytes, BLOB_MAX_BYTES);
    int r = gather(session, group, blob, blob_bytes, 0, timeout_ns, &reply);
    if (r == 1 && blob_bytes > 0)
        memmove(ret_all, blob, blob_bytes);
    if (r != 0)
        return r < 0 ? r : 0;
    const Tca__Gathered *gathered = reply.message->gathered;
    if (gathered->memfd_bytes > 0)
        r = memfd_read(memfd_of(&reply), ret_all, gathered->memfd_bytes);
    else if (gathered->blobs.len > 0)
        memcpy(ret_all, gathered->blobs.data, gathered->blobs.len);
    reply_free(&reply);
    return r < 0 ? unreadable(r) : 0;
}

struct gathered_memory {
    struct reply reply;  /* the data is in it, */
    size_t mapped_bytes; /* unless it is mapped */
};

int group_share(struct tca *session, struct tca_group *group, const void *blob, size_t blob_bytes,
                size_t same_bytes, struct gathered *ret_gathered)
{
    struct gathered_memory *memory = calloc(1, sizeof(*memory));
    struct gathered gathered = {.all = blob, .each_bytes = blob_bytes, .memory = memory};

    /* also without memory: the others wait for this rank */
    struct reply reply;
    int r = gather(session, group, blob, blob_bytes, same_bytes, TCA_DEFAULT, &reply);
    if (!memory && r >= 0) {
        if (r == 0)
            reply_free(&reply);
        r = error_static(-ENOMEM, "out of memory");
    }
    if (r == 0) {
        const Tca__Gathered *message = reply.message->gathered;
        memory->reply = reply;
        gathered.other = message->other;
        gathered.all = message->blobs.data;
        if (message->memfd_bytes > 0)
            r = memfd_map(memfd_of(&reply), message->memfd_bytes, &gathered.all);
        if (r == 0)
            memory->mapped_bytes = message->memfd_bytes;
        else
            unreadable(r);
    }
    if (r < 0)
        gathered_deinit(&gathered);
    else
        *ret_gathered = gathered;
    return r < 0 ? r : 0;
}

void gathered_deinit(struct gathered *gathered)
{
    struct gathered_memory *memory = gathered->memory;

    if (memory && memory->mapped_bytes > 0)
        munmap((void *)gathered->all, memory->mapped_bytes);
    if (memory && memory->reply.message)
        reply_free(&memory->reply);
    free(memory);
    *gathered = (struct gathered){0};
}

int tca_group_allgather(struct tca_group *group, const void *blob, size_t blob_bytes, void *ret_all,
                        int64_t timeout_ns)
{
    return group_gather(group->session, group, blob, blob_bytes, ret_all, timeout_ns);
}

int tca_group_barrier(struct tca_group *group, int64_t timeout_ns)
{
    return group_gather(group->session, group, NULL, 0, NULL, timeout_ns);
}
