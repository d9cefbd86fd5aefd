/* Groups: join, allgather, barrier, publish and lookup; a rank and its node. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "client/core/clock.h"
#include "client/core/costs.h"
#include "client/core/error.h"
#include "client/core/session.h"
#include "client/core/subgroup.h"
#include "proto/frame_memfd.h"

/* Long lists are shared with the other sessions of the node. */
static int map_members(const struct reply *reply, size_t bytes,
                       const struct group_member **ret_list)
{
    const Tca__GroupMembers *list = reply->message->group_members;
    const uint8_t *mapped;

    if (list->memfd_bytes > 0) {
        const int fd = reply->frame->fd_count > 0 ? reply->frame->fds[0] : -1;
        const int r = memfd_map(fd, bytes, &mapped);
        if (r < 0)
            return error_set(r, "mapping the list of members from tcad: %s", strerror(-r));
        *ret_list = (const void *)mapped;
        return 0;
    }
    void *copy = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED)
        return error_static(-ENOMEM, "out of memory");
    *ret_list = memcpy(copy, list->members.data, bytes);
    return 0;
}

static int read_members(struct tca *session, const struct reply *reply)
{
    const Tca__GroupMembers *list = reply->message->group_members;
    const uint32_t size = session->identity.size;
    const size_t bytes = size * sizeof(struct group_member);
    const uint64_t found = list->memfd_bytes > 0 ? list->memfd_bytes : list->members.len;
    const struct group_member *members = NULL;

    if (found != bytes)
        return error_set(-EPROTO, "tcad named members of a group of %u in %llu bytes, not %zu",
                         size, (unsigned long long)found, bytes);
    int r = map_members(reply, bytes, &members);
    if (r < 0)
        return r;
    for (uint32_t rank = 0; rank < size; rank++)
        if (members[rank].session == 0) {
            munmap((void *)members, bytes);
            return error_set(-EPROTO, "tcad named rank %u without a session", rank);
        }
    group_forget_members(session);
    session->members = members;
    session->costs = (struct reach_costs){0};
    reach_worsen(&session->costs, list->n_costs, list->costs);
    return 0;
}

void group_forget_members(struct tca *session)
{
    if (session->members)
        munmap((void *)session->members, session->identity.size * sizeof(*session->members));
    session->members = NULL;
}

const struct reach_costs *session_costs(const struct tca *session)
{
    return &session->costs;
}

int group_join(struct tca *session, int64_t timeout_ns)
{
    struct reply reply;
    Tca__GroupJoin body = TCA__GROUP_JOIN__INIT;
    const Tca__Message request = REQUEST(GROUP_JOIN, group_join, &body);
    body.name = session->identity.group;
    body.rank = session->identity.rank;
    body.size = session->identity.size;
    body.local_size = session->identity.local_size;
    body.timeout_ns = session_wire_timeout(timeout_ns);
    int r = session_request_timed(session, &request, TCA__MESSAGE__BODY_GROUP_MEMBERS, timeout_ns,
                                  &reply);
    if (r < 0)
        return r;
    r = read_members(session, &reply);
    reply_free(&reply);
    if (r == 0)
        session->grouped = true;
    return r;
}

int tca_allgather(struct tca *session, const void *blob, size_t blob_bytes, void *ret_all,
                  int64_t timeout_ns)
{
    return group_gather(session, NULL, blob, blob_bytes, ret_all, timeout_ns);
}

int tca_barrier(struct tca *session, int64_t timeout_ns)
{
    return tca_allgather(session, NULL, 0, NULL, timeout_ns);
}

static int check_name(const char *name)
{
    size_t length = name ? strlen(name) : 0;
    if (length == 0 || length >= NAME_MAX_BYTES)
        return error_set(-EINVAL, "a published name has 1 to %d bytes, not %zu", NAME_MAX_BYTES - 1,
                         length);
    return 0;
}

int tca_publish(struct tca *session, const char *name, const struct tca_handle *handle)
{
    int r = check_name(name);
    if (r < 0)
        return r;
    Tca__Publish body = TCA__PUBLISH__INIT;
    const Tca__Message request = REQUEST(PUBLISH, publish, &body);
    body.name = (char *)name;
    if (handle)
        body.handle =
            (ProtobufCBinaryData){.len = sizeof(handle->bytes), .data = (uint8_t *)handle->bytes};
    return session_request(session, &request, TCA__MESSAGE__BODY_DONE, NULL);
}

int tca_lookup(struct tca *session, const char *name, int64_t timeout_ns,
               struct tca_handle *ret_handle)
{
    struct reply reply;
    int r = check_name(name);
    if (r == 0)
        r = session_timeout(session, timeout_ns, &timeout_ns);
    if (r < 0)
        return r;
    Tca__Lookup body = TCA__LOOKUP__INIT;
    const Tca__Message request = REQUEST(LOOKUP, lookup, &body);
    body.name = (char *)name;
    body.timeout_ns = session_wire_timeout(timeout_ns);
    r = session_request_timed(session, &request, TCA__MESSAGE__BODY_FOUND, timeout_ns, &reply);
    if (r < 0)
        return r;
    if (reply.message->found->handle.len == sizeof(ret_handle->bytes))
        memcpy(ret_handle->bytes, reply.message->found->handle.data, sizeof(ret_handle->bytes));
    else
        r = error_set(-EPROTO, "tcad found a handle of %zu bytes",
                      reply.message->found->handle.len);
    reply_free(&reply);
    return r;
}

/* ---- ranks and nodes ---- */

uint32_t tca_rank(const struct tca *session)
{
    return session->identity.rank;
}

uint32_t tca_size(const struct tca *session)
{
    return session->identity.size;
}

uint32_t tca_node(const struct tca *session)
{
    return session->node;
}

static int check_rank(const struct tca *session, uint32_t rank)
{
    if (rank < session->identity.size)
        return 0;
    return error_set(-EINVAL, "rank %u: the group's ranks go from 0 to %u", rank,
                     session->identity.size - 1);
}

int tca_node_of(const struct tca *session, uint32_t rank)
{
    int r = check_rank(session, rank);

    if (r < 0)
        return r;
    return (int)(session->members ? session->members[rank].node : session->node);
}

int tca_subcluster_of(const struct tca *session, uint32_t rank)
{
    int r = check_rank(session, rank);

    if (r < 0)
        return r;
    return (int)(session->members ? session->members[rank].subcluster : session->node);
}

const char *tca_node_name(const struct tca *session)
{
    return session->node_name;
}
