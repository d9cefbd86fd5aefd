/*
 * An instance of the tcp driver and somebody who connects to it: without its secret, and with it,
 * as a daemon of the cluster that means harm. Whatever comes, nothing outside the landing's layout
 * is written, nobody is notified who should not be, and honest peers are served.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "drivers/tcp/tcp.h"
#include "proto/wait.h"
#include "tests/unit/drivers/honest.h"
#include "tests/unit/drivers/kit.h"

enum { REGION = 1 << 20, TOKEN = 7, OFFSET = 4096 };

static const struct shape shape = {.block = 8, .count = 1000, .stride = 16, .outer = 1};
static struct side victim;
static struct layout *layout;
static struct driver_landing *landing;
static struct tcp_blob blob;
static struct tcp_address address;

static uint64_t forged(void)
{
    struct driver_door door;
    victim.driver->ops->door(victim.driver, &door);
    return door.forged;
}

static void setup(void)
{
    size_t bytes;
    setenv("TEST_TCP_PLAIN", "1", 1); /* the records are the same inside TLS */
    cr_assert(side_open(&victim, "tcp", 0, REGION) == 0);
    memset(victim.memory, 0x11, REGION);
    layout = shape_layout(&shape);
    struct driver_landing_args args = {.region = victim.region,
                                       .offset_bytes = OFFSET,
                                       .layout = layout,
                                       .notify = true,
                                       .token = TOKEN};
    cr_assert(victim.driver->ops->landing_new(victim.driver, &args, &landing, &blob, &bytes) == 0);
    cr_assert(victim.driver->ops->address(victim.driver, &address) == sizeof(address));
}

static void teardown(void)
{
    victim.driver->ops->landing_free(victim.driver, landing);
    side_close(&victim);
    free(layout);
}

TestSuite(tcp_hostile, .init = setup, .fini = teardown, .timeout = 120);

/* ---- the attacker ---- */

static int dial(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(address.endpoints[0].port)};
    memcpy(&to.sin_addr, address.endpoints[0].host, 4);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert(connect(fd, (const struct sockaddr *)&to, sizeof(to)) == 0);
    return fd;
}

static void move(unsigned rounds)
{
    pump_rounds(&victim, NULL, rounds);
}

