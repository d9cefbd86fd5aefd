/*
 * Connections that are handed to instances of the tcp driver, as to processes: they are cut and
 * replaced, and each put still arrives once; one that opens or writes what it may not harms no other.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "drivers/tcp/adopt.h"
#include "drivers/tcp/tcp.h"
#include "proto/wait.h"
#include "tests/unit/drivers/kit.h"

enum { REGION = 8 << 20, KINDS = 4, PART = 1 << 20, STALE = 0x11 };

static const struct shape shapes[KINDS] = {
    {.block = 8, .count = 1, .outer = 1},
    {.block = 8, .count = 1000, .stride = 24, .outer = 1},
    {.block = 1000000, .count = 1, .outer = 1},
    {.block = 6000, .count = 100, .stride = 6100, .outer = 1},
};
static const uint8_t right[TCP_SECRET_BYTES] = "known to both", wrong[TCP_SECRET_BYTES] = "guessed";

static struct side sender, receiver;

/* One direction between two peers: landings of one with its grant, puts of the other. Each kind has
 * its part of the regions, each direction a half. */
struct pair {
    struct side *from, *to;
    struct driver_peer *peer, *back;
    uint64_t offset_bytes;
    struct layout *layouts[KINDS];
    struct driver_landing *landings[KINDS];
    struct tcp_blob blobs[KINDS];
    struct driver_put *puts[KINDS];
    struct op ops[KINDS];
};

static void direction_open(struct pair *pair, uint64_t grant)
{
    const struct driver_ops *ops = pair->from->driver->ops;
    for (unsigned i = 0; i < KINDS; i++) {
        struct driver_put_info info;
        size_t bytes;
        pair->layouts[i] = shape_layout(&shapes[i]);
        const uint64_t at = pair->offset_bytes + i * PART;
        const struct driver_landing_args target = {.region = pair->to->region,
                                                   .offset_bytes = at,
                                                   .layout = pair->layouts[i],
                                                   .notify = true,
                                                   .token = grant,
                                                   .grant = grant};
        cr_assert(ops->landing_new(pair->to->driver, &target, &pair->landings[i], &pair->blobs[i],
                                   &bytes) == 0);
        const struct driver_put_args source = {.peer = pair->peer,
                                               .region = pair->from->region,
                                               .offset_bytes = at,
                                               .layout = pair->layouts[i],
                                               .landing = &pair->blobs[i],
                                               .landing_bytes = bytes,
                                               .target_layout = pair->layouts[i]};
        cr_assert(ops->put_prepare(pair->from->driver, &source, &pair->puts[i], &info) == 0);
    }
}

static void pair_open(struct pair *pair, uint64_t grant)
{
    *pair = (struct pair){.from = &sender, .to = &receiver};
    cr_assert(tcp_seat_peer(sender.driver, grant, &pair->peer) == 0);
    cr_assert(tcp_seat_peer(receiver.driver, grant, &pair->back) == 0);
    direction_open(pair, grant);
}

/* The other direction, between the same peers. */
static void pair_open_back(struct pair *back, const struct pair *forth, uint64_t grant)
{
    *back = (struct pair){.from = forth->to,
                          .to = forth->from,
                          .peer = forth->back,
                          .back = forth->peer,
                          .offset_bytes = REGION / 2};
    direction_open(back, grant);
}

static void direction_close(struct pair *pair)
{
    for (unsigned i = 0; i < KINDS; i++) {
        pair->from->driver->ops->put_release(pair->from->driver, pair->puts[i]);
        pair->to->driver->ops->landing_free(pair->to->driver, pair->landings[i]);
        free(pair->layouts[i]);
    }
}

static void pair_close(struct pair *pair)
{
    direction_close(pair);
    pair->from->driver->ops->peer_disconnect(pair->from->driver, pair->peer);
    pair->to->driver->ops->peer_disconnect(pair->to->driver, pair->back);
}

static void join(struct pair *pair, const uint8_t *secret)
{
    side_join(&sender, pair->peer, &receiver, pair->back, secret);
}

