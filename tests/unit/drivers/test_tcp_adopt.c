/*
 * Connections that are handed to instances of the tcp driver, as to processes: they are cut and
 * replaced, and each put still arrives once; one that opens or writes what it may not harms no
 * other.
 */
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "drivers/seat_bytes.h"
#include "proto/wait.h"
#include "tests/unit/drivers/adopted.h"

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
        refill(&pair, seed);
        refill(&back, seed + 100);
        begin(&pair);
        begin(&back);
        pump_rounds(&sender, &receiver, seed);
        if (connection_of(pair.peer))
            shutdown(connection_of(pair.peer)->fd, seed % 2 ? SHUT_RDWR : SHUT_WR);
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

/* What a connection takes in each process, both directions used, is what tcactl shows and
 * limits.pairs_per_session in tcad.conf(5) says. */
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
    if (allocated() > 0) /* not by a sanitizer's allocator, of which mallinfo2() knows nothing */
        cr_assert_geq(each, said_bytes / 2, "%zu bytes: it says too much", each);
    direction_close(&back);
    pair_close(&pair);
    pair_close(&first);
}

Test(tcp_adopt, memory_in_clear)
{
    check_memory(NULL, SEAT_BYTES_TCP);
}

Test(tcp_adopt, memory_in_tls)
{
    check_memory(right, SEAT_BYTES_TCP_TLS);
}

/* Puts that were copied have completed; the others fail, and the peer is reported. */
Test(tcp_adopt, no_other_connection)
{
    struct pair pair;
    pair_open(&pair, 1);
    join(&pair, NULL);
    run(&pair, 1);
    shutdown(connection_of(pair.peer)->fd, SHUT_RDWR);
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
    while (connection_of(pair.peer))
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
    const struct credits *credits = &((struct tcp_peer *)pair.back)->receiver->credits;
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
    cr_assert(recv(ends[1], &welcome, sizeof(welcome), MSG_DONTWAIT) == sizeof(welcome));
    cr_assert(welcome.magic == TCP_WELCOME_MAGIC);
    welcome = (struct tcp_welcome){.magic = TCP_WELCOME_MAGIC};
    cr_assert(write(ends[1], &welcome, sizeof(welcome)) == sizeof(welcome));
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
        cr_assert(write(fd, &piece, sizeof(piece)) == sizeof(piece));
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
        fill(words, sizeof(words), seed);
        if (seed > 4)
            memcpy(words, &welcome, sizeof(welcome));
        cr_assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
        cr_assert(write(ends[1], words, sizeof(words)) == sizeof(words));
        cr_assert(tcp_seat_peer(sender.driver, 2, &victim) == 0);
        cr_assert(tcp_adopt(sender.driver, victim, ends[0], true, true, NULL) == 0);
        while (connection_of(victim))
            pump_rounds(&sender, &receiver, 1);
        sender.driver->ops->peer_disconnect(sender.driver, victim);
        close(ends[1]);
        run(&honest, seed);
    }
    pair_close(&honest);
}
