/* Requests of sessions to the root of their group's tree, until the session gets its reply. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/groups/group_internal.h"
#include "daemon/tcad.h"
#include "proto/list.h"

struct request *request_new(struct session *session, const struct place *place,
                            enum request_kind kind, uint32_t tag, uint64_t timeout_ns)
{
    struct groups *groups = session->tcad->groups;
    if (session->group_requests >= GROUP_REQUESTS_MAX) {
        session_fail(session, tag, -EBUSY,
                     "session %" PRIu64 " waits for %" PRIu32
                     " answers of group %s (lookups, gathers, publications), the most that "
                     "it may: wait for some, or give them shorter time-outs",
                     session->id, session->group_requests, place->group);
        return NULL;
    }
    struct request *request = calloc(1, sizeof(*request));
    if (!request) {
        session_fail(session, tag, -ENOMEM, "out of memory for a request to the group");
        return NULL;
    }
    request->groups = groups;
    request->kind = kind;
    request->session = session->id;
    request->tag = tag;
    request->root = place->caller.team->roster.node_at[0];
    memcpy(request->group, place->group, sizeof(request->group));
    request->deadline_ns = group_deadline(clock_now_ns(), timeout_ns);
    LIST_ADD(&groups->requests, request, next, link);
    session->group_requests++;
    return request;
}

struct request *request_free(struct request *request)
{
    struct session *session = session_find(request->groups->tcad, request->session);
    if (session)
        session->group_requests--;
    LIST_REMOVE(request, next, link);
    free(request);
    return NULL;
}

static uint64_t time_left(const struct request *request)
{
    uint64_t now = clock_now_ns();
    if (request->deadline_ns == UINT64_MAX)
        return UINT64_MAX;
    return request->deadline_ns > now ? request->deadline_ns - now : 0;
}

/* Whether it was this daemon that did not wait any longer. */
static bool is_overdue(const struct request *request)
{
    return request->deadline_ns < UINT64_MAX &&
           clock_now_ns() >= group_deadline(request->deadline_ns, ROOT_GRACE_NS);
}

/* ---- replies ---- */

static void fail(const struct request *request, struct session *session, int status,
                 const char *text)
{
    const char *root = group_node_name(request->groups->tcad, request->root);

    if (status == -ETIMEDOUT && is_overdue(request))
        session_fail(session, request->tag, status,
                     "group %s has its published names on node %s, which has not answered in time: "
                     "it is stopped, busy or cut off (tcactl ping %s)",
                     request->group, root, root);
    else
        session_fail(session, request->tag, status, "%s", text);
}

static bool fits(const struct request *request, const Tca__Message *reply)
{
    switch (request->kind) {
    case REQUEST_PUBLISH:
    case REQUEST_WITHDRAW:
        return reply->body_case == TCA__MESSAGE__BODY_DONE;
    case REQUEST_LOOKUP:
        return reply->body_case == TCA__MESSAGE__BODY_FOUND &&
               reply->found->handle.len == HANDLE_BYTES;
    }
    return false;
}

static void on_reply(void *context, int status, const Tca__Message *reply, const char *text)
{
    struct request *request = context;
    struct session *session = session_find(request->groups->tcad, request->session);
    struct place *place = place_find(request->groups, request->session);

    if (status == 0 && !fits(request, reply)) {
        status = -EPROTO;
        text = "the group's root has sent an unexpected reply";
    }
    if (!session || !place)
        ; /* its process has ended: the others are informed through its place */
    else if (status < 0)
        fail(request, session, status, text);
    else if (request->kind == REQUEST_PUBLISH || request->kind == REQUEST_WITHDRAW)
        share_published(request, session, place);
    else
        session_answer(session, request->tag, reply, NULL, 0); /* the client gets the root's text */
    request_free(request);
}

/* ---- requests ---- */

void request_send(struct request *request, const Tca__Message *message)
{
    struct tcad *tcad = request->groups->tcad;
    /* The root applies the time-out. This daemon waits a little longer, so that the caller gets the
     * root's text, but not as long as the caller itself (client/session.c). */
    uint64_t patience = group_deadline(time_left(request), ROOT_GRACE_NS);
    peers_request(tcad->peers, request->root, message, patience, on_reply, request);
}
