/* When instances of the tcp driver, as in processes, send short puts, and when they may sleep. */
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/drivers/adopted.h"

TestSuite(tcp_bursts, .init = setup, .fini = teardown, .timeout = 120);

/* Bytes on their way. */
static int in_socket(const struct pair *pair)
{
    int bytes;
    cr_assert(ioctl(connection_of(pair->back)->fd, FIONREAD, &bytes) == 0);
    return bytes;
}

/* A put of 8 bytes, and how many bytes the socket has got by it. */
static int push(struct pair *pair, struct driver_put *put, struct op *op)
{
    const int before = in_socket(pair);
    op_init(op);
    cr_assert(sender.driver->ops->put_post(sender.driver, put, &op->op) == 0);
    tcp_push(sender.driver);
    return in_socket(pair) - before;
}

enum { BURST = TCP_CORK_PIECES + 1, SHORT = 8 + sizeof(struct tcp_head) };

struct burst {
    struct pair pair;
    struct driver_put *puts[BURST];
    struct op ops[BURST];
};

static void burst_open(struct burst *burst)
{
    struct driver_put_info info;
    struct pair *pair = &burst->pair;
    pair_open(pair, 1);
    for (unsigned i = 0; i < BURST; i++) {
        const struct driver_put_args args = {.peer = pair->peer,
                                             .region = sender.region,
                                             .layout = pair->layouts[0],
                                             .landing = &pair->blobs[0],
                                             .landing_bytes = sizeof(pair->blobs[0]),
                                             .target_layout = pair->layouts[0]};
        cr_assert(sender.driver->ops->put_prepare(sender.driver, &args, &burst->puts[i], &info) ==
                  0);
    }
    join(pair, NULL);
    run(pair, 1);
    pump_rounds(&sender, &receiver, 1000); /* nothing is under way */
}

static void burst_close(struct burst *burst)
{
    for (unsigned i = 0; i < BURST; i++)
        sender.driver->ops->put_release(sender.driver, burst->puts[i]);
    pair_close(&burst->pair);
}

/* The first goes at once. The others go together, with a long one, or when there are many. */
Test(tcp_bursts, bursts_are_corked)
{
    struct burst burst;
    burst_open(&burst);
    struct tcp_sender *puts = &((struct tcp_peer *)burst.pair.peer)->sender;
    cr_assert(push(&burst.pair, burst.puts[0], &burst.ops[0]) == SHORT);
    for (unsigned i = 1; i < BURST - 1; i++)
        cr_assert(push(&burst.pair, burst.puts[i], &burst.ops[i]) == 0);
    cr_assert(push(&burst.pair, burst.puts[BURST - 1], &burst.ops[BURST - 1]) ==
              SHORT * (BURST - 1));
    pump_rounds(&sender, &receiver, 100);
    cr_assert(puts->uncorked == 0); /* nothing was kept for long */

    cr_assert(push(&burst.pair, burst.puts[0], &burst.ops[0]) == SHORT);
    cr_assert(push(&burst.pair, burst.puts[1], &burst.ops[1]) == 0);
    pump_rounds(&sender, NULL, 1);
    cr_assert(in_socket(&burst.pair) == 2 * SHORT);
    for (unsigned i = 0; i < BURST; i++)
        cr_assert(burst.ops[i].done == 1 && burst.ops[i].status == 0);
    pump_rounds(&sender, &receiver, 100);
    puts->uncorked = 0; /* this machine may be slow */

    cr_assert(push(&burst.pair, burst.puts[0], &burst.ops[0]) == SHORT);
    cr_assert(push(&burst.pair, burst.puts[1], &burst.ops[1]) == 0);
    cr_assert(push(&burst.pair, burst.pair.puts[1], &burst.ops[2]) > SHORT + 8000);
    pump_rounds(&sender, &receiver, 100);
    burst_close(&burst);
}

/* Of a process that computes for long before it looks again, all go at once. */
Test(tcp_bursts, bursts_that_waited)
{
    struct burst burst;
    burst_open(&burst);
    cr_assert(push(&burst.pair, burst.puts[0], &burst.ops[0]) == SHORT);
    cr_assert(push(&burst.pair, burst.puts[1], &burst.ops[1]) == 0);
    usleep(2 * TCP_CORK_US);
    for (unsigned turn = 0; turn < TCP_UNCORKED_BURSTS; turn++) {
        pump_rounds(&sender, &receiver, 100);
        for (unsigned i = 0; i < 3; i++)
            cr_assert(push(&burst.pair, burst.puts[i], &burst.ops[i]) == SHORT);
    }
    pump_rounds(&sender, &receiver, 100);
    cr_assert(push(&burst.pair, burst.puts[0], &burst.ops[0]) == SHORT);
    cr_assert(push(&burst.pair, burst.puts[1], &burst.ops[1]) == 0); /* it is tried again */
    pump_rounds(&sender, &receiver, 100);
    burst_close(&burst);
}

