#include <errno.h>
#include <event2/listener.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "daemon/base/loop_internal.h"

enum {
    BACKLOG = 256,
    PAUSE_MS = 100,
    CLOSING_MS = 10, /* until a refused connection is looked at again that is being closed */
};

struct listener {
    struct loop *loop;
    struct evconnlistener *connections;
    struct loop_timer *pause;
    bool complained;
    bool held; /* by listener_hold() */
    int error; /* that made it pause */
    int spare_fd;
    void (*accepted)(void *context, int fd, const char *from);
    bool (*more)(void *context);
    void (*refused)(void *context, int fd, int error); /* NULL: connections wait */
    void *context;
};

/* "10.0.0.7:40332"; "" for anything but IP. */
static void where_text(const struct sockaddr *address, socklen_t bytes, char *ret_text,
                       size_t text_bytes)
{
    char host[INET6_ADDRSTRLEN + IF_NAMESIZE + 1], port[8];

    ret_text[0] = '\0';
    if (address->sa_family != AF_INET && address->sa_family != AF_INET6)
        return;
    if (getnameinfo(address, bytes, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return;
    snprintf(ret_text, text_bytes, address->sa_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host,
             port);
}

static void on_accept(struct evconnlistener *connections, int fd, struct sockaddr *address,
                      int bytes, void *context)
{
    struct listener *listener = context;
    char from[96];

    loop_awake(listener->loop);
    listener->complained = false;
    where_text(address, (socklen_t)bytes, from, sizeof(from));
    listener->accepted(listener->context, fd, from);
}

/* Most likely out of descriptors: pauses, as the pending connection would wake the loop again. */
static void on_error(struct evconnlistener *connections, void *context)
{
    struct listener *listener = context;
    int error = errno;

    if (!listener->complained)
        log_error(NULL,
                  "cannot accept connections: %s (raise LimitNOFILE= or end some clients); trying "
                  "again every %d ms",
                  strerrordesc_np(error), PAUSE_MS);
    listener->complained = true;
    listener->error = -error;
    evconnlistener_disable(connections);
    loop_timer_set(listener->pause, PAUSE_MS * UINT64_C(1000000), 0);
}

static int take_spare(void)
{
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* Refuses all pending connections as long as there is no descriptor except the spare one. Returns
 * false if refused() has not closed the last one yet, which has the spare one's place. */
static bool refuse_all(struct listener *listener)
{
    const int fd = evconnlistener_get_fd(listener->connections);
    for (int i = 0; i < BACKLOG; i++) {
        struct pollfd one = {.fd = fd, .events = POLLIN};
        if (listener->spare_fd < 0)
            listener->spare_fd = take_spare();
        if (listener->spare_fd < 0)
            return false;
        int free_fd = take_spare();
        if (free_fd >= 0) { /* descriptors are available again */
            close(free_fd);
            return true;
        }
        if (poll(&one, 1, 0) <= 0)
            return true;
        close(listener->spare_fd);
        listener->spare_fd = -1;
        int connection = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (connection >= 0)
            listener->refused(listener->context, connection, listener->error);
    }
    return true;
}

static void on_pause_over(void *context)
{
    struct listener *listener = context;
    if (listener->refused && (listener->error == -EMFILE || listener->error == -ENFILE) &&
        !listener->more(listener->context) && !refuse_all(listener)) {
        loop_timer_set(listener->pause, CLOSING_MS * UINT64_C(1000000), 0);
        return;
    }
    if (!listener->held)
        evconnlistener_enable(listener->connections);
}

void listener_hold(struct listener *listener, bool held)
{
    if (listener->held == held)
        return;
    listener->held = held;
    if (held)
        evconnlistener_disable(listener->connections);
    else
        evconnlistener_enable(listener->connections);
}

void listener_when_full(struct listener *listener, bool (*more)(void *context),
                        void (*refused)(void *context, int fd, int error))
{
    listener->more = more;
    listener->refused = refused;
    listener->spare_fd = take_spare();
}

int listener_fd(struct loop *loop, int fd,
                void (*accepted)(void *context, int fd, const char *from), void *context,
                struct listener **ret)
{
    struct listener *listener = calloc(1, sizeof(*listener));
    if (!listener)
        return -ENOMEM;
    listener->loop = loop;
    listener->spare_fd = -1;
    listener->accepted = accepted;
    listener->context = context;
    int r = evutil_make_socket_nonblocking(fd) < 0 ? -errno : 0;
    if (r == 0)
        r = loop_timer_new(loop, on_pause_over, listener, &listener->pause);
    if (r == 0) {
        listener->connections =
            evconnlistener_new(loop_base(loop), on_accept, listener,
                               LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, 0, fd);
        if (!listener->connections)
            r = -ENOMEM;
    }
    if (r < 0) {
        listener_free(listener);
        return r;
    }
    evconnlistener_set_error_cb(listener->connections, on_error);
    *ret = listener;
    return 0;
}

int listener_tcp(struct loop *loop, const struct sockaddr *address, socklen_t address_bytes,
                 void (*accepted)(void *context, int fd, const char *from), void *context,
                 struct listener **ret)
{
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    int one = 1, r = 0;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
        bind(fd, address, address_bytes) < 0 || listen(fd, BACKLOG) < 0)
        r = -errno;
    if (r == 0)
        r = listener_fd(loop, fd, accepted, context, ret);
    if (r < 0)
        close(fd);
    return r;
}

struct listener *listener_free(struct listener *listener)
{
    if (!listener)
        return NULL;
    loop_timer_free(listener->pause);
    if (listener->connections)
        evconnlistener_free(listener->connections);
    if (listener->spare_fd >= 0)
        close(listener->spare_fd);
    free(listener);
    return NULL;
}

int listener_port(const struct listener *listener)
{
    struct sockaddr_storage address;
    socklen_t bytes = sizeof(address);

    if (getsockname(evconnlistener_get_fd(listener->connections), (struct sockaddr *)&address,
                    &bytes) < 0)
        return -errno;
    if (address.ss_family == AF_INET)
        return ntohs(((struct sockaddr_in *)&address)->sin_port);
    if (address.ss_family == AF_INET6)
        return ntohs(((struct sockaddr_in6 *)&address)->sin6_port);
    return -EAFNOSUPPORT;
}
