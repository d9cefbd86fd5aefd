#include "daemon/sessions/withdrawals.h"

#include <stdlib.h>

#include "daemon/sessions/session.h"
#include "daemon/tcad.h"

enum { SEND_MAX = 1024 }; /* in a message */

static void tell(struct session *session, uint32_t *targets, uint32_t count)
{
    Tca__Event event = TCA__EVENT__INIT;
    event.kind = TCA__EVENT__KIND__WITHDRAWN;
    event.ids = targets;
    event.n_ids = count;
    session_event(session, &event);
}

static void send_some(struct session *session)
{
    struct withdrawals *all = &session->withdrawals;
    const uint32_t left = all->count - all->told, count = left < SEND_MAX ? left : SEND_MAX;
    tell(session, &all->targets[all->told], count);
    all->told += count;
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

static bool add(struct withdrawals *all, uint32_t target)
{
    if (all->count == all->room) {
        const uint32_t room = 2 * all->room + 16;
        uint32_t *targets = reallocarray(all->targets, room, sizeof(*targets));
        if (!targets)
            return false;
        all->targets = targets;
        all->room = room;
    }
    all->targets[all->count++] = target;
    return true;
}

uint32_t session_target(struct session *session)
{
    return ++session->withdrawals.last_target;
}

void session_withdraw(struct session *session, uint32_t target)
{
    struct withdrawals *all = &session->withdrawals;
    if (!session->client)
        return;
    if (!add(all, target)) { /* out of memory */
        withdrawals_send(session);
        tell(session, &target, 1);
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
    free(withdrawals->targets);
}
