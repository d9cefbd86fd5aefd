/*
 * The states of connections of the tcp driver: which may follow which, simultaneous opening, and
 * what becomes of puts when a connection is cut in each of them or replaced in the middle of a put.
 */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/drivers/adopted.h"

TestSuite(tcp_states, .init = setup, .fini = teardown, .timeout = 120);

/* ---- the table ---- */

/* The one state that follows, if the connection does not end; an accepted one has two ways. */
Test(tcp_states, table)
{
    static const enum tcp_state ways[][6] = {
        {TCP_CONNECTING, TCP_SECURING, TCP_CHALLENGED, TCP_GREETED, TCP_UP, TCP_ENDED},
        {TCP_ACCEPTED, TCP_ANSWERING, TCP_CHALLENGE, TCP_UP, TCP_ENDED}, /* in TLS */
        {TCP_ANSWERING, TCP_ACCEPTED, TCP_CHALLENGE, TCP_UP, TCP_ENDED}, /* in clear */
        {TCP_ADOPTED, TCP_CROSSED, TCP_UP, TCP_ENDED},
    };
    unsigned next[TCP_STATES] = {0};
    for (unsigned way = 0; way < sizeof(ways) / sizeof(ways[0]); way++)
        for (unsigned i = 0; ways[way][i] != TCP_ENDED; i++) {
            next[ways[way][i]] |= 1u << ways[way][i + 1] | 1u << TCP_ENDED;
        }
    for (unsigned state = 0; state < TCP_STATES; state++) {
        cr_assert_eq(tcp_states[state].next, next[state], "%s", tcp_states[state].name);
        cr_assert_eq(tcp_states[state].open == NULL, state >= TCP_UP, "%s", tcp_states[state].name);
        cr_assert_eq(tcp_states[state].ready != NULL, state == TCP_UP, "%s",
                     tcp_states[state].name);
    }
}

/* ---- between the ends: what they say is held back, as far as the test wants ---- */

struct relay {
    int ends[2]; /* ours; each leads to one of the sides */
};

static void relay_join(struct relay *relay, struct pair *pair, const uint8_t *secret)
{
    int first[2], second[2];
    cr_assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, first) == 0);
    cr_assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, second) == 0);
    cr_assert(tcp_adopt(sender.driver, pair->peer, first[0], true, true, secret) == 0);
    cr_assert(tcp_adopt(receiver.driver, pair->back, second[0], false, true, secret) == 0);
    *relay = (struct relay){{first[1], second[1]}};
}

/* At most so many bytes that this end has said: how many there were. */
static size_t relay_move(const struct relay *relay, unsigned from, size_t most)
{
    uint8_t bytes[4096];
    ssize_t n =
        recv(relay->ends[from], bytes, most < sizeof(bytes) ? most : sizeof(bytes), MSG_DONTWAIT);
    if (n <= 0)
        return 0;
    (void)!send(relay->ends[1 - from], bytes, (size_t)n, MSG_NOSIGNAL); /* it may be closed there */
    return (size_t)n;
}

static void relay_cut(const struct relay *relay)
{
    close(relay->ends[0]);
    close(relay->ends[1]);
}

static void both(unsigned rounds)
{
    pump_rounds(&sender, &receiver, rounds);
}

static enum tcp_state state_of(const struct driver_peer *peer)
{
    return connection_of(peer) ? connection_of(peer)->state : TCP_ENDED;
}

/* ---- simultaneous opening ---- */

