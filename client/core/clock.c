#include "client/core/clock.h"

#include <errno.h>
#include <poll.h>

int clock_poll(int fd, short events, uint64_t end_ns)
{
    struct pollfd poll_fd = {.fd = fd, .events = events};
    for (;;) {
        uint64_t left_ns = end_ns == END_NEVER ? 0 : clock_left(end_ns);
        struct timespec timeout = {.tv_sec = (time_t)(left_ns / 1000000000),
                                   .tv_nsec = (long)(left_ns % 1000000000)};
        int r = ppoll(&poll_fd, 1, end_ns == END_NEVER ? NULL : &timeout, NULL);
        if (r > 0 || (r < 0 && errno != EINTR))
            return 1;
        if (r == 0)
            return 0;
    }
}
