/* Allocations that wait for freed memory, which the quota counts until the engine and other plans
 * have released it. */
#include <stdlib.h>

#include "daemon/base/loop.h"
#include "daemon/sessions/region.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"
#include "proto/wait.h"

#define WAIT_MAX_NS UINT64_C(2000000000)

struct waiting_alloc {
    struct waiting_alloc *next;
    uint64_t session;
    uint32_t tag;
    uint64_t bytes;
    uint64_t deadline_ns;
};

static void check_all(void *context)
{
    struct tcad *tcad = context;
    const uint64_t now_ns = clock_now_ns();
    for (struct waiting_alloc **at = &tcad->allocs; *at;) {
        struct waiting_alloc *alloc = *at;
        struct session *session = session_find(tcad, alloc->session);
        char text[400];
        if (session && now_ns < alloc->deadline_ns &&
            !region_may_have(session, alloc->bytes, text, sizeof(text))) {
            at = &alloc->next;
            continue;
        }
        *at = alloc->next;
        if (session) {
            session->alloc_waits = false;
            region_alloc_again(session, alloc->tag, alloc->bytes);
        }
        free(alloc);
    }
    if (tcad->allocs)
        loop_timer_set(tcad->allocs_timer, WAIT_MAX_NS / 10, 0);
}

bool region_alloc_wait(struct session *session, uint32_t tag, uint64_t bytes)
{
    struct tcad *tcad = session->tcad;
    if (session->alloc_waits || !region_may_have_soon(session, bytes))
        return false;
    struct waiting_alloc *alloc = malloc(sizeof(*alloc));
    if (!alloc || (!tcad->allocs_timer &&
                   loop_timer_new(tcad->loop, check_all, tcad, &tcad->allocs_timer) < 0)) {
        free(alloc);
        return false;
    }
    *alloc = (struct waiting_alloc){.session = session->id,
                                    .tag = tag,
                                    .bytes = bytes,
                                    .deadline_ns = clock_now_ns() + WAIT_MAX_NS};
    struct waiting_alloc **last = &tcad->allocs;
    while (*last)
        last = &(*last)->next;
    *last = alloc;
    session->alloc_waits = true;
    loop_timer_set(tcad->allocs_timer, WAIT_MAX_NS / 10, 0);
    return true;
}

/* Deferred to the timer, because it is called while a region is being released. */
void region_allocs_look(struct tcad *tcad)
{
    if (tcad->allocs)
        loop_timer_set(tcad->allocs_timer, 0, 0);
}

void region_allocs_deinit(struct tcad *tcad)
{
    while (tcad->allocs) {
        struct waiting_alloc *alloc = tcad->allocs;
        tcad->allocs = alloc->next;
        free(alloc);
    }
    tcad->allocs_timer = loop_timer_free(tcad->allocs_timer);
}
