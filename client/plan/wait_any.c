/* Waiting for a notification from any rank. */
#include "client/core/error.h"
#include "client/core/session.h"
#include "client/core/timeout.h"
#include "client/core/wait.h"
#include "client/plan/overdue.h"
#include "client/plan/waiting.h"

struct awaited_any {
    uint32_t slot;
    uint32_t rank; /* the rank found last: checked after all others */
};

/* Skips ranks that died during a put. */
static int take_any(struct tca *session, void *subject)
{
    struct awaited_any *any = subject;
    for (uint32_t i = 1; i <= session->sources; i++) {
        struct session_slot awaited = {0};
        uint32_t rank = (any->rank + i) % session->sources;
        session_slot_find(session, rank, any->slot, &awaited);
        if (session_take(session, &awaited) > 0) {
            any->rank = rank;
            return 1;
        }
    }
    return 0;
}

static int session_failed(struct tca *session, void *subject)
{
    return session->control.lost ? session_drain(session) : 0;
}

int tca_notified_wait_any(struct tca *session, uint32_t slot, int64_t timeout_ns,
                          uint32_t *ret_rank)
{
    struct session_slot first = {0};
    struct awaited_any any = {.slot = slot, .rank = session->heard};
    struct wait_spec spec = {
        .ready = take_any, .failed = session_failed, .subject = &any, .notified = true};
    int r = session_slot_find(session, 0, slot, &first);
    if (r < 0 || (r = session_timeout(session, timeout_ns, &spec.timeout_ns)) < 0)
        return r;
    r = session_wait(session, &spec);
    if (r < 0)
        return r == TIMED_OUT ? overdue_any(session, first.slot, timeout_ns) : r;
    *ret_rank = session->heard = any.rank;
    return 0;
}