/* Both have opened before either has heard of the other. */
Test(tcp_states, both_open_at_once)
{
    struct pair pair, back;
    struct relay relay;
    pair_open(&pair, 1);
    pair_open_back(&back, &pair, 1);
    refill(&pair, 1);
    refill(&back, 2);
    relay_join(&relay, &pair, NULL);
    cr_assert(state_of(pair.peer) == TCP_ADOPTED && state_of(pair.back) == TCP_ADOPTED);
    both(3);
    cr_assert(state_of(pair.peer) == TCP_CROSSED && state_of(pair.back) == TCP_CROSSED);
    begin(&pair);
    begin(&back);
    both(100);
    cr_assert(state_of(pair.peer) == TCP_CROSSED && state_of(pair.back) == TCP_CROSSED);
    /* nothing goes before the welcome of the other end is there, all of it */
    cr_assert(relay_move(&relay, 0, sizeof(struct tcp_welcome) - 1) ==
              sizeof(struct tcp_welcome) - 1);
    both(100);
    cr_assert(state_of(pair.back) == TCP_CROSSED);
    cr_assert(relay_move(&relay, 0, SIZE_MAX) == 1);
    both(100);
    cr_assert(state_of(pair.peer) == TCP_CROSSED && state_of(pair.back) == TCP_UP);
    while (!pair.ops[KINDS - 1].done || !back.ops[KINDS - 1].done) {
        relay_move(&relay, 0, SIZE_MAX);
        relay_move(&relay, 1, SIZE_MAX);
        both(1);
    }
    cr_assert(state_of(pair.peer) == TCP_UP && state_of(pair.back) == TCP_UP);
    relay_cut(&relay);
    both(10);
    join(&pair, NULL);
    end(&pair, 0);
    end(&back, 0);
    check_arrived(&pair);
    check_arrived(&back);
    direction_close(&back);
    pair_close(&pair);
}

/* ---- cut in each state ---- */

/* After so many bytes from each end: in the handshake, in the welcome, in the first pieces. Another
 * connection then carries everything, once. */
static void check_cuts(const uint8_t *secret, size_t step, unsigned seen_wanted)
{
    struct pair pair, back;
    struct relay relay;
    unsigned seen = 0, turn = 0;
    pair_open(&pair, 1);
    pair_open_back(&back, &pair, 1);
    for (size_t most = 0; (seen & seen_wanted) != seen_wanted || turn < 40; most += step, turn++) {
        size_t left[2] = {most, most};
        refill(&pair, turn);
        refill(&back, turn + 1000);
        begin(&pair);
        begin(&back);
        relay_join(&relay, &pair, secret);
        for (unsigned idle = 0; idle < 5; idle++) {
            both(10);
            for (unsigned from = 0; from < 2; from++) {
                const size_t moved = left[from] ? relay_move(&relay, from, left[from]) : 0;
                left[from] -= moved;
                idle = moved ? 0 : idle;
            }
        }
        seen |= 1u << state_of(pair.peer) | 1u << state_of(pair.back);
        relay_cut(&relay);
        both(10);
        cr_assert(!connection_of(pair.peer) && !connection_of(pair.back));
        join(&pair, secret);
        end(&pair, 0);
        end(&back, 0);
        check_arrived(&pair);
        check_arrived(&back);
        cr_assert_lt(turn, 1000, "states seen: %x", seen);
    }
    direction_close(&back);
    pair_close(&pair);
}

Test(tcp_states, cut_in_clear)
{
    check_cuts(NULL, 3, 1u << TCP_CROSSED | 1u << TCP_UP);
}

Test(tcp_states, cut_in_tls)
{
    check_cuts(right, 41, 1u << TCP_ADOPTED | 1u << TCP_CROSSED | 1u << TCP_UP);
}

/* Before an event has said anything of it. */
Test(tcp_states, cut_when_it_is_adopted)
{
    struct pair pair;
    struct relay relay;
    pair_open(&pair, 1);
    for (unsigned turn = 0; turn < 3; turn++) {
        refill(&pair, turn);
        begin(&pair);
        relay_join(&relay, &pair, turn == 2 ? right : NULL);
        cr_assert(state_of(pair.peer) == TCP_ADOPTED);
        if (turn > 0)
            relay_cut(&relay);
        join(&pair, turn == 2 ? right : NULL); /* in the place of the first */
        end(&pair, 0);
        check_arrived(&pair);
        if (turn == 0)
            relay_cut(&relay);
    }
    pair_close(&pair);
}

/* ---- the same between instances that dial and listen ---- */

/* Where the dialling instance looks for the other one. */
struct gate {
    int listener, ends[2]; /* ends: to who dials, to who listens; -1: none */
    struct sockaddr_in door;
};

