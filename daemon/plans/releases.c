#include "daemon/plans/releases.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/base/loop.h"
#include "daemon/plans/plan_internal.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"
#include "proto/list.h"

#define WAIT_NS UINT64_C(1000000)

enum { BATCH = 16 }; /* half of what a client may have released without a reply (POSTED_MAX) */

struct releases {
    struct plan *first;
    uint32_t count;
    struct loop_timer *timer; /* set while there are any */
};

static void expired(void *context)
{
    releases_begin(context);
}

int releases_new(struct tcad *tcad, struct releases **ret_releases)
{
    struct releases *releases = calloc(1, sizeof(*releases));
    if (!releases)
        return -ENOMEM;
    int r = loop_timer_new(tcad->loop, expired, releases, &releases->timer);
    if (r < 0) {
        free(releases);
        return r;
    }
    *ret_releases = releases;
    return 0;
}

struct releases *releases_free(struct releases *releases)
{
    if (releases)
        loop_timer_free(releases->timer);
    free(releases);
    return NULL;
}

void releases_add(struct releases *releases, struct plan *plan)
{
    LIST_ADD(&releases->first, plan, next_released, link_of_released);
    plan->session->releasing++;
    if (++releases->count == BATCH ||
        (releases->count == 1 && loop_timer_set(releases->timer, WAIT_NS, 0) < 0))
        releases_begin(releases);
}

void releases_remove(struct releases *releases, struct plan *plan)
{
    if (!plan->link_of_released)
        return;
    LIST_REMOVE(plan, next_released, link_of_released);
    if (--releases->count == 0)
        loop_timer_stop(releases->timer);
}

struct plan *releases_newest(const struct releases *releases)
{
    return releases->first;
}

void releases_begin(struct releases *releases)
{
    while (releases->first) {
        struct plan *plan = releases->first;
        releases_remove(releases, plan);
        plan_advance(plan);
    }
}

void releases_answer(struct session *session, uint32_t tag)
{
    session->releasing--;
    if (++session->released < BATCH && session->releasing > 0)
        return;
    Tca__Done done = BODY_OF(done, .also = session->released - 1);
    const Tca__Message message = MESSAGE_OF(DONE, done, &done);
    session->released = 0;
    session_answer(session, tag, &message, NULL, 0);
}
