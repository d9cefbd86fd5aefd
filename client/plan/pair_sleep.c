/* Waiting for tcad, other processes of this node, and connections at the same time. */
#include <errno.h>
#include <poll.h>
#include <time.h>

#include "client/core/clock.h"
#include "client/core/session.h"
#include "client/plan/pair_internal.h"

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

/* False: until end_ns nothing has come. */
static bool sleep_once(struct tca *session, struct pollfd *fds, unsigned count, uint64_t end_ns)
{
    const uint64_t left_ns = clock_left(end_ns);
    const struct timespec timeout = {.tv_sec = (time_t)(left_ns / 1000000000),
                                     .tv_nsec = (long)(left_ns % 1000000000)};
    const bool busy = pairs_are_busy(session->pairs);
    int n = ppoll(fds, count,
                  busy                  ? &(struct timespec){0}
                  : end_ns == END_NEVER ? NULL
                                        : &timeout,
                  NULL);
    return n != 0 || (busy && left_ns > 0);
}

bool pairs_await(void *context, uint64_t end_ns)
{
    struct tca *session = context;
    struct pollfd fds[1 + RAILS_MAX] = {{.fd = session->control.fd, .events = POLLIN}};
    unsigned count = 1;
    if (!session->pairs || !session->pairs->drivers)
        return clock_poll(session->control.fd, POLLIN, end_ns);
    for (struct pair_driver *via = session->pairs->drivers; via; via = via->next)
        fds[count++] =
            (struct pollfd){.fd = via->driver->ops->event_fd(via->driver), .events = POLLIN};
    do {
        pairs_progress(session);
        if (!sleep_once(session, fds, count, end_ns))
            return false;
    } while (fds[0].revents == 0);
    return true;
}