static void begin(struct pair *pair)
{
    for (unsigned i = 0; i < KINDS; i++) {
        op_init(&pair->ops[i]);
        cr_assert(post(pair->from, pair->to, pair->puts[i], &pair->ops[i]) == 0);
    }
}

static void end(struct pair *pair, int status)
{
    for (unsigned i = 0; i < KINDS; i++) {
        cr_assert(pump_until(&sender, &receiver, &pair->ops[i].done, 1));
        cr_assert(pair->ops[i].status == status);
    }
}

/* All kinds, and each notification once. */
static void check_arrived(const struct pair *pair)
{
    cr_assert(pump_until(&sender, &receiver, &pair->to->notified_count, KINDS));
    pump_rounds(&sender, &receiver, 100);
    cr_assert(pair->to->notified_count == KINDS);
    for (unsigned i = 0; i < KINDS; i++)
        for (uint64_t n = 0; n < shape_bytes(&shapes[i]); n++) {
            const uint64_t at =
                pair->offset_bytes + i * PART + (uint64_t)shape_place(&shapes[i], n);
            cr_assert(pair->to->memory[at] == pair->from->memory[at]);
        }
}

static void refill(struct pair *pair, uint32_t seed)
{
    fill(pair->from->memory + pair->offset_bytes, REGION / 2, seed);
    pair->to->notified_count = 0;
}

static void run(struct pair *pair, uint32_t seed)
{
    refill(pair, seed);
    begin(pair);
    end(pair, 0);
    check_arrived(pair);
}

static void setup(void)
{
    cr_assert(side_open(&sender, TCP_SEAT, 0, REGION) == 0);
    cr_assert(side_open(&receiver, TCP_SEAT, 0, REGION) == 0);
}

static void teardown(void)
{
    side_close(&sender);
    side_close(&receiver);
}

TestSuite(tcp_adopt, .init = setup, .fini = teardown, .timeout = 120);

/* ---- cuts ---- */

/* At any byte, with data both ways: after each cut there is another connection, and nothing is
 * missing or comes twice. */
static void check_cuts(const uint8_t *secret)
{
    struct pair pair, back;
    pair_open(&pair, 1);
    pair_open_back(&back, &pair, 1);
    join(&pair, secret);
    for (uint32_t seed = 1; seed <= 40; seed++) {
        const struct tcp_link *link = &((struct tcp_peer *)pair.peer)->link;
        refill(&pair, seed);
        refill(&back, seed + 100);
        begin(&pair);
        begin(&back);
        pump_rounds(&sender, &receiver, seed);
        if (link->stream->fd >= 0)
            shutdown(link->stream->fd, seed % 2 ? SHUT_RDWR : SHUT_WR);
        pump_rounds(&sender, &receiver, seed % 7);
        join(&pair, secret);
        end(&pair, 0);
        end(&back, 0);
        check_arrived(&pair);
        check_arrived(&back);
    }
    direction_close(&back);
    pair_close(&pair);
}

Test(tcp_adopt, cut_in_clear)
{
    check_cuts(NULL);
}

Test(tcp_adopt, cut_in_tls)
{
    check_cuts(right);
}

/* ---- memory ---- */

