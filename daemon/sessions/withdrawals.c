#include "daemon/sessions/withdrawals.h"

#include <stdlib.h>

#include "daemon/sessions/session.h"
#include "daemon/tcad.h"

enum { SEND_MAX = 1024 }; /* in a message */

static void tell(struct session *session, Tca__Event__Kind kind, uint32_t *ids, uint32_t *of,
                 size_t count)
{
    Tca__Event event = TCA__EVENT__INIT;
    event.kind = kind;
    event.ids = ids;
    event.n_ids = count;
    event.of = of;
    event.n_of = count;
    session_event(session, &event);
}

/* Sends the next ones, of one kind, in a message. */
static void send_some(struct session *session)
{
    struct withdrawals *all = &session->withdrawals;
    const Tca__Event__Kind kind = all->list[all->told].kind;
    uint32_t ids[SEND_MAX], of[SEND_MAX], count = 0;
    while (all->told < all->count && all->list[all->told].kind == kind && count < SEND_MAX) {
        const struct withdrawal *next = &all->list[all->told++];
        ids[count] = next->id;
        of[count++] = next->of;
    }
    tell(session, kind, ids, of, count);
}

void withdrawals_send(struct session *session)
{
    struct withdrawals *all = &session->withdrawals;
    while (all->told < all->count)
        send_some(session);
    all->count = all->told = 0;
}

static bool tell_some(void *context);

/* The process has read what was queued for it, or has not for a while, or has ended. */
static void tell_again(void *context)
{
    struct session *session = context;
    loop_job_begin(session->tcad->loop, &session->withdrawals.job, tell_some, session);
}

static bool tell_some(void *context)
{
    struct session *session = context;
    struct withdrawals *all = &session->withdrawals;
    while (all->told < all->count) {
        all->wait = (struct client_wait){.drained = tell_again, .context = session};
        if (session_await_reader(session, &all->wait))
            return false;
        send_some(session);
        if (loop_slice_over(session->tcad->loop))
            return true;
    }
    all->count = all->told = 0;
    all->telling = false;
    session_unnotified(session);
    return false;
}

static bool add(struct withdrawals *all, const struct withdrawal *withdrawal)
{
    if (all->count == all->room) {
        const uint32_t room = 2 * all->room + 16;
        struct withdrawal *list = reallocarray(all->list, room, sizeof *list);
        if (!list)
            return false;
        all->list = list;
        all->room = room;
    }
    all->list[all->count++] = *withdrawal;
    return true;
}

void session_withdraw(struct session *session, Tca__Event__Kind kind, uint32_t id, uint32_t of)
{
    struct withdrawals *all = &session->withdrawals;
    const struct withdrawal withdrawal = {kind, id, of};
    if (!session->client)
        return;
    if (!add(all, &withdrawal)) { /* out of memory */
        withdrawals_send(session);
        tell(session, kind, &id, &of, 1);
        return;
    }
    if (all->telling)
        return;
    all->telling = true;
    session->notified_by++; /* dropped by tell_some() */
    tell_again(session);
}

void withdrawals_deinit(struct withdrawals *withdrawals)
{
    free(withdrawals->list);
}
