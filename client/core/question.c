/* What a question to the daemon was about, for the error that nobody has answered it. */
#include <errno.h>
#include <stdio.h>

#include "client/core/control.h"
#include "client/core/error.h"

enum { TEXT_BYTES = 160 };

static void say_question(const Tca__Message *question, char text[TEXT_BYTES])
{
    switch (question->body_case) {
    case TCA__MESSAGE__BODY_HELLO:
        snprintf(text, TEXT_BYTES, "a session");
        return;
    case TCA__MESSAGE__BODY_SESSION_CLOSE:
        snprintf(text, TEXT_BYTES, "the session to be closed");
        return;
    case TCA__MESSAGE__BODY_GROUP_JOIN:
        snprintf(text, TEXT_BYTES, "rank %u to join group %.64s", question->group_join->rank,
                 question->group_join->name);
        return;
    case TCA__MESSAGE__BODY_GATHER:
        snprintf(text, TEXT_BYTES, "collective call %llu of the group",
                 (unsigned long long)question->gather->sequence);
        return;
    case TCA__MESSAGE__BODY_PUBLISH:
        snprintf(text, TEXT_BYTES, "\"%.64s\" to be published", question->publish->name);
        return;
    case TCA__MESSAGE__BODY_LOOKUP:
        snprintf(text, TEXT_BYTES, "what is published as \"%.64s\"", question->lookup->name);
        return;
    case TCA__MESSAGE__BODY_REGION_ALLOC:
        snprintf(text, TEXT_BYTES, "a region of %llu bytes",
                 (unsigned long long)question->region_alloc->bytes);
        return;
    case TCA__MESSAGE__BODY_REGION_FREE:
        snprintf(text, TEXT_BYTES, "region %llu to be freed",
                 (unsigned long long)question->region_free->region);
        return;
    case TCA__MESSAGE__BODY_PLAN_COMMIT:
        snprintf(text, TEXT_BYTES, "a plan to be committed");
        return;
    case TCA__MESSAGE__BODY_PLAN_RELEASE:
        snprintf(text, TEXT_BYTES, "plan %u to be released", question->plan_release->plan);
        return;
    case TCA__MESSAGE__BODY_ADMIN:
        snprintf(text, TEXT_BYTES, "%.64s", question->admin->verb);
        return;
    default:
        snprintf(text, TEXT_BYTES, "something (message %d)", (int)question->body_case);
    }
}

int control_overdue(const struct control *control, const Tca__Message *question)
{
    char text[TEXT_BYTES];
    say_question(question, text);
    return error_set(-ETIMEDOUT,
                     "the tcad at %s was asked for %s and did not answer in time: it is stopped or "
                     "busy, or that takes longer (%s)",
                     control->path, text,
                     control_is_session(control) ? "TCA_TIMEOUT" : "a longer -t, --timeout");
}
