#include "drivers/manycore/server.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "drivers/manycore/port.h"
#include "proto/list.h"
#include "proto/thread.h"
#include "proto/wait.h"

enum { FULL_MS = 1 }; /* between looks for space in a ring of completions */

struct port_server {
    struct verbs_device *device;
    pthread_t thread;
    bool running;
    pthread_mutex_t mutex;   /* held during a round, free during sleep */
    _Atomic uint32_t wanted; /* threads in port_server_lock() */
    _Atomic bool stop;
    int epoll_fd, call_fd;
    struct waiter waiter;
    struct port *ports;
};

static int watch(struct port_server *server, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events};
    return epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

/* ---- the thread ---- */

unsigned port_server_round(struct port_server *server)
{
    unsigned work = 0;
    for (struct port *port = server->ports; port; port = port->next)
        work += port_serve(port);
    if (server->device->ops->progress)
        work += server->device->ops->progress(server->device);
    return work;
}

/* Whether the server may sleep. */
static bool arm_all(struct port_server *server, int *ret_timeout_ms)
{
    *ret_timeout_ms = -1;
    for (struct port *port = server->ports; port; port = port->next) {
        if (!port_arm(port))
            return false;
        if (port->full)
            *ret_timeout_ms = FULL_MS;
    }
    return !server->device->ops->progress || server->device->ops->progress(server->device) == 0;
}

static void disarm_all(struct port_server *server)
{
    for (struct port *port = server->ports; port; port = port->next)
        port_disarm(port);
}

/* Edge-triggered: nobody needs to empty the ports' eventfds, which their processors could make
 * block. */
static void sleep_until_woken(struct port_server *server, int timeout_ms)
{
    struct epoll_event events[16];
    pthread_mutex_unlock(&server->mutex);
    epoll_wait(server->epoll_fd, events, 16, timeout_ms);
    pthread_mutex_lock(&server->mutex);
    if (server->device->event_fd >= 0)
        server->device->ops->take_events(server->device);
}

static void make_way(struct port_server *server)
{
    while (atomic_load_explicit(&server->wanted, memory_order_relaxed) > 0) {
        pthread_mutex_unlock(&server->mutex);
        sched_yield();
        pthread_mutex_lock(&server->mutex);
    }
}

static void *port_server_main(void *argument)
{
    struct port_server *server = argument;
    pthread_mutex_lock(&server->mutex);
    while (!atomic_load_explicit(&server->stop, memory_order_relaxed)) {
        int timeout_ms;
        make_way(server);
        if (port_server_round(server) > 0) {
            waiter_begin(&server->waiter);
        } else if (waiter_step_dear(&server->waiter) == WAITER_SLEEP) {
            if (arm_all(server, &timeout_ms))
                sleep_until_woken(server, timeout_ms);
            disarm_all(server);
            waiter_begin(&server->waiter);
        }
    }
    pthread_mutex_unlock(&server->mutex);
    return NULL;
}

/* ---- for other threads ---- */

void port_server_lock(struct port_server *server)
{
    atomic_fetch_add_explicit(&server->wanted, 1, memory_order_relaxed);
    pthread_mutex_lock(&server->mutex);
    atomic_fetch_sub_explicit(&server->wanted, 1, memory_order_relaxed);
}

void port_server_unlock(struct port_server *server)
{
    pthread_mutex_unlock(&server->mutex);
    port_server_wake(server);
}

void port_server_wake(struct port_server *server)
{
    eventfd_write(server->call_fd, 1);
}

int port_server_add(struct port_server *server, struct port *port)
{
    int r = watch(server, port->wake_fd, EPOLLIN | EPOLLET);
    if (r < 0)
        return r;
    port_server_lock(server);
    LIST_ADD(&server->ports, port, next, link);
    port_server_unlock(server);
    return 0;
}

void port_server_remove(struct port *port)
{
    struct port_server *server = port->server;
    if (!port->link)
        return;
    port_server_lock(server);
    LIST_REMOVE(port, next, link);
    port_server_unlock(server);
    /* the processor can hold the eventfd open, which would keep it in the set */
    epoll_ctl(server->epoll_fd, EPOLL_CTL_DEL, port->wake_fd, NULL);
}

/* ---- life ---- */

int port_server_new(struct verbs_device *device, uint64_t spin_ns, uint64_t yield_ns,
                    struct port_server **ret_server)
{
    struct port_server *server = calloc(1, sizeof(*server));
    if (!server)
        return -ENOMEM;
    server->device = device;
    pthread_mutex_init(&server->mutex, NULL);
    waiter_init(&server->waiter, (uint32_t)spin_ns, (uint32_t)yield_ns);
    server->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    server->call_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int r = server->epoll_fd < 0 || server->call_fd < 0
                ? -errno
                : watch(server, server->call_fd, EPOLLIN | EPOLLET);
    if (r == 0 && device->event_fd >= 0)
        r = watch(server, device->event_fd, EPOLLIN | EPOLLET);
    if (r == 0)
        r = thread_begin(&server->thread, "tcad-dcfa", port_server_main, server);
    server->running = r == 0;
    if (r < 0) {
        port_server_free(server);
        return r;
    }
    *ret_server = server;
    return 0;
}

struct port_server *port_server_free(struct port_server *server)
{
    if (!server)
        return NULL;
    if (server->running) {
        atomic_store(&server->stop, true);
        eventfd_write(server->call_fd, 1);
        pthread_join(server->thread, NULL);
    }
    if (server->epoll_fd >= 0)
        close(server->epoll_fd);
    if (server->call_fd >= 0)
        close(server->call_fd);
    pthread_mutex_destroy(&server->mutex);
    free(server);
    return NULL;
}
