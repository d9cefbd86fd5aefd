/* What instances with and without a listener have in common. */
#include <errno.h>
#include <openssl/bio.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "drivers/table.h"
#include "drivers/tcp/tcp.h"

static int set_up(struct tcp_driver *tcp)
{
    tcp->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    tcp->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    return tcp->epoll_fd < 0 || tcp->timer_fd < 0
               ? -errno
               : tcp_stream_init(tcp, &tcp->timer, TCP_TIMER, tcp->timer_fd);
}

int tcp_instance_new(const struct driver_events *events, struct tcp_driver **ret_tcp)
{
    struct tcp_driver *tcp = calloc(1, sizeof *tcp);
    if (!tcp)
        return -ENOMEM;
    tcp->driver = (struct driver){.ops = &tcp_driver_ops, .events = *events};
    tcp->epoll_fd = tcp->timer_fd = tcp->listener.fd = tcp->timer.fd = -1;
    tcp->landings = LANDINGS_INIT;
    pthread_mutex_init(&tcp->lock, NULL);
    int r = set_up(tcp);
    if (r < 0) {
        tcp_close(&tcp->driver);
        return r;
    }
    *ret_tcp = tcp;
    return 0;
}

void tcp_close(struct driver *driver)
{
    struct tcp_driver *tcp = tcp_of(driver);
    while (tcp->openings)
        tcp_opening_free(tcp, tcp->openings);
    while (tcp->sources)
        tcp_source_free(tcp, tcp->sources);
    for (struct tcp_stream *stream = tcp->dead, *next; stream; stream = next) {
        next = stream->next_dead;
        free(stream);
    }
    tcp_stream_close(&tcp->listener);
    tcp->timer.fd = -1;
    if (tcp->timer_fd >= 0)
        close(tcp->timer_fd);
    if (tcp->epoll_fd >= 0)
        close(tcp->epoll_fd);
    SSL_CTX_free(tcp->tls);
    BIO_meth_free(tcp->seal_method);
    landings_deinit(&tcp->landings);
    free(tcp->admitted);
    free(tcp->expected);
    pthread_mutex_destroy(&tcp->lock);
    free(tcp);
}
