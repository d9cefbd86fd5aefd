/* Ranks that have ended: when their peers' session is notified. Data that they sent counts, so it
 * is notified after the notifications whose data a process has still to copy into attached memory
 * (bounce.h). */
#include <stdlib.h>

#include "daemon/engine/engine.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"
#include "proto/list.h"

struct source_wait {
    struct source_wait *next, **link; /* in session->source_waits */
    struct engine_raise_wait raise;
    struct tcad *tcad;
    uint64_t session;
    uint32_t rank;
    enum source_state state;
};

static void tell(struct session *session, uint32_t rank, enum source_state state)
{
    atomic_store_explicit(&session->notify->source_state[rank], (uint8_t)state,
                          memory_order_release);
    Tca__Event event = TCA__EVENT__INIT;
    event.kind = TCA__EVENT__KIND__RANK_GONE;
    event.rank = rank;
    session_event(session, &event);
}

static void raised(void *context)
{
    struct source_wait *wait = context;
    struct session *session = session_find_any(wait->tcad, wait->session);
    if (session)
        LIST_REMOVE(wait, next, link);
    if (session && !session->closing) {
        tell(session, wait->rank, wait->state);
        wait->tcad->session_hooks->source_gone(session, wait->rank, wait->state);
    }
    free(wait);
}

enum source_state session_source_awaited(const struct session *session, uint32_t rank)
{
    const struct source_wait *wait = session->source_waits;
    while (wait && wait->rank != rank)
        wait = wait->next;
    return wait ? wait->state : SOURCE_ALIVE;
}

void session_source_gone(struct session *session, uint32_t rank, enum source_state state)
{
    if (rank >= session->sources || rank >= session->size)
        return;
    struct tcad *tcad = session->tcad;
    struct source_wait *wait = engine_raises_wait(tcad->engine) ? calloc(1, sizeof *wait) : NULL;
    if (!wait) { /* no data is pending, or there is no memory to wait for it */
        tell(session, rank, state);
        return;
    }
    const struct notify_line *lines = session->notify->lines + (size_t)rank * SLOTS_PER_SOURCE;
    *wait = (struct source_wait){
        .raise = {.engine = tcad->engine,
                  .first = lines,
                  .end = lines + SLOTS_PER_SOURCE,
                  .done = raised,
                  .context = wait},
        .tcad = tcad,
        .session = session->id,
        .rank = rank,
        .state = state,
    };
    LIST_ADD(&session->source_waits, wait, next, link);
    engine_await_raised(&wait->raise);
}
