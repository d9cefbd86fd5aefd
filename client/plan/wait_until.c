/* Waits for conditions of the caller. */
#include <errno.h>

#include "client/core/error.h"
#include "client/core/session.h"
#include "client/core/timeout.h"
#include "client/core/wait.h"
#include "client/plan/plan.h"
#include "client/plan/waiting.h"

/* The callbacks may make nested waits, for example for a commit, so the state of this wait is
 * saved. */
static int call_ready(struct tca *session, void *subject)
{
    const struct session_wait *wait = subject;
    const struct waiter own = session->waiter;
    int r = wait->ready(wait->context);
    session->waiter = own;
    return r;
}

static int call_rare(struct tca *session, void *subject)
{
    const struct session_wait *wait = subject;
    const struct waiter own = session->waiter;
    if (wait->rare)
        wait->rare(wait->context);
    session->waiter = own;
    return session->control.lost ? session_drain(session) : 0;
}

int session_wait_until(struct tca *session, const struct session_wait *wait, int64_t timeout_ns)
{
    struct wait_spec spec = {.ready = call_ready, .failed = call_rare, .subject = (void *)wait};
    int r = session_timeout(session, timeout_ns, &spec.timeout_ns);
    if (r == 0)
        r = session_wait(session, &spec);
    return r == TIMED_OUT ? 0 : r;
}

int tca_wait_until(struct tca *session, int (*ready)(void *context), void *context,
                   int64_t timeout_ns)
{
    const struct session_wait wait = {.ready = ready, .context = context};
    int r = session_wait_until(session, &wait, timeout_ns);
    char waited[TIMEOUT_TEXT_BYTES];
    return r == 0 ? error_set(-ETIMEDOUT, "the condition has not become true %s",
                              session_timeout_text(session, timeout_ns, waited))
                  : r;
}

uint64_t session_failures(struct tca *session)
{
    session_progress(session);
    return session->failures;
}
