#include "client/core/watch.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "proto/notify.h"
#include "proto/thread.h"

enum { READABLE, STOP };

struct watch {
    pthread_t thread;
    struct notify_segment *segment;
    int fd, epoll_fd, stop_fd;
};

static void *watch_main(void *argument)
{
    const struct watch *watch = argument;
    struct epoll_event event;
    for (;;) {
        if (epoll_wait(watch->epoll_fd, &event, 1, -1) <= 0)
            continue;
        if (event.data.u32 == STOP)
            return NULL;
        notify_wake(watch->segment);
    }
}

static int add(struct watch *watch, int fd, uint32_t events, uint32_t which)
{
    struct epoll_event event = {.events = events, .data.u32 = which};
    return epoll_ctl(watch->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static int begin(struct watch *watch)
{
    watch->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    watch->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (watch->epoll_fd < 0 || watch->stop_fd < 0)
        return -errno;
    int r = add(watch, watch->stop_fd, EPOLLIN, STOP);
    if (r == 0)
        r = add(watch, watch->fd, EPOLLONESHOT, READABLE); /* not armed */
    return r == 0 ? thread_begin(&watch->thread, "tca-watch", watch_main, watch) : r;
}

static void close_all(struct watch *watch)
{
    if (watch->epoll_fd >= 0)
        close(watch->epoll_fd);
    if (watch->stop_fd >= 0)
        close(watch->stop_fd);
    free(watch);
}

int watch_new(int fd, struct notify_segment *segment, struct watch **ret_watch)
{
    struct watch *watch = malloc(sizeof(*watch));
    if (!watch)
        return -ENOMEM;
    *watch = (struct watch){.segment = segment, .fd = fd, .epoll_fd = -1, .stop_fd = -1};
    int r = begin(watch);
    if (r < 0)
        close_all(watch);
    else
        *ret_watch = watch;
    return r;
}

int watch_arm(struct watch *watch)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.u32 = READABLE};
    return epoll_ctl(watch->epoll_fd, EPOLL_CTL_MOD, watch->fd, &event) < 0 ? -errno : 0;
}

struct watch *watch_free(struct watch *watch, bool ours)
{
    if (!watch)
        return NULL;
    if (ours) {
        eventfd_write(watch->stop_fd, 1);
        pthread_join(watch->thread, NULL);
    }
    close_all(watch);
    return NULL;
}