/* ---- several flows ---- */

static uint64_t uncounted_bytes(const struct tcp_sender *puts)
{
    const struct window *window = &puts->window;
    const struct tcp_piece *piece = (struct tcp_piece *)window_piece(window, window->counted);
    return window->counted == window->made ? 0 : puts->straight_bytes - piece->straight_bytes;
}

/* Only a short put of another flow tells a long one that it is not alone: then few of its bytes are
 * under way at a time, and behind no more than these are other short ones. */
Test(tcp_bursts, sharing)
{
    const int room = 8 << 20;
    struct pair pair;
    struct driver_put *other;
    struct driver_put_info info;
    struct op op;
    uint64_t most[2] = {0};
    pair_open(&pair, 1);
    const struct driver_put_args args = {.peer = pair.peer,
                                         .flow = 1,
                                         .region = sender.region,
                                         .layout = pair.layouts[0],
                                         .landing = &pair.blobs[0],
                                         .landing_bytes = sizeof(pair.blobs[0]),
                                         .target_layout = pair.layouts[0]};
    cr_assert(sender.driver->ops->put_prepare(sender.driver, &args, &other, &info) == 0);
    join(&pair, NULL);
    run(&pair, 1);
    const struct tcp_sender *puts = &((struct tcp_peer *)pair.peer)->sender;
    const int fd = puts->connection->fd;
    cr_assert(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)) == 0);
    for (unsigned shared = 0; shared < 2; shared++) {
        if (shared) {
            op_init(&op);
            cr_assert(post(&sender, NULL, other, &op) == 0);
        }
        op_init(&pair.ops[2]);
        cr_assert(post(&sender, NULL, pair.puts[2], &pair.ops[2]) == 0);
        while (!pair.ops[2].done) {
            pump_rounds(&sender, NULL, 20);
            const uint64_t bytes = uncounted_bytes(puts);
            most[shared] = bytes > most[shared] ? bytes : most[shared];
            pump_rounds(&sender, &receiver, 1);
        }
        pump_rounds(&sender, &receiver, 100);
        cr_assert(puts->window.counted == puts->window.made);
    }
    cr_assert(most[1] <= TCP_SHARED_BYTES + TCP_SHARED_PIECE_BYTES, "%llu bytes",
              (unsigned long long)most[1]);
    cr_assert(most[0] > TCP_SHARED_BYTES + TCP_PIECE_BYTES, "%llu bytes",
              (unsigned long long)most[0]);
    sender.driver->ops->put_release(sender.driver, other);
    pair_close(&pair);
}

/* ---- sleeping ---- */

static bool may_sleep(const struct side *side)
{
    const struct driver_ops *ops = side->driver->ops;
    struct pollfd event = {.fd = ops->event_fd(side->driver), .events = POLLIN};
    return ops->arm(side->driver) == 0 && poll(&event, 1, 0) == 0;
}

/* Who is awaited and says nothing keeps nobody awake. */
Test(tcp_bursts, silence)
{
    struct pair pair;
    int ends[4];
    pair_open(&pair, 1);
    cr_assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    cr_assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends + 2) == 0);
    pump_rounds(&sender, &receiver, 10);
    cr_assert(may_sleep(&sender) && may_sleep(&receiver)); /* without a connection */
    cr_assert(tcp_adopt(sender.driver, pair.peer, ends[0], true, true, right) == 0);
    cr_assert(tcp_adopt(receiver.driver, pair.back, ends[2], false, true, right) == 0);
    const struct tcp_sender *puts = &((struct tcp_peer *)pair.peer)->sender;
    cr_assert(puts->down_ns == 0 &&
              puts->connection->deadline_ns == 0);     /* only the socket ends it */
    cr_assert(write(ends[3], "\x16\x03\x01", 3) == 3); /* a record that begins */
    pump_rounds(&sender, &receiver, 10);
    cr_assert(may_sleep(&sender) && may_sleep(&receiver));
    close(ends[1]);
    close(ends[3]);
    pump_rounds(&sender, &receiver, 10);
    join(&pair, right);
    run(&pair, 1);
    pair_close(&pair);
}
