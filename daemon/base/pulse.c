#include "daemon/base/pulse.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "daemon/base/loop.h"
#include "proto/heartbeat.h"
#include "proto/thread.h"
#include "proto/wait.h"

enum { BURST_MAX = 64 }; /* datagrams read before due heartbeats are sent */

struct pulse {
    struct pulse *next;
    struct pulses *pulses;
    uint32_t node;
    uint64_t key_in[2], key_out[2];
    uint64_t interval_ns, due_ns;
    uint64_t sequence; /* of the last heartbeat received */
    struct sockaddr_storage address;
    socklen_t address_bytes; /* 0: not known yet */
    _Atomic uint64_t heard_ns;
};

struct pulses {
    const struct loop *loop;
    uint32_t node;
    int fd, wake_fd;
    uint16_t port;
    pthread_t thread;
    bool running;
    _Atomic bool stop;
    pthread_mutex_t mutex; /* protects the list; held only while it is traversed or changed */
    struct pulse *first;
};

/* ---- the thread ---- */

static void take(struct pulses *pulses, const uint8_t *bytes, size_t count,
                 const struct sockaddr_storage *from, socklen_t from_bytes)
{
    struct heartbeat heartbeat;
    if (heartbeat_parse(bytes, count, &heartbeat) < 0 || heartbeat.to != pulses->node)
        return;
    struct pulse *pulse = pulses->first;
    while (pulse && pulse->node != heartbeat.from)
        pulse = pulse->next;
    if (!pulse || heartbeat.sequence <= pulse->sequence ||
        !heartbeat_is_signed(bytes, pulse->key_in))
        return;
    pulse->sequence = heartbeat.sequence;
    atomic_store_explicit(&pulse->heard_ns, clock_now_ns(), memory_order_relaxed);
    if (pulse->address_bytes == 0)
        pulse->due_ns = 0; /* reply at once: the peer waits for it */
    memcpy(&pulse->address, from, from_bytes);
    pulse->address_bytes = from_bytes;
}

static void receive(struct pulses *pulses)
{
    for (int i = 0; i < BURST_MAX; i++) {
        uint8_t bytes[HEARTBEAT_BYTES + 1]; /* + 1: detects longer datagrams */
        struct sockaddr_storage from;
        socklen_t from_bytes = sizeof(from);
        ssize_t count =
            recvfrom(pulses->fd, bytes, sizeof(bytes), 0, (struct sockaddr *)&from, &from_bytes);
        if (count < 0)
            return; /* no datagram, or an earlier one from here reached a closed port */
        take(pulses, bytes, (size_t)count, &from, from_bytes);
    }
}

static void send_one(const struct pulses *pulses, struct pulse *pulse, uint64_t now_ns)
{
    uint8_t bytes[HEARTBEAT_BYTES];
    heartbeat_sign(&(struct heartbeat){pulses->node, pulse->node, now_ns}, pulse->key_out, bytes);
    pulse->due_ns = now_ns + pulse->interval_ns;
    /* errors are ignored: the next heartbeat follows */
    (void)!sendto(pulses->fd, bytes, sizeof(bytes), 0, (struct sockaddr *)&pulse->address,
                  pulse->address_bytes);
}

/* Sends all due heartbeats. Returns when the next is due; UINT64_MAX: none. */
static uint64_t send_due(const struct pulses *pulses)
{
    const bool stuck = loop_busy_ns(pulses->loop) >= PULSE_STUCK_NS;
    const uint64_t now = clock_now_ns();
    uint64_t next_ns = UINT64_MAX;
    for (struct pulse *pulse = pulses->first; pulse; pulse = pulse->next) {
        if (pulse->address_bytes == 0)
            continue;
        if (pulse->due_ns <= now && stuck)
            pulse->due_ns = now + pulse->interval_ns;
        else if (pulse->due_ns <= now)
            send_one(pulses, pulse, now);
        next_ns = pulse->due_ns < next_ns ? pulse->due_ns : next_ns;
    }
    return next_ns;
}

static int timeout_ms(uint64_t next_ns)
{
    const uint64_t now = clock_now_ns();
    if (next_ns == UINT64_MAX)
        return -1;
    return next_ns <= now ? 0 : (int)((next_ns - now) / 1000000 + 1);
}