static void listen_at_gate(struct gate *gate, struct tcp_address *address)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(at);
    *gate = (struct gate){.ends = {-1, -1}, .door = at};
    gate->door.sin_port = htons(address->endpoints[0].port);
    gate->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    cr_assert(bind(gate->listener, (struct sockaddr *)&at, bytes) == 0);
    cr_assert(listen(gate->listener, 8) == 0);
    cr_assert(getsockname(gate->listener, (struct sockaddr *)&at, &bytes) == 0);
    address->endpoints[0].port = ntohs(at.sin_port);
}

static bool gate_opens(struct gate *gate)
{
    gate->ends[0] = accept4(gate->listener, NULL, NULL, SOCK_CLOEXEC);
    if (gate->ends[0] < 0)
        return false;
    gate->ends[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert(connect(gate->ends[1], (struct sockaddr *)&gate->door, sizeof(gate->door)) == 0);
    return true;
}

static void check_dialled(bool plain, unsigned dials_wanted, unsigned listens_wanted)
{
    struct side from, to;
    struct tcp_address address;
    struct gate gate;
    struct driver_peer *peer;
    struct driver_landing *landing;
    struct driver_put *put;
    struct driver_put_info info;
    uint8_t blob[LANDING_MAX_BYTES];
    struct layout *layout = shape_layout(&shapes[1]);
    unsigned dials = 0, listens = 0;
    if (plain)
        setenv("TEST_TCP_PLAIN", "1", 1);
    cr_assert(side_open(&from, "tcp", 0, REGION) == 0);
    cr_assert(side_open(&to, "tcp", 0, REGION) == 0);
    const struct driver_ops *ops = from.driver->ops;
    const struct tcp_listener *listener = &tcp_of(to.driver)->listener;
    cr_assert(ops->address(to.driver, &address) == sizeof(address));
    listen_at_gate(&gate, &address);
    cr_assert(connect_to(from.driver, &address, sizeof(address), &peer) == 0);
    struct driver_landing_args target = {.region = to.region, .layout = layout, .notify = true};
    struct driver_put_args source = {.peer = peer,
                                     .region = from.region,
                                     .layout = layout,
                                     .landing = blob,
                                     .target_layout = layout};
    cr_assert(ops->landing_new(to.driver, &target, &landing, blob, &source.landing_bytes) == 0);
    cr_assert(ops->put_prepare(from.driver, &source, &put, &info) == 0);
    size_t most = 0;
    for (unsigned turn = 0; (dials & dials_wanted) != dials_wanted ||
                            (listens & listens_wanted) != listens_wanted || turn < 20;
         turn++, most += 37) {
        struct op op;
        bool cut = false;
        size_t left[2] = {most, most};
        op_init(&op);
        fill(from.memory, REGION, turn);
        to.notified_count = 0;
        cr_assert(post(&from, &to, put, &op) == 0);
        for (unsigned idle = 0; !op.done || to.notified_count == 0;) {
            pump_rounds(&from, &to, 5);
            if (gate.ends[0] < 0 && !gate_opens(&gate))
                continue;
            size_t moved = 0;
            const struct relay relay = {{gate.ends[0], gate.ends[1]}};
            for (unsigned end = 0; end < 2; end++) {
                const size_t n = cut         ? relay_move(&relay, end, SIZE_MAX)
                                 : left[end] ? relay_move(&relay, end, left[end])
                                             : 0;
                left[end] -= cut ? 0 : n;
                moved += n;
            }
            idle = moved ? 0 : idle + 1;
            if (cut || idle < 5)
                continue;
            dials |= 1u << state_of(peer);
            listens |= 1u << (listener->accepted ? listener->accepted->state : TCP_UP);
            relay_cut(&relay);
            gate.ends[0] = gate.ends[1] = -1;
            cut = true;
            pump_rounds(&from, &to, 20);
        }
        cr_assert(op.status == 0);
        pump_rounds(&from, &to, 100);
        cr_assert(to.notified_count == 1);
        for (uint64_t n = 0; n < shape_bytes(&shapes[1]); n++)
            cr_assert(to.memory[shape_place(&shapes[1], n)] ==
                      from.memory[shape_place(&shapes[1], n)]);
        if (gate.ends[0] >= 0)
            relay_cut(&(struct relay){{gate.ends[0], gate.ends[1]}}); /* so that it dials again */
        gate.ends[0] = gate.ends[1] = -1;
        pump_rounds(&from, &to, 20);
        cr_assert_lt(turn, 400, "states seen: %x, %x", dials, listens);
    }
    ops->put_release(from.driver, put);
    ops->peer_disconnect(from.driver, peer);
    ops->landing_free(to.driver, landing);
    side_close(&from);
    side_close(&to);
    close(gate.listener);
    free(layout);
}

Test(tcp_states, cut_while_it_dials_in_clear)
{
    check_dialled(true, 1u << TCP_CHALLENGED | 1u << TCP_GREETED | 1u << TCP_UP,
                  1u << TCP_ACCEPTED | 1u << TCP_CHALLENGE | 1u << TCP_UP);
}

Test(tcp_states, cut_while_it_dials_in_tls)
{
    check_dialled(false,
                  1u << TCP_SECURING | 1u << TCP_CHALLENGED | 1u << TCP_GREETED | 1u << TCP_UP,
                  1u << TCP_ACCEPTED | 1u << TCP_ANSWERING | 1u << TCP_CHALLENGE | 1u << TCP_UP);
}

/* ---- another connection in the middle of a put ---- */

static void check_replaced(const uint8_t *secret)
{
    enum { LONG = 2 }; /* of the shapes */
    struct pair pair;
    struct relay relay;
    pair_open(&pair, 1);
    const struct tcp_sender *puts = &((struct tcp_peer *)pair.peer)->sender;
    const struct tcp_receiver *gets = ((struct tcp_peer *)pair.back)->receiver;
    for (uint32_t seed = 1; seed < 8; seed++) {
        refill(&pair, seed);
        op_init(&pair.ops[LONG]);
        cr_assert(post(&sender, NULL, pair.puts[LONG], &pair.ops[LONG]) == 0);
        relay_join(&relay, &pair, secret);
        while (!gets->in_piece || gets->piece_bytes < seed * 30000) {
            both(1);
            relay_move(&relay, 0, SIZE_MAX);
            relay_move(&relay, 1, SIZE_MAX);
        }
        const struct tcp_connection *before = connection_of(pair.peer);
        cr_assert(!pair.ops[LONG].done && receiver.notified_count == 0);
        cr_assert(puts->written_bytes > 0 || puts->written > puts->window.counted);
        join(&pair, secret); /* in the place of one that is still good */
        cr_assert(connection_of(pair.peer) != before && !gets->in_piece);
        cr_assert(pump_until(&sender, &receiver, &pair.ops[LONG].done, 1));
        cr_assert(pump_until(&sender, &receiver, &receiver.notified_count, 1));
        both(100);
        cr_assert(pair.ops[LONG].status == 0 && receiver.notified_count == 1);
        for (uint64_t n = 0; n < shape_bytes(&shapes[LONG]); n++) {
            const uint64_t at = LONG * PART + (uint64_t)shape_place(&shapes[LONG], n);
            cr_assert(receiver.memory[at] == sender.memory[at]);
        }
        relay_cut(&relay);
    }
    pair_close(&pair);
}

Test(tcp_states, replaced_in_clear)
{
    check_replaced(NULL);
}

Test(tcp_states, replaced_in_tls)
{
    check_replaced(right);
}

/* ---- the end of a connection within its own callbacks ---- */

static struct pair *leaving;
static unsigned left_behind;

static void leave(void)
{
    if (left_behind++ == 0)
        tcp_abandon(sender.driver, leaving->peer, -ECANCELED);
}

static void leave_when_done(struct driver_op *op, int status)
{
    leave();
}

static void leave_when_notified(void *context, uint64_t token)
{
    leave();
}

/* The owner gives the peer up when a short put has ended (when it is written), a long one (when it
 * is counted), or when something has come: everything else ends with that, and nothing is read or
 * written any more. */
static void check_left(unsigned what, const uint8_t *secret)
{
    struct pair pair, back;
    struct op ops[KINDS];
    pair_open(&pair, 1);
    pair_open_back(&back, &pair, 1);
    join(&pair, secret);
    run(&pair, 1);
    run(&back, 2);
    leaving = &pair;
    left_behind = 0;
    sender.notified_count = receiver.notified_count = 0;
    if (what == 2)
        sender.driver->events.notified = leave_when_notified;
    begin(&back);
    for (unsigned i = 0; i < KINDS; i++) {
        op_init(&ops[i]);
        if (what == 0 ? i == 0 : what == 1 && i == 2)
            ops[i].op.done = leave_when_done;
        cr_assert(post(&sender, NULL, pair.puts[i], &ops[i]) == 0);
    }
    while (left_behind == 0 || connection_of(pair.peer) || connection_of(pair.back))
        both(1);
    both(100);
    for (unsigned i = 0; i < KINDS; i++)
        cr_assert(ops[i].done == 1 || ops[i].op.done == leave_when_done);
    cr_assert(sender.driver->ops->put_post(sender.driver, pair.puts[0], &ops[0].op) == -ECANCELED);
    receiver.driver->ops->peer_fail(receiver.driver, pair.back, -ECANCELED);
    both(10);
    direction_close(&back);
    pair_close(&pair);
}

Test(tcp_states, left_when_a_short_put_ends)
{
    check_left(0, NULL);
}

Test(tcp_states, left_when_a_long_put_ends)
{
    check_left(1, NULL);
}

Test(tcp_states, left_when_something_comes)
{
    check_left(2, NULL);
}

/* The count of the put comes with the welcome of the next connection. */
Test(tcp_states, left_when_it_opens)
{
    struct pair pair;
    struct relay relay;
    pair_open(&pair, 1);
    relay_join(&relay, &pair, NULL);
    refill(&pair, 1);
    op_init(&pair.ops[2]);
    pair.ops[2].op.done = leave_when_done;
    leaving = &pair;
    left_behind = 0;
    cr_assert(post(&sender, NULL, pair.puts[2], &pair.ops[2]) == 0);
    size_t back = sizeof(struct tcp_welcome);
    while (receiver.notified_count == 0) {
        both(1);
        relay_move(&relay, 0, SIZE_MAX);
        back -= back > 0 ? relay_move(&relay, 1, back) : 0;
    }
    cr_assert(left_behind == 0);
    relay_cut(&relay);
    both(10);
    join(&pair, NULL);
    while (left_behind == 0)
        both(1);
    both(100);
    cr_assert(!connection_of(pair.peer) && left_behind == 1);
    receiver.driver->ops->peer_fail(receiver.driver, pair.back, -ECANCELED);
    both(10);
    pair_close(&pair);
}

Test(tcp_states, left_in_tls)
{
    check_left(1, right);
}

/* ---- a socket that another process has, too ---- */

/* A forked child keeps the descriptors of its parent: the kernel must not go on to report of
 * sockets that the parent has closed. */
Test(tcp_states, held_by_a_child)
{
    struct pair pair;
    struct pollfd event = {.events = POLLIN};
    int go[2], done[2], status;
    char byte = 0;
    pair_open(&pair, 1);
    join(&pair, NULL);
    run(&pair, 1);
    cr_assert(pipe(go) == 0 && pipe(done) == 0);
    const int fd = connection_of(pair.peer)->fd;
    const pid_t child = fork();
    if (child == 0) {
        close(go[1]);
        bool good = read(go[0], &byte, 1) == 1 && shutdown(fd, SHUT_RDWR) == 0;
        good = write(done[1], &byte, 1) == 1 && good;
        _exit(read(go[0], &byte, 1) == 0 && good ? 0 : 1); /* which closes it here, too */
    }
    join(&pair, NULL);
    run(&pair, 2);
    both(5000);
    event.fd = sender.driver->ops->event_fd(sender.driver);
    cr_assert(poll(&event, 1, 0) == 0);
    cr_assert(write(go[1], &byte, 1) == 1 && read(done[0], &byte, 1) == 1);
    cr_assert(poll(&event, 1, 0) == 0, "an event of a connection that is gone");
    run(&pair, 3);
    close(go[1]);
    cr_assert(waitpid(child, &status, 0) == child && status == 0);
    close(go[0]);
    close(done[0]);
    close(done[1]);
    pair_close(&pair);
}
