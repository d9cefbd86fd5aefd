/* Describes a request in the error for its time-out. */
#include <errno.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <sys/ioctl.h>

#include "client/core/control.h"
#include "client/core/error.h"

enum { TEXT_BYTES = 160 };

static void describe_request(const Tca__Message *request, char text[TEXT_BYTES])
{
    switch (request->body_case) {
    case TCA__MESSAGE__BODY_HELLO:
        snprintf(text, TEXT_BYTES, "a session");
        return;
    case TCA__MESSAGE__BODY_SESSION_CLOSE:
        snprintf(text, TEXT_BYTES, "closing the session");
        return;
    case TCA__MESSAGE__BODY_GROUP_JOIN:
        snprintf(text, TEXT_BYTES, "joining group %.64s as rank %u", request->group_join->name,
                 request->group_join->rank);
        return;
    case TCA__MESSAGE__BODY_GATHER:
        snprintf(text, TEXT_BYTES, "collective call %llu of the group",
                 (unsigned long long)request->gather->sequence);
        return;
    case TCA__MESSAGE__BODY_GROUP_SPLIT:
        snprintf(text, TEXT_BYTES, "collective call %llu of the group, a split",
                 (unsigned long long)request->group_split->sequence);
        return;
    case TCA__MESSAGE__BODY_GROUP_SHRINK:
        snprintf(text, TEXT_BYTES, "shrinking a group to its survivors");
        return;
    case TCA__MESSAGE__BODY_PUBLISH:
        snprintf(text, TEXT_BYTES, "publishing \"%.64s\"", request->publish->name);
        return;
    case TCA__MESSAGE__BODY_LOOKUP:
        snprintf(text, TEXT_BYTES, "the handle published as \"%.64s\"", request->lookup->name);
        return;
    case TCA__MESSAGE__BODY_REGION_ALLOC:
        snprintf(text, TEXT_BYTES, "a region of %llu bytes",
                 (unsigned long long)request->region_alloc->bytes);
        return;
    case TCA__MESSAGE__BODY_REGION_FREE:
        snprintf(text, TEXT_BYTES, "freeing region %llu",
                 (unsigned long long)request->region_free->region);
        return;
    case TCA__MESSAGE__BODY_REGION_REACH:
        snprintf(text, TEXT_BYTES, "reaching a region");
        return;
    case TCA__MESSAGE__BODY_PLAN_COMMIT:
        snprintf(text, TEXT_BYTES, "committing a plan");
        return;
    case TCA__MESSAGE__BODY_PLAN_RELEASE:
        snprintf(text, TEXT_BYTES, "releasing plan %u", request->plan_release->plan);
        return;
    case TCA__MESSAGE__BODY_DCFA_OPEN:
        snprintf(text, TEXT_BYTES, "an offload processor");
        return;
    case TCA__MESSAGE__BODY_DCFA_CREATE:
        snprintf(text, TEXT_BYTES, "an object of the offload processor");
        return;
    case TCA__MESSAGE__BODY_DCFA_CONNECT:
        snprintf(text, TEXT_BYTES, "connecting queue pair %u", request->dcfa_connect->qp);
        return;
    case TCA__MESSAGE__BODY_DCFA_RELEASE:
        snprintf(text, TEXT_BYTES, "releasing an object of the offload processor");
        return;
    case TCA__MESSAGE__BODY_ADMIN:
        snprintf(text, TEXT_BYTES, "%.64s", request->admin->verb);
        return;
    default:
        snprintf(text, TEXT_BYTES, "message %d", (int)request->body_case);
    }
}

/* Whether tcad has read all that was sent. */
static bool has_read(const struct control *control)
{
    int bytes = 0;
    return ioctl(control->fd, SIOCOUTQ, &bytes) == 0 && bytes == 0;
}

int control_overdue(const struct control *control, const Tca__Message *request)
{
    char text[TEXT_BYTES];
    describe_request(request, text);
    return error_set(
        -ETIMEDOUT, "the tcad at %s did not reply in time to a request (%s): it %s a longer %s",
        control->path, text,
        has_read(control) ? "has read it, and still waits for other nodes or slow work; it needs"
                          : "is stopped or busy, or needs",
        control_is_session(control) ? "TCA_TIMEOUT" : "-t, --timeout");
}
