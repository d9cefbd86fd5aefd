/*
 * How fast the rail tcp can be: a ping-pong of two processes over loopback by write() and read(),
 * by OpenSSL, and by the driver itself in clear and encrypted, without daemons. Rounds take turns.
 *
 *     tcp_bound [SIZES [ROUNDS]]       sizes with commas (8,4096,65536,1048576), rounds (20)
 *
 * Prints microseconds one way: first quartile and median of the rounds, and the ratio of the
 * quartiles to that of the first line with the same security.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "drivers/table.h"
#include "drivers/tcp/config.h"
#include "drivers/tcp/tcp.h"
#include "drivers/tcp/tcp_tls.h"
#include "proto/wait.h"

enum way { BARE, OPENSSL, DRIVER, DRIVER_TLS, WAYS };
static const char *const names[WAYS] = {"write and read", "OpenSSL", "driver, in clear",
                                        "driver, TLS 1.3"};
enum {
    ROUNDS_MAX = 1000,
    BYTES_MAX = 64 << 20,
    ROUND_BYTES = 4 << 20,
    TURNS_MIN = 4,
    TURNS_MAX = 500
};

static unsigned rank, rounds = 20;
static uint8_t *out, *in;
static int connection; /* of BARE and OPENSSL */
static SSL *ssl;

