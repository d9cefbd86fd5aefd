#include "client/core/hang.h"

#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "client/core/error.h"
#include "client/core/session.h"
#include "client/core/wait.h"
#include "proto/wait.h"

static _Atomic uint64_t limit = UINT64_MAX;

void hang_set_limit(uint64_t limit_ns)
{
    atomic_store_explicit(&limit, limit_ns, memory_order_relaxed);
}

uint64_t hang_limit(void)
{
    return atomic_load_explicit(&limit, memory_order_relaxed);
}

struct session_hang session_hang_begin(void)
{
    const uint64_t after_ns = hang_limit();
    if (after_ns == UINT64_MAX)
        return (struct session_hang){.due_ns = UINT64_MAX};
    const uint64_t now_ns = clock_now_ns();
    return (struct session_hang){now_ns, now_ns + after_ns};
}

void session_hang_look(const struct tca *session, struct session_hang *hang,
                       int (*overdue)(const void *context, int64_t waited_ns), const void *context)
{
    const uint64_t now_ns = hang->due_ns == UINT64_MAX ? 0 : clock_now_ns();
    if (now_ns < hang->due_ns)
        return;
    hang->due_ns = UINT64_MAX;
    hang_report(session, now_ns - hang->since_ns, overdue, context);
}

void hang_report(const struct tca *session, uint64_t waited_ns,
                 int (*overdue)(const void *context, int64_t waited_ns), const void *context)
{
    char before[1024], who[160] = "";
    snprintf(before, sizeof(before), "%s", tca_error_text());
    const int error = overdue(context, (int64_t)waited_ns);
    if (session && session->node_name)
        snprintf(who, sizeof(who), "rank %u of %u%s%.63s on %.63s, ", session->identity.rank,
                 session->identity.size, session->identity.group[0] ? " of " : "",
                 session->identity.group, session->node_name);
    fprintf(stderr, "libtca: TCA_HANG: %spid %d, waits: %s\n", who, (int)getpid(),
            *tca_error_text() ? tca_error_text() : tca_strerror(error));
    error_set(0, "%s", before);
}
