/* A process that sleeps on its doorbell, and is woken by neighbours and by a descriptor: no wake-up is lost. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/core/watch.h"
#include "proto/notify.h"

enum { ROUNDS = 20000 };

/* A process that reads from a socket, which is inside an epoll descriptor as a driver's is. */
struct sleeper {
    int own, epoll_fd;
    struct notify_segment segment;
    struct watch *watch;
    _Atomic uint64_t told, taken; /* by a neighbour; of these */
};

static void sleeper_init(struct sleeper *sleeper, int fd)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    sleeper->own = fd;
    sleeper->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    cr_assert_eq(epoll_ctl(sleeper->epoll_fd, EPOLL_CTL_ADD, fd, &event), 0);
    cr_assert_eq(watch_new(sleeper->epoll_fd, &sleeper->segment, &sleeper->watch), 0);
}

static void sleeper_deinit(struct sleeper *sleeper)
{
    watch_free(sleeper->watch, true);
    close(sleeper->epoll_fd);
    close(sleeper->own);
}

static bool received(struct sleeper *sleeper)
{
    struct epoll_event event;
    char byte;
    epoll_wait(sleeper->epoll_fd, &event, 1, 0);
    return recv(sleeper->own, &byte, 1, MSG_DONTWAIT) == 1;
}

static bool told(struct sleeper *sleeper)
{
    if (atomic_load_explicit(&sleeper->told, memory_order_acquire) == sleeper->taken)
        return false;
    atomic_fetch_add_explicit(&sleeper->taken, 1, memory_order_release);
    return true;
}

/* Sleeps at every opportunity, without a time-out. */
static void wait_for(struct sleeper *sleeper, bool (*ready)(struct sleeper *))
{
    while (!ready(sleeper)) {
        const uint32_t doorbell = notify_prepare_sleep(&sleeper->segment);
        if (ready(sleeper)) {
            notify_cancel_sleep(&sleeper->segment);
            return;
        }
        cr_assert_eq(watch_arm(sleeper->watch), 0);
        notify_sleep(&sleeper->segment, doorbell, -1);
    }
}

static void *reply(void *argument)
{
    struct sleeper *sleeper = argument;
    for (int i = 0; i < ROUNDS; i++) {
        wait_for(sleeper, received);
        if (send(sleeper->own, "", 1, 0) != 1)
            abort();
    }
    return NULL;
}

Test(watch, a_descriptor)
{
    struct sleeper here = {0}, there = {0};
    pthread_t thread;
    int fds[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    sleeper_init(&here, fds[0]);
    sleeper_init(&there, fds[1]);
    cr_assert_eq(pthread_create(&thread, NULL, reply, &there), 0);
    for (int i = 0; i < ROUNDS; i++) {
        cr_assert_eq(send(here.own, "", 1, 0), 1);
        wait_for(&here, received);
    }
    pthread_join(thread, NULL);
    sleeper_deinit(&here);
    sleeper_deinit(&there);
}

static void *tell(void *argument)
{
    struct sleeper *sleeper = argument;
    for (uint64_t i = 0; i < ROUNDS; i++) {
        while (atomic_load_explicit(&sleeper->taken, memory_order_acquire) < i)
            sched_yield();
        atomic_fetch_add_explicit(&sleeper->told, 1, memory_order_release);
        notify_wake(&sleeper->segment);
    }
    return NULL;
}

/* Both at once: a wake-up by one source is not taken for the other's. */
Test(watch, a_neighbour_too)
{
    struct sleeper here = {0}, there = {0};
    pthread_t threads[2];
    int fds[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    sleeper_init(&here, fds[0]);
    sleeper_init(&there, fds[1]);
    cr_assert_eq(pthread_create(&threads[0], NULL, reply, &there), 0);
    cr_assert_eq(pthread_create(&threads[1], NULL, tell, &here), 0);
    for (int i = 0; i < ROUNDS; i++) {
        cr_assert_eq(send(here.own, "", 1, 0), 1);
        wait_for(&here, told);
        wait_for(&here, received);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    sleeper_deinit(&here);
    sleeper_deinit(&there);
}

Test(watch, not_armed)
{
    struct sleeper here = {0};
    int fds[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    sleeper_init(&here, fds[0]);
    const uint32_t doorbell = notify_prepare_sleep(&here.segment);
    cr_assert_eq(send(fds[1], "", 1, 0), 1);
    cr_assert_eq(notify_sleep(&here.segment, doorbell, 10 * 1000 * 1000), -ETIMEDOUT);
    sleeper_deinit(&here);
    close(fds[1]);
}

Test(watch, a_forked_child)
{
    struct sleeper here = {0};
    int fds[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    sleeper_init(&here, fds[0]);
    if (fork() == 0) {
        watch_free(here.watch, false);
        _exit(0);
    }
    cr_assert_eq(send(fds[1], "", 1, 0), 1);
    wait_for(&here, received);
    sleeper_deinit(&here);
    close(fds[1]);
}