static void *run(void *argument)
{
    struct pulses *pulses = argument;
    struct pollfd fds[] = {{.fd = pulses->fd, .events = POLLIN},
                           {.fd = pulses->wake_fd, .events = POLLIN}};
    while (!atomic_load_explicit(&pulses->stop, memory_order_relaxed)) {
        uint64_t count;
        pthread_mutex_lock(&pulses->mutex);
        receive(pulses);
        uint64_t next_ns = send_due(pulses);
        pthread_mutex_unlock(&pulses->mutex);
        poll(fds, 2, timeout_ms(next_ns));
        (void)!read(pulses->wake_fd, &count, sizeof(count));
    }
    return NULL;
}

/* ---- from the loop ---- */

static void wake(struct pulses *pulses)
{
    eventfd_write(pulses->wake_fd, 1);
}

static int open_socket(struct pulses *pulses, const struct sockaddr *address,
                       socklen_t address_bytes)
{
    struct sockaddr_storage own;
    socklen_t own_bytes = sizeof(own);
    memcpy(&own, address, address_bytes);
    in_port_t *port = own.ss_family == AF_INET6 ? &((struct sockaddr_in6 *)&own)->sin6_port
                                                : &((struct sockaddr_in *)&own)->sin_port;
    pulses->fd = socket(own.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (pulses->fd < 0)
        return -errno;
    int r = bind(pulses->fd, (struct sockaddr *)&own, address_bytes);
    if (r < 0 && errno == EADDRINUSE) {
        *port = 0;
        r = bind(pulses->fd, (struct sockaddr *)&own, address_bytes);
    }
    if (r < 0 || getsockname(pulses->fd, (struct sockaddr *)&own, &own_bytes) < 0)
        return -errno;
    pulses->port = ntohs(*port);
    return 0;
}

int pulses_new(const struct loop *loop, uint32_t node, const struct sockaddr *address,
               socklen_t address_bytes, struct pulses **ret_pulses)
{
    struct pulses *pulses = calloc(1, sizeof(*pulses));
    if (!pulses)
        return -ENOMEM;
    pulses->loop = loop;
    pulses->node = node;
    pthread_mutex_init(&pulses->mutex, NULL);
    pulses->fd = -1;
    pulses->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int r = pulses->wake_fd < 0 ? -errno : open_socket(pulses, address, address_bytes);
    if (r == 0)
        r = thread_begin(&pulses->thread, "tcad-pulse", run, pulses);
    pulses->running = r == 0;
    if (r < 0) {
        pulses_free(pulses);
        return r;
    }
    *ret_pulses = pulses;
    return 0;
}

struct pulses *pulses_free(struct pulses *pulses)
{
    if (!pulses)
        return NULL;
    if (pulses->running) {
        atomic_store_explicit(&pulses->stop, true, memory_order_relaxed);
        wake(pulses);
        pthread_join(pulses->thread, NULL);
    }
    if (pulses->fd >= 0)
        close(pulses->fd);
    if (pulses->wake_fd >= 0)
        close(pulses->wake_fd);
    pthread_mutex_destroy(&pulses->mutex);
    free(pulses);
    return NULL;
}

uint16_t pulses_port(const struct pulses *pulses)
{
    return pulses->port;
}

int pulse_new(struct pulses *pulses, const struct pulse_args *args, struct pulse **ret_pulse)
{
    struct pulse *pulse = calloc(1, sizeof(*pulse));
    if (!pulse)
        return -ENOMEM;
    pulse->pulses = pulses;
    pulse->node = args->node;
    memcpy(pulse->key_in, args->key_in, sizeof(pulse->key_in));
    memcpy(pulse->key_out, args->key_out, sizeof(pulse->key_out));
    pulse->interval_ns = args->interval_ns;
    if (args->address)
        memcpy(&pulse->address, args->address, args->address_bytes);
    pulse->address_bytes = args->address ? args->address_bytes : 0;
    pthread_mutex_lock(&pulses->mutex);
    pulse->next = pulses->first;
    pulses->first = pulse;
    pthread_mutex_unlock(&pulses->mutex);
    wake(pulses);
    *ret_pulse = pulse;
    return 0;
}

struct pulse *pulse_free(struct pulse *pulse)
{
    if (!pulse)
        return NULL;
    struct pulses *pulses = pulse->pulses;
    pthread_mutex_lock(&pulses->mutex);
    struct pulse **at = &pulses->first;
    while (*at != pulse)
        at = &(*at)->next;
    *at = pulse->next;
    pthread_mutex_unlock(&pulses->mutex);
    explicit_bzero(pulse, sizeof(*pulse));
    free(pulse);
    return NULL;
}

uint64_t pulse_heard_ns(struct pulse *pulse)
{
    return atomic_load_explicit(&pulse->heard_ns, memory_order_relaxed);
}
