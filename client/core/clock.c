#include "client/core/clock.h"

#include <errno.h>
#include <poll.h>

int clock_poll(int fd, short events, uint64_t end_ns)
{
    struct pollfd poll_fd = {.fd = fd, .events = events};
    for (;;) {
        const struct timespec timeout =
            clock_timespec(end_ns == END_NEVER ? 0 : clock_left(end_ns));
        int r = ppoll(&poll_fd, 1, end_ns == END_NEVER ? NULL : &timeout, NULL);
        if (r > 0 || (r < 0 && errno != EINTR))
            return 1;
        if (r == 0)
            return 0;
    }
}
