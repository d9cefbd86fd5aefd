/* Waiting for tcad, other processes of this node, and connections at the same time. */
#include <errno.h>
#include <poll.h>

#include "client/core/clock.h"
#include "client/core/session.h"
#include "client/plan/pair_internal.h"
#include "client/plan/plan.h"

enum { SLICE_MIN_NS = 50 * 1000, SLICE_MAX_NS = 1000 * 1000 };

int pairs_arm(struct tca *session)
{
    int r = 0;
    standby_enter(session->standby);
    if (pairs_are_busy(session->pairs))
        r = -EAGAIN;
    else if (session->standby)
        standby_wait(session->standby);
    else
        r = session->pairs->drivers ? -ENODEV : 0;
    standby_leave(session->standby);
    return r;
}

/* ---- for tcad ---- */

/* Connections, and starts that wait here. *slice_ns: how long it may sleep: while there are such
 * starts, not for long, because the notifications for them make no descriptor readable. */
static void move_on(struct tca *session, uint64_t *slice_ns)
{
    if (session->running)
        session_progress_within(session);
    else if (session->pairs && session->pairs->drivers)
        pairs_progress(session);
    *slice_ns = !session->running                            ? UINT64_MAX
                : session->copying                           ? 0
                : *slice_ns == 0 || *slice_ns > SLICE_MAX_NS ? SLICE_MIN_NS
                : 2 * *slice_ns < SLICE_MAX_NS               ? 2 * *slice_ns
                                                             : SLICE_MAX_NS;
}

/* False: until end_ns nothing has come. slice_ns: the most that it sleeps. */
static bool sleep_once(struct tca *session, struct pollfd *fds, unsigned count, uint64_t slice_ns,
                       uint64_t end_ns)
{
    const bool busy = session->pairs && pairs_are_busy(session->pairs);
    const uint64_t left_ns = end_ns == END_NEVER ? UINT64_MAX : clock_left(end_ns),
                   most_ns = busy                 ? 0
                             : slice_ns < left_ns ? slice_ns
                                                  : left_ns;
    const struct timespec timeout = clock_timespec(most_ns);
    const int n = ppoll(fds, count, most_ns == UINT64_MAX ? NULL : &timeout, NULL);
    return n != 0 || most_ns < left_ns;
}

static bool await(struct tca *session, short events, uint64_t end_ns)
{
    struct pollfd fds[1 + RAILS_MAX] = {{.fd = session->control.fd, .events = events}};
    const uint64_t received = session->control.received;
    uint64_t slice_ns = 0;
    unsigned count = 1;
    for (struct pair_driver *via = session->pairs ? session->pairs->drivers : NULL; via;
         via = via->next)
        fds[count++] =
            (struct pollfd){.fd = via->driver->ops->event_fd(via->driver), .events = POLLIN};
    do {
        move_on(session, &slice_ns);
        if (session->control.received != received)
            return true; /* it has read the socket, too */
        if (!sleep_once(session, fds, count, slice_ns, end_ns))
            return false;
    } while (fds[0].revents == 0);
    return true;
}

bool session_await(void *context, short events, uint64_t end_ns)
{
    struct tca *session = context;

    if (session->standby)
        standby_block(session->standby, true);
    const bool came = await(session, events, end_ns);
    if (session->standby)
        standby_block(session->standby, false);
    return came;
}