static void require(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "tcp_bound: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* ---- sockets ---- */

static void connect_pair(int listener, const struct sockaddr_in *at)
{
    const int one = 1;
    if (rank == 0) {
        connection = accept(listener, NULL, NULL);
    } else {
        connection = socket(AF_INET, SOCK_STREAM, 0);
        require(connect(connection, (const struct sockaddr *)at, sizeof(*at)) == 0, "connect");
    }
    require(connection >= 0, "accept");
    setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

static void open_ssl(void)
{
    static const uint8_t secret[TCP_SECRET_BYTES] = "of both";
    static struct tcp_tls tls = {.secret = secret};
    SSL_CTX *context;
    require(tcp_tls_new(&context) == 0, "TLS");
    ssl = tcp_tls_session(context, rank == 0, &tls);
    require(ssl && SSL_set_fd(ssl, connection) && SSL_do_handshake(ssl) == 1, "handshake");
}

static ssize_t move(enum way way, bool sends, uint8_t *bytes, size_t count)
{
    size_t done;
    if (way == OPENSSL)
        return (sends ? SSL_write_ex(ssl, bytes, count, &done)
                      : SSL_read_ex(ssl, bytes, count, &done))
                   ? (ssize_t)done
                   : 0;
    return sends ? write(connection, bytes, count) : recv(connection, bytes, count, MSG_DONTWAIT);
}

static void transfer(enum way way, bool sends, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t n = move(way, sends, (sends ? out : in) + done, bytes - done);
        if (n > 0)
            done += (size_t)n;
        else
            require(n < 0 && errno == EAGAIN, "connection");
    }
}

/* ---- the driver ---- */

struct card { /* what the other end has to know */
    struct tcp_address address;
    struct tcp_blob blob;
};

struct end {
    struct driver *driver;
    struct driver_region *region[2]; /* source, target */
    struct layout *layout;
    struct driver_landing *landing;
    struct driver_peer *peer;
    struct driver_put *put;
    struct driver_op op;
    unsigned arrived, posted, done, failed;
    struct card other;
};

static void arrived(void *context, uint64_t token)
{
    ((struct end *)context)->arrived++;
}

static void done(struct driver_op *op, int status)
{
    struct end *end = op->owner;
    end->done++;
    end->failed += status < 0;
}

static void open_driver(struct end *end, bool plain, size_t bytes, int control)
{
    const struct driver_ops *ops = &tcp_driver_ops;
    const struct tcp_config loopback = {.address = "127.0.0.1", .plain = plain};
    const struct driver_config config = {.own = &loopback};
    const struct driver_events events = {.notified = arrived, .context = end};
    const struct driver_memory memory[] = {{.base = out, .length_bytes = bytes, .fd = -1},
                                           {.base = in, .length_bytes = bytes, .fd = -1}};
    struct driver_put_info info;
    struct card own;
    uint8_t offer[OFFER_MAX_BYTES];
    size_t blob_bytes, offer_bytes;
    require(ops->open(&config, &events, &end->driver) == 0, "driver");
    require(ops->region_add(end->driver, &memory[0], &end->region[0]) == 0 &&
                ops->region_add(end->driver, &memory[1], &end->region[1]) == 0 &&
                layout_contiguous(bytes, &end->layout) == 0,
            "region");
    const struct driver_landing_args target = {
        .region = end->region[1], .layout = end->layout, .notify = true};
    require(ops->landing_new(end->driver, &target, &end->landing, &own.blob, &blob_bytes) == 0,
            "landing");
    ops->address(end->driver, &own.address);
    require(write(control, &own, sizeof(own)) == sizeof(own) &&
                read(control, &end->other, sizeof(end->other)) == sizeof(end->other),
            "exchange");
    require(ops->peer_connect(end->driver, &end->other.address, sizeof(end->other.address),
                              &end->peer, offer, &offer_bytes) == 0,
            "peer");
    const struct driver_put_args args = {.peer = end->peer,
                                         .region = end->region[0],
                                         .layout = end->layout,
                                         .landing = &end->other.blob,
                                         .landing_bytes = blob_bytes,
                                         .target_layout = end->layout};
    require(ops->put_prepare(end->driver, &args, &end->put, &info) == 0, "put");
    end->op = (struct driver_op){.done = done, .owner = end};
}

static void progress(struct end *end)
{
    require(end->driver->ops->progress(end->driver, 64) >= 0 && end->failed == 0, "progress");
}

/* No put is in flight, either way. */
static void close_driver(struct end *end)
{
    const struct driver_ops *ops = end->driver->ops;
    ops->put_release(end->driver, end->put);
    ops->peer_disconnect(end->driver, end->peer);
    ops->landing_free(end->driver, end->landing);
    ops->region_remove(end->driver, end->region[0]);
    ops->region_remove(end->driver, end->region[1]);
    ops->close(end->driver);
    free(end->layout);
}

static void transfer_put(struct end *end, bool sends, unsigned turn)
{
    if (sends) {
        while (end->done < turn) /* of the last one: its source */
            progress(end);
        require(end->driver->ops->put_post(end->driver, end->put, &end->op) == 0, "post");
        end->posted++;
        progress(end);
    } else {
        while (end->arrived <= turn)
            progress(end);
    }
}

/* Until both are here: puts of the round that is over may be on their way still. */
static void meet(struct end *end, int control)
{
    char byte = 0;
    require(write(control, &byte, 1) == 1, "write");
    while (recv(control, &byte, 1, MSG_DONTWAIT) != 1)
        progress(end);
}

/* ---- rounds ---- */

static unsigned turns_of(size_t bytes)
{
    const unsigned turns = (unsigned)(ROUND_BYTES / bytes);
    return turns > TURNS_MAX ? TURNS_MAX : turns < TURNS_MIN ? TURNS_MIN : turns;
}

/* Microseconds one way. Both ends call it. */
static double measure(enum way way, struct end *ends, size_t bytes, unsigned *turn, int control)
{
    const unsigned turns = turns_of(bytes);
    const uint64_t begin_ns = clock_now_ns();
    for (unsigned i = 0; i < turns; i++, (*turn)++)
        for (unsigned side = 0; side < 2; side++)
            if (way == BARE || way == OPENSSL)
                transfer(way, side == rank, bytes);
            else
                transfer_put(&ends[way == DRIVER_TLS], side == rank, *turn);
    const uint64_t took_ns = clock_now_ns() - begin_ns;
    meet(&ends[way == DRIVER_TLS], control);
    return (double)took_ns / 2e3 / turns;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void report(size_t bytes, double found[WAYS][ROUNDS_MAX])
{
    for (unsigned way = 0; way < WAYS; way++)
        qsort(found[way], rounds, sizeof(found[way][0]), by_value);
    for (unsigned way = 0; way < WAYS; way++)
        printf("%9zu  %-18s %10.2f %10.2f %8.2f\n", bytes, names[way], found[way][rounds / 4],
               found[way][rounds / 2], found[way][rounds / 4] / found[way % 2][rounds / 4]);
}

static void run(size_t bytes, int control)
{
    static double found[WAYS][ROUNDS_MAX];
    struct end ends[2] = {0};
    unsigned turn[WAYS] = {0};
    open_driver(&ends[0], true, bytes, control);
    open_driver(&ends[1], false, bytes, control);
    for (unsigned way = 0; way < WAYS; way++) /* connections are made, buffers grow */
        measure(way, ends, bytes, &turn[way], control);
    for (unsigned round = 0; round < rounds; round++)
        for (unsigned way = 0; way < WAYS; way++)
            found[way][round] = measure(way, ends, bytes, &turn[way], control);
    for (unsigned i = 0; i < 2; i++) {
        while (ends[i].done < ends[i].posted)
            progress(&ends[i]);
        meet(&ends[i], control);
        close_driver(&ends[i]);
    }
    if (rank == 0)
        report(bytes, found);
}

static void bind_to(unsigned cpu)
{
    cpu_set_t all, one;
    CPU_ZERO(&one);
    if (sched_getaffinity(0, sizeof(all), &all) == 0 && CPU_COUNT(&all) > 1) {
        for (int i = 0; i < CPU_SETSIZE; i++)
            if (CPU_ISSET(i, &all) && cpu-- == 0)
                CPU_SET(i, &one);
        sched_setaffinity(0, sizeof(one), &one);
    }
}

int main(int argc, char **argv)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t at_bytes = sizeof(at);
    int control[2], status = 0;
    char sizes[] = "8,4096,65536,1048576", *list = argc > 1 ? argv[1] : sizes;
    rounds = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : rounds;
    require(rounds > 0 && rounds <= ROUNDS_MAX, "1 to 1000 rounds");
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    require(bind(listener, (struct sockaddr *)&at, sizeof(at)) == 0 && listen(listener, 2) == 0 &&
                getsockname(listener, (struct sockaddr *)&at, &at_bytes) == 0 &&
                socketpair(AF_UNIX, SOCK_SEQPACKET, 0, control) == 0,
            "sockets");
    signal(SIGPIPE, SIG_IGN);
    const pid_t child = fork();
    rank = child == 0;
    bind_to(rank);
    out = calloc(1, BYTES_MAX);
    in = calloc(1, BYTES_MAX);
    require(child >= 0 && out && in, "start");
    connect_pair(listener, &at);
    open_ssl();
    if (rank == 0)
        printf("    bytes  way                  quartile     median    ratio\n");
    for (char *size = strtok(list, ","); size; size = strtok(NULL, ",")) {
        const size_t bytes = strtoul(size, NULL, 10);
        require(bytes > 0 && bytes <= BYTES_MAX, "1 byte to 64 MiB");
        run(bytes, control[rank]);
    }
    if (rank == 0)
        waitpid(child, &status, 0);
    return status != 0;
}
