/* Replies and events to a session's client. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "daemon/sessions/client.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"
#include "proto/notify.h"

void session_answer(struct session *session, uint32_t tag, const Tca__Message *answer,
                    const int *fds, size_t fd_count)
{
    if (session->client)
        client_send(session->client, tag, answer, fds, fd_count);
}

void session_fail(struct session *session, uint32_t tag, int error, const char *format, ...)
{
    va_list arguments;
    if (!session->client)
        return;
    va_start(arguments, format);
    client_fail(session->client, tag, error, format, arguments);
    va_end(arguments);
}

bool session_reads(const struct session *session)
{
    return session->client && !session->client->queue;
}

uint32_t session_backlog(const struct session *session)
{
    return session->client ? session->client->queued : 0;
}

enum { BACKLOG_MAX = 250 }; /* far below that at which clients are dropped (client.c) */

bool session_refuses(const struct session *session, char *text, size_t text_bytes)
{
    if (session_backlog(session) < BACKLOG_MAX || !session->client->stuck)
        return false;
    snprintf(text, text_bytes,
             "rank %" PRIu32 " (session %" PRIu64 " of node %" PRIu32
             ") has not read %d messages of its tcad: it must call the library (tca_test, "
             "tca_notified) before more puts can be prepared there",
             session->rank, session->id, session->tcad->node, BACKLOG_MAX);
    return true;
}

bool session_must_wait(struct session *session, struct client_wait *wait)
{
    return session_backlog(session) >= BACKLOG_MAX && session_await_reader(session, wait);
}

bool session_await_reader(struct session *session, struct client_wait *wait)
{
    if (session_backlog(session) == 0)
        return false;
    client_await_drained(session->client, wait);
    return true;
}

void session_event(struct session *session, const Tca__Event *event)
{
    session_event_fds(session, event, NULL, 0);
}

static void announce(struct session *session)
{
    atomic_fetch_add_explicit(&session->segment->events, 1, memory_order_release);
    notify_wake(session->notify);
}

void session_event_fds(struct session *session, const Tca__Event *event, const int *fds,
                       size_t fd_count)
{
    if (!session->client)
        return;
    if (event->kind != TCA__EVENT__KIND__WITHDRAWN)
        withdrawals_send(session); /* first */
    const Tca__Message message = MESSAGE_OF(EVENT, event, (Tca__Event *)event);
    client_send(session->client, 0, &message, fds, fd_count);
    announce(session);
}

void session_event_packed(struct session *session, const Tca__Event *event, int memfd, size_t bytes)
{
    if (memfd < 0) {
        session_event(session, event);
    } else if (session->client) {
        withdrawals_send(session);
        client_send_memfd(session->client, 0, memfd, bytes, NULL, 0);
        announce(session);
    }
}