static size_t allocated(void)
{
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

/* What a connection takes in each process, both directions used, is what limits.pairs_per_session in tcad.conf(5) says. */
static void check_memory(const uint8_t *secret, size_t said_bytes)
{
    enum { PUTS_BYTES = 16 << 10 }; /* and landings */
    struct pair pair, back, first;
    pair_open(&first, 1); /* and what an instance makes once */
    join(&first, secret);
    run(&first, 1);
    const size_t before = allocated();
    pair_open(&pair, 2);
    pair_open_back(&back, &pair, 2);
    join(&pair, secret);
    run(&pair, 2);
    run(&back, 3);
    const size_t each = (allocated() - before) / 2;
    cr_assert_leq(each, said_bytes + PUTS_BYTES, "%zu bytes", each);
    direction_close(&back);
    pair_close(&pair);
    pair_close(&first);
}

Test(tcp_adopt, memory_in_clear)
{
    check_memory(NULL, 900000);
}

Test(tcp_adopt, memory_in_tls)
{
    check_memory(right, 1200000);
}

/* Puts that were copied have completed; the others fail, and the peer is reported. */
Test(tcp_adopt, no_other_connection)
{
    struct pair pair;
    pair_open(&pair, 1);
    join(&pair, NULL);
    run(&pair, 1);
    shutdown(((struct tcp_peer *)pair.peer)->link.stream->fd, SHUT_RDWR);
    begin(&pair);
    cr_assert(pump_until(&sender, &receiver, &pair.ops[2].done, 1));
    cr_assert(pair.ops[2].status == -ENETDOWN);
    cr_assert(sender.downs == 1 && sender.down_error == -ENETDOWN);
    cr_assert(sender.driver->ops->put_post(sender.driver, pair.puts[0], &pair.ops[0].op) ==
              -ENETDOWN);
    pair_close(&pair);
}

/* A receiver that has forgotten what it received cannot go on. */
Test(tcp_adopt, another_receiver)
{
    struct pair pair;
    pair_open(&pair, 1);
    join(&pair, NULL);
    run(&pair, 1);
    struct driver_peer *other;
    cr_assert(tcp_seat_peer(receiver.driver, 2, &other) == 0);
    side_join(&sender, pair.peer, &receiver, other, NULL);
    cr_assert(pump_until(&sender, &receiver, &sender.downs, 1));
    cr_assert(sender.down_error == -ENETDOWN);
    receiver.driver->ops->peer_disconnect(receiver.driver, other);
    pair_close(&pair);
}

Test(tcp_adopt, another_secret)
{
    struct pair pair;
    int ends[2];
    pair_open(&pair, 1);
    cr_assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    cr_assert(tcp_adopt(sender.driver, pair.peer, ends[0], true, true, wrong) == 0);
    cr_assert(tcp_adopt(receiver.driver, pair.back, ends[1], false, true, right) == 0);
    begin(&pair);
    while (((struct tcp_peer *)pair.peer)->link.state != TCP_LINK_BROKEN)
        pump_rounds(&sender, &receiver, 1);
    cr_assert(receiver.notified_count == 0);
    join(&pair, right);
    end(&pair, 0);
    run(&pair, 2);
    pair_close(&pair);
}

/* ---- both ways ---- */

/* Sockets that are full both ways, by puts longer than they hold: each end goes on reading. */
static void check_full(const uint8_t *secret)
{
    struct pair pair, back;
    pair_open(&pair, 1);
    pair_open_back(&back, &pair, 1);
    join(&pair, secret);
    for (uint32_t seed = 1; seed <= 4; seed++) {
        refill(&pair, seed);
        refill(&back, seed + 100);
        begin(&pair);
        pump_rounds(&sender, NULL, 100); /* until its socket is full */
        begin(&back);
        pump_rounds(&receiver, NULL, 100);
        end(&pair, 0);
        end(&back, 0);
        check_arrived(&pair);
        check_arrived(&back);
    }
    direction_close(&back);
    pair_close(&pair);
}

Test(tcp_adopt, full_both_ways_in_clear)
{
    check_full(NULL);
}

Test(tcp_adopt, full_both_ways_in_tls)
{
    check_full(right);
}

/* Before a count would be a message of its own, it goes with data of the other direction. */
Test(tcp_adopt, counts_travel_with_data)
{
    enum { ROUNDS = 4 * TCP_TELL_PIECES };
    struct pair pair, back;
    pair_open(&pair, 1);
    pair_open_back(&back, &pair, 1);
    join(&pair, NULL);
    run(&pair, 1);
    run(&back, 2);
    const struct credits *credits = &((struct tcp_peer *)pair.back)->source->credits;
    for (unsigned i = 1; i <= ROUNDS; i++) {
        op_init(&pair.ops[0]);
        cr_assert(post(&sender, &receiver, pair.puts[0], &pair.ops[0]) == 0);
        cr_assert(pump_until(&sender, &receiver, &receiver.notified_count, KINDS + i));
        op_init(&back.ops[0]);
        cr_assert(post(&receiver, &sender, back.puts[0], &back.ops[0]) == 0);
        cr_assert(pump_until(&sender, &receiver, &sender.notified_count, KINDS + i));
        cr_assert(credits->counted - credits->reported < TCP_TELL_PIECES / 2);
    }
    direction_close(&back);
    pair_close(&pair);
}

/* ---- bursts of short puts ---- */

/* Bytes on their way. */
static int in_socket(const struct pair *pair)
{
    int bytes;
    cr_assert(ioctl(((struct tcp_peer *)pair->back)->link.stream->fd, FIONREAD, &bytes) == 0);
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

enum { BURST = TCP_GATHER_PIECES + 1, SHORT = 8 + sizeof(struct tcp_head) };

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
                                             .landing_bytes = sizeof pair->blobs[0],
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
Test(tcp_adopt, bursts_gather)
{
    struct burst burst;
    burst_open(&burst);
    struct tcp_link *link = &((struct tcp_peer *)burst.pair.peer)->link;
    cr_assert(push(&burst.pair, burst.puts[0], &burst.ops[0]) == SHORT);
    for (unsigned i = 1; i < BURST - 1; i++)
        cr_assert(push(&burst.pair, burst.puts[i], &burst.ops[i]) == 0);
    cr_assert(push(&burst.pair, burst.puts[BURST - 1], &burst.ops[BURST - 1]) ==
              SHORT * (BURST - 1));
    pump_rounds(&sender, &receiver, 100);
    cr_assert(link->hurry == 0); /* nothing was kept for long */

    cr_assert(push(&burst.pair, burst.puts[0], &burst.ops[0]) == SHORT);
    cr_assert(push(&burst.pair, burst.puts[1], &burst.ops[1]) == 0);
    pump_rounds(&sender, NULL, 1);
    cr_assert(in_socket(&burst.pair) == 2 * SHORT);
    for (unsigned i = 0; i < BURST; i++)
        cr_assert(burst.ops[i].done == 1 && burst.ops[i].status == 0);
    pump_rounds(&sender, &receiver, 100);
    link->hurry = 0; /* this machine may be slow */

    cr_assert(push(&burst.pair, burst.puts[0], &burst.ops[0]) == SHORT);
    cr_assert(push(&burst.pair, burst.puts[1], &burst.ops[1]) == 0);
    cr_assert(push(&burst.pair, burst.pair.puts[1], &burst.ops[2]) > SHORT + 8000);
    pump_rounds(&sender, &receiver, 100);
    burst_close(&burst);
}

/* Of a process that computes for long before it looks again, all go at once. */
Test(tcp_adopt, bursts_that_waited)
{
    struct burst burst;
    burst_open(&burst);
    cr_assert(push(&burst.pair, burst.puts[0], &burst.ops[0]) == SHORT);
    cr_assert(push(&burst.pair, burst.puts[1], &burst.ops[1]) == 0);
    usleep(2 * TCP_GATHER_US);
    for (unsigned turn = 0; turn < TCP_HURRY_BURSTS; turn++) {
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

/* ---- sleeping ---- */

static bool may_sleep(const struct side *side)
{
    const struct driver_ops *ops = side->driver->ops;
    struct pollfd event = {.fd = ops->event_fd(side->driver), .events = POLLIN};
    return ops->arm(side->driver) == 0 && poll(&event, 1, 0) == 0;
}

/* Who is awaited and says nothing keeps nobody awake. */
Test(tcp_adopt, silence)
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
    const struct tcp_link *link = &((struct tcp_peer *)pair.peer)->link;
    cr_assert(link->broken_ns == 0 && link->retry_ns == 0); /* nothing will end it but the socket */
    cr_assert(write(ends[3], "\x16\x03\x01", 3) == 3);      /* a record that begins */
    pump_rounds(&sender, &receiver, 10);
    cr_assert(may_sleep(&sender) && may_sleep(&receiver));
    close(ends[1]);
    close(ends[3]);
    pump_rounds(&sender, &receiver, 10);
    join(&pair, right);
    run(&pair, 1);
    pair_close(&pair);
}

/* ---- who means harm ---- */

/* The victim's end goes to it; the other one is returned. */
static int enter(uint64_t grant, struct driver_peer **ret_victim)
{
    struct tcp_welcome welcome;
    int ends[2];
    cr_assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    cr_assert(tcp_seat_peer(receiver.driver, grant, ret_victim) == 0);
    cr_assert(tcp_adopt(receiver.driver, *ret_victim, ends[0], false, true, NULL) == 0);
    pump_rounds(&receiver, NULL, 200); /* it looks for events in some of them */
    cr_assert(recv(ends[1], &welcome, sizeof welcome, MSG_DONTWAIT) == sizeof welcome);
    cr_assert(welcome.magic == TCP_WELCOME_MAGIC);
    welcome = (struct tcp_welcome){.magic = TCP_WELCOME_MAGIC};
    cr_assert(write(ends[1], &welcome, sizeof welcome) == sizeof welcome);
    return ends[1];
}

static bool is_closed(int fd)
{
    char byte;
    pump_rounds(&receiver, NULL, 200);
    ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN);
}

/* Landings of another pair, and of nobody in particular, are out of reach. */
Test(tcp_adopt, another_grant)
{
    struct pair honest;
    struct driver_landing *open;
    struct tcp_blob open_blob;
    size_t bytes;
    pair_open(&honest, 1);
    join(&honest, NULL);
    run(&honest, 1);
    const struct driver_landing_args args = {
        .region = receiver.region, .layout = honest.layouts[0], .notify = true};
    cr_assert(
        receiver.driver->ops->landing_new(receiver.driver, &args, &open, &open_blob, &bytes) == 0);
    memset(receiver.memory, STALE, REGION);
    receiver.notified_count = 0;
    for (unsigned what = 0; what < 2; what++) {
        const struct tcp_blob *blob = what == 0 ? &honest.blobs[0] : &open_blob;
        const struct {
            struct tcp_head head;
            uint8_t bytes[8];
        } piece = {.head = {.kind = TCP_PIECE,
                            .flags = TCP_LAST | TCP_TELL,
                            .length_bytes = 8,
                            .landing = blob->landing,
                            .generation = blob->generation}};
        struct driver_peer *victim;
        int fd = enter(2 + what, &victim);
        cr_assert(write(fd, &piece, sizeof piece) == sizeof piece);
        cr_assert(is_closed(fd), "case %u", what);
        receiver.driver->ops->peer_disconnect(receiver.driver, victim);
        close(fd);
    }
    cr_assert(receiver.notified_count == 0);
    for (size_t i = 0; i < REGION; i++)
        cr_assert(receiver.memory[i] == STALE);
    run(&honest, 2);
    receiver.driver->ops->landing_free(receiver.driver, open);
    pair_close(&honest);
}

/* A receiver that says what it likes ends its own connection. */
Test(tcp_adopt, garbage_in_return)
{
    struct pair honest;
    pair_open(&honest, 1);
    join(&honest, right);
    for (uint32_t seed = 1; seed <= 10; seed++) {
        uint8_t words[sizeof(struct tcp_welcome) + 4 * sizeof(struct tcp_head)];
        const struct tcp_welcome welcome = {.magic = TCP_WELCOME_MAGIC, .received = seed % 5};
        struct driver_peer *victim;
        int ends[2];
        fill(words, sizeof words, seed);
        if (seed > 4)
            memcpy(words, &welcome, sizeof welcome);
        cr_assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
        cr_assert(write(ends[1], words, sizeof words) == sizeof words);
        cr_assert(tcp_seat_peer(sender.driver, 2, &victim) == 0);
        cr_assert(tcp_adopt(sender.driver, victim, ends[0], true, true, NULL) == 0);
        while (((struct tcp_peer *)victim)->link.stream->fd >= 0)
            pump_rounds(&sender, &receiver, 1);
        sender.driver->ops->peer_disconnect(sender.driver, victim);
        close(ends[1]);
        run(&honest, seed);
    }
    pair_close(&honest);
}