/* Bytes, or false: the victim has closed the connection. */
static bool hear(int fd, void *bytes, size_t count)
{
    size_t got = 0;
    while (got < count) {
        ssize_t n = recv(fd, (char *)bytes + got, count - got, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            return false;
        got += n > 0 ? (size_t)n : 0;
        move(1);
    }
    return true;
}

static void say(int fd, const void *bytes, size_t count)
{
    size_t done = 0;
    while (done < count) {
        ssize_t n = send(fd, (const char *)bytes + done, count - done, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN)
            return; /* closed already */
        done += n > 0 ? (size_t)n : 0;
        move(1);
    }
}

/* Waits until the victim has closed it. */
static bool is_closed(int fd)
{
    const uint64_t give_up_ns = clock_now_ns() + UINT64_C(30000000000);
    char byte;
    while (clock_now_ns() < give_up_ns) {
        ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            return true;
        move(1);
    }
    return false;
}

/* Signed by the sender if it has told the victim of a secret of its own. */
static const uint8_t *own_secret;

static struct tcp_hello hello_of(int fd, uint64_t link)
{
    struct tcp_challenge challenge;
    struct tcp_hello hello = {
        .magic = TCP_HELLO_MAGIC, .version = TCP_WIRE_VERSION, .id = {{1, 2}}, .link = link};
    cr_assert(hear(fd, &challenge, sizeof(challenge)));
    cr_assert(challenge.magic == TCP_CHALLENGE_MAGIC);
    const struct tcp_signature signature = tcp_sign_hello(address.secret, challenge.nonce, &hello);
    memcpy(hello.by_listener, signature.bytes, sizeof(hello.by_listener));
    if (own_secret) {
        const struct tcp_signature own = tcp_sign_hello(own_secret, challenge.nonce, &hello);
        memcpy(hello.by_sender, own.bytes, sizeof(hello.by_sender));
    }
    return hello;
}

/* As a daemon of the cluster: a link that was welcomed. */
static int enter(uint64_t link, uint64_t expected)
{
    struct tcp_welcome welcome;
    int fd = dial();
    const struct tcp_hello hello = hello_of(fd, link);
    say(fd, &hello, sizeof(hello));
    cr_assert(hear(fd, &welcome, sizeof(welcome)));
    cr_assert(welcome.magic == TCP_WELCOME_MAGIC && welcome.received == expected);
    return fd;
}

static struct tcp_head head_of(uint64_t number, uint64_t position, uint32_t length, uint8_t flags)
{
    return (struct tcp_head){.kind = TCP_PIECE,
                             .flags = flags,
                             .length_bytes = length,
                             .landing = blob.landing,
                             .generation = blob.generation,
                             .position_bytes = position,
                             .number = number};
}

static void check_untouched(void)
{
    for (size_t i = 0; i < REGION; i++)
        cr_assert(victim.memory[i] == 0x11, "byte %zu was written", i);
    cr_assert(victim.notified_count == 0);
}

static void check_alive(void)
{
    check_served(&victim, "tcp", 0, &shape, OFFSET, &blob, sizeof(blob));
}

/* ---- without the secret ---- */

Test(tcp_hostile, strangers)
{
    for (unsigned what = 0; what < 6; what++) {
        int fd = dial();
        struct tcp_hello hello = hello_of(fd, what);
        switch (what) {
        case 0:
            hello.by_listener[5] ^= 1;
            break;
        case 1:
            hello.link++; /* signed otherwise */
            break;
        case 2:
            hello.magic++;
            break;
        case 3:
            hello.version++;
            break;
        case 4:
            hello.known = 2;
            break;
        case 5:
            memset(&hello, 0xff, sizeof(hello));
        }
        say(fd, &hello, sizeof(hello));
        cr_assert(is_closed(fd), "case %u", what);
        cr_assert(forged() == what + 1);
        close(fd);
    }
    check_untouched();
    check_alive();
}

/* A hello that was heard elsewhere answers another challenge. */
Test(tcp_hostile, a_hello_is_good_once)
{
    int first = dial(), second = dial();
    const struct tcp_hello hello = hello_of(first, 9);
    struct tcp_challenge challenge;
    cr_assert(hear(second, &challenge, sizeof(challenge)));
    say(second, &hello, sizeof(hello));
    cr_assert(is_closed(second));
    close(first);
    close(second);
    check_alive();
}

Test(tcp_hostile, silence_is_not_kept)
{
    int fds[3 * TCP_OPENINGS_OF_HOST];
    for (unsigned i = 0; i < 3 * TCP_OPENINGS_OF_HOST; i++) {
        fds[i] = dial();
        move(2);
    }
    check_alive();
    for (unsigned i = 0; i < 3 * TCP_OPENINGS_OF_HOST; i++) {
        cr_assert(is_closed(fds[i]), "number %u", i); /* the last ones after TCP_OPENING_MS */
        close(fds[i]);
    }
    check_alive();
}

/* A daemon that the victim's daemon knows signs with its own secret, too. */
Test(tcp_hostile, in_the_name_of_another)
{
    struct tcp_address known = address;
    known.id = (struct tcp_id){{1, 2}};
    memset(known.secret, 3, sizeof(known.secret));
    cr_assert(victim.driver->ops->admit(victim.driver, &known, sizeof(known), true) == 0);
    int fd = dial();
    const struct tcp_hello hello = hello_of(fd, 1);
    say(fd, &hello, sizeof(hello));
    cr_assert(is_closed(fd));
    close(fd);
    cr_assert(victim.driver->ops->admit(victim.driver, &known, sizeof(known), false) == 0);
    close(enter(1, 0));
    check_alive();
}

/* ---- with it ---- */

Test(tcp_hostile, impossible_heads)
{
    const uint8_t bytes[64] = {0};
    for (unsigned what = 0; what < 11; what++) {
        struct tcp_head head = head_of(0, 0, sizeof(bytes), TCP_LAST);
        switch (what) {
        case 0:
            head.kind = 0;
            break;
        case 1:
            head.kind = TCP_RECEIVED;
            break;
        case 2:
            head.flags = 0x80;
            break;
        case 3:
            head.zero = 1;
            break;
        case 4:
            head.number = 1;
            break;
        case 5:
            head.number = UINT64_MAX;
            break;
        case 6:
            head.length_bytes = TCP_PIECE_MAX + 1;
            break;
        case 7:
            head.position_bytes = shape_bytes(&shape) - sizeof(bytes) + 1;
            break;
        case 8:
            head.position_bytes = UINT64_MAX - 8;
            break;
        case 9:
            head.kind = TCP_ASK;
            break;
        case 10:
            head.kind = TCP_BYE;
            head.number = 5;
            break;
        }
        int fd = enter(100 + what, 0);
        say(fd, &head, sizeof(head));
        say(fd, bytes, sizeof(bytes));
        cr_assert(is_closed(fd), "case %u", what);
        cr_assert(forged() == what + 1, "case %u", what);
        close(fd);
    }
    check_untouched();
    check_alive();
}

/* A landing that was agreed with one sender is none for another, who has only guessed its number:
 * one with its name and no proof, one with proof of another name. */
Test(tcp_hostile, a_landing_of_another_sender)
{
    const uint8_t bytes[64] = {0x22};
    struct tcp_address sender = address;
    struct driver_landing *reserved;
    struct driver_landing_args args = {.region = victim.region,
                                       .offset_bytes = OFFSET,
                                       .layout = layout,
                                       .notify = true,
                                       .token = TOKEN,
                                       .from = &sender,
                                       .from_bytes = sizeof(sender)};
    const struct tcp_id us = {{1, 2}}, other = {{1, 3}};
    const struct driver_ops *ops = victim.driver->ops;
    size_t blob_bytes;
    memset(sender.secret, 3, sizeof(sender.secret));
    for (unsigned what = 0; what < 3; what++) {
        sender.id = what == 1 ? other : us;
        cr_assert(ops->landing_new(victim.driver, &args, &reserved, &blob, &blob_bytes) == 0);
        sender.id = us;
        own_secret = what > 0 ? sender.secret : NULL;
        if (own_secret)
            cr_assert(ops->admit(victim.driver, &sender, sizeof(sender), true) == 0);
        const struct tcp_head head = head_of(0, 0, sizeof(bytes), TCP_LAST);
        int fd = enter(200 + what, 0);
        say(fd, &head, sizeof(head));
        say(fd, bytes, sizeof(bytes));
        if (what < 2) {
            cr_assert(is_closed(fd), "case %u", what);
            cr_assert(forged() == what + 1, "case %u", what);
            check_untouched();
        } else {
            cr_assert(pump_until(&victim, NULL, &victim.notified_count, 1));
        }
        close(fd);
        ops->landing_free(victim.driver, reserved);
    }
}

/* A landing that is not: the bytes go nowhere, and the sender is told. */
Test(tcp_hostile, landings_that_are_not)
{
    static const uint8_t bytes[100000] = {1};
    int fd = enter(1, 0);
    for (uint64_t n = 0; n < 3; n++) {
        struct tcp_head head = head_of(n, n * 1000, sizeof(bytes), TCP_LAST | TCP_TELL), back;
        head.landing += n == 1;
        head.landing = n == 2 ? UINT32_MAX : head.landing;
        head.generation += n == 0;
        say(fd, &head, sizeof(head));
        say(fd, bytes, sizeof(bytes));
        cr_assert(hear(fd, &back, sizeof(back)));
        cr_assert(back.kind == TCP_STALE && back.number == n);
        cr_assert(hear(fd, &back, sizeof(back)));
        cr_assert(back.kind == TCP_RECEIVED && back.number == n + 1);
    }
    check_untouched();
    close(fd);
    check_alive();
}

/* What was received is known to the next connection of the link, and to no other link. */
Test(tcp_hostile, half_a_piece)
{
    const uint8_t bytes[64] = {0x22};
    struct tcp_head head = head_of(0, 0, sizeof(bytes), TCP_LAST | TCP_TELL), back;
    int fd = enter(5, 0);
    say(fd, &head, sizeof(head));
    say(fd, bytes, 10);
    close(fd);
    move(1000);
    fd = enter(5, 0);
    cr_assert(victim.notified_count == 0);
    say(fd, &head, sizeof(head));
    say(fd, bytes, sizeof(bytes));
    cr_assert(hear(fd, &back, sizeof(back)));
    cr_assert(back.kind == TCP_RECEIVED && back.number == 1);
    cr_assert(victim.notified_count == 1 && victim.notified[0] == TOKEN);
    int other = enter(6, 0), again = enter(5, 1); /* which takes the place of the first */
    cr_assert(is_closed(fd));
    close(fd);
    close(other);
    close(again);
    check_alive();
}

/* The victim's end of our connection. */
static int other_end(int fd)
{
    struct sockaddr_in own, peer;
    socklen_t bytes = sizeof(own);
    cr_assert(getsockname(fd, (struct sockaddr *)&own, &bytes) == 0);
    for (int other = 3; other < 1024; other++) {
        bytes = sizeof(peer);
        if (getpeername(other, (struct sockaddr *)&peer, &bytes) == 0 &&
            peer.sin_family == AF_INET && peer.sin_port == own.sin_port)
            return other;
    }
    cr_assert_fail("no other end");
    return -1;
}

/* A connection that ends before the link is welcomed takes nothing from what the link has sent. */
Test(tcp_hostile, a_welcome_that_does_not_go_out)
{
    const uint8_t bytes[64] = {0x22};
    const struct tcp_head head = head_of(0, 0, sizeof(bytes), TCP_LAST | TCP_TELL);
    struct tcp_head back;
    int fd = enter(5, 0);
    say(fd, &head, sizeof(head));
    say(fd, bytes, sizeof(bytes));
    cr_assert(hear(fd, &back, sizeof(back)) && back.number == 1);
    int second = dial();
    const struct tcp_hello hello = hello_of(second, 5);
    cr_assert(shutdown(other_end(second), SHUT_WR) == 0);
    say(second, &hello, sizeof(hello));
    cr_assert(is_closed(second));
    close(second);
    close(fd);
    close(enter(5, 1));
    check_alive();
}

/* Whoever reads no counts is not waited for. */
Test(tcp_hostile, counts_that_nobody_reads)
{
    int fd = enter(1, 0);
    for (uint64_t n = 0; n < 400000; n++) {
        struct tcp_head head = head_of(n, 0, 0, TCP_TELL);
        head.landing += n % 2; /* each other one is told of twice */
        if (send(fd, &head, sizeof(head), MSG_DONTWAIT | MSG_NOSIGNAL) != sizeof(head))
            break;
        if (n % 16 == 0)
            move(1);
    }
    check_alive();
    close(fd);
}
