/* Waiting for tcad, other processes of this node, and connections at the same time. */
#include <errno.h>
#include <poll.h>
#include <time.h>

#include "client/core/clock.h"
#include "client/core/session.h"
#include "client/plan/pair_internal.h"

int pairs_arm(struct tca *session)
{
    struct driver *driver;
    int r = 0;
    standby_enter(session->standby);
    driver = session->pairs->driver;
    if (driver)
        r = driver->ops->arm(driver);
    if (r == 0 && session->standby)
        standby_wait(session->standby);
    else if (r == 0)
        r = driver ? -ENODEV : 0;
    standby_leave(session->standby);
    return r;
}

/* False: until end_ns nothing has come. */
static bool sleep_once(struct tca *session, struct pollfd fds[2], uint64_t end_ns)
{
    const uint64_t left_ns = clock_left(end_ns);
    const struct timespec timeout = {.tv_sec = (time_t)(left_ns / 1000000000),
                                     .tv_nsec = (long)(left_ns % 1000000000)};
    const bool busy = session->pairs->driver->ops->arm(session->pairs->driver) < 0;
    int n = ppoll(fds, 2,
                  busy                  ? &(struct timespec){0}
                  : end_ns == END_NEVER ? NULL
                                        : &timeout,
                  NULL);
    return n != 0 || (busy && left_ns > 0);
}

bool pairs_await(void *context, uint64_t end_ns)
{
    struct tca *session = context;
    struct pollfd fds[2] = {{.fd = session->control.fd, .events = POLLIN}, {.events = POLLIN}};
    if (!session->pairs || !session->pairs->driver)
        return clock_poll(session->control.fd, POLLIN, end_ns);
    fds[1].fd = session->pairs->driver->ops->event_fd(session->pairs->driver);
    do {
        pairs_progress(session);
        if (!sleep_once(session, fds, end_ns))
            return false;
    } while (fds[0].revents == 0);
    return true;
}
