/* Heartbeats of an attacker: replayed, old, forged, from another address. */
#include "daemon/base/pulse.h"

#include <criterion/criterion.h>
#include <netinet/in.h>
#include <poll.h>
#include <unistd.h>

#include "daemon/base/loop.h"
#include "proto/heartbeat.h"

TestSuite(pulse, .timeout = 60);

enum { US, PEER, MARKER };

static const uint64_t keys[3][2] = {{1, 2}, {3, 4}, {5, 6}};
static struct loop *loop;
static struct pulses *pulses;
static struct pulse *peer, *marker;
static int peer_fd, other_fd;
static uint64_t marks;

static int udp(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

static struct pulse *pulse_of(uint32_t node)
{
    struct pulse *pulse;
    struct pulse_args args = {.node = node,
                              .key_in = {keys[node][0], keys[node][1]},
                              .key_out = {keys[US][0], keys[US][1]},
                              .interval_ns = 5000000};
    cr_assert_eq(pulse_new(pulses, &args, &pulse), 0);
    return pulse;
}

static void set_up(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    cr_assert_eq(loop_new(&loop), 0);
    cr_assert_eq(pulses_new(loop, US, (struct sockaddr *)&address, sizeof(address), &pulses), 0);
    peer = pulse_of(PEER);
    marker = pulse_of(MARKER);
    peer_fd = udp();
    other_fd = udp();
}

static void tear_down(void)
{
    pulse_free(peer);
    pulse_free(marker);
    pulses_free(pulses);
    loop_free(loop);
    close(peer_fd);
    close(other_fd);
}

static void send_bytes(int fd, const void *bytes, size_t count)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_addr = {htonl(INADDR_LOOPBACK)},
                             .sin_port = htons(pulses_port(pulses))};
    cr_assert_eq(sendto(fd, bytes, count, 0, (struct sockaddr *)&to, sizeof(to)), (ssize_t)count);
}

static void beat(int fd, struct heartbeat heartbeat, const uint64_t key[2])
{
    uint8_t bytes[HEARTBEAT_BYTES];
    heartbeat_sign(&heartbeat, key, bytes);
    send_bytes(fd, bytes, sizeof(bytes));
}

/* On return, all that was sent before has been processed: datagrams arrive in order. */
static void settle(void)
{
    const uint64_t before = pulse_heard_ns(marker);
    beat(other_fd, (struct heartbeat){MARKER, US, ++marks}, keys[MARKER]);
    while (pulse_heard_ns(marker) == before)
        poll(NULL, 0, 1);
}

Test(pulse, only_news_of_the_peer_counts, .init = set_up, .fini = tear_down)
{
    beat(peer_fd, (struct heartbeat){PEER, US, 10}, keys[PEER]);
    settle();
    const uint64_t heard = pulse_heard_ns(peer);
    cr_assert_neq(heard, 0);

    beat(other_fd, (struct heartbeat){PEER, US, 10}, keys[PEER]); /* replayed, from elsewhere */
    beat(peer_fd, (struct heartbeat){PEER, US, 10}, keys[PEER]);
    beat(peer_fd, (struct heartbeat){PEER, US, 9}, keys[PEER]);       /* an old one */
    beat(other_fd, (struct heartbeat){PEER, US, 11}, keys[US]);       /* without the key */
    beat(other_fd, (struct heartbeat){PEER, MARKER, 11}, keys[PEER]); /* for another node */
    beat(other_fd, (struct heartbeat){MARKER, PEER, 11}, keys[MARKER]);
    uint8_t bytes[HEARTBEAT_BYTES + 1] = {0};
    heartbeat_sign(&(struct heartbeat){PEER, US, 12}, keys[PEER], bytes);
    send_bytes(other_fd, bytes, HEARTBEAT_BYTES + 1);
    send_bytes(other_fd, bytes, HEARTBEAT_BYTES - 1);
    bytes[HEARTBEAT_BYTES - 1] ^= 1;
    send_bytes(other_fd, bytes, HEARTBEAT_BYTES);
    settle();
    cr_assert_eq(pulse_heard_ns(peer), heard);

    beat(peer_fd, (struct heartbeat){PEER, US, 11}, keys[PEER]);
    settle();
    cr_assert_neq(pulse_heard_ns(peer), heard);
}

/* Replaying heartbeats does not redirect this node's own to the attacker. */
Test(pulse, are_answered_to_the_peer, .init = set_up, .fini = tear_down)
{
    uint8_t bytes[HEARTBEAT_BYTES + 1];
    struct heartbeat heartbeat;
    beat(peer_fd, (struct heartbeat){PEER, US, 10}, keys[PEER]);
    settle(); /* from here on `other` gets those for MARKER */
    beat(other_fd, (struct heartbeat){PEER, US, 10}, keys[PEER]);
    settle();
    for (int i = 0; i < 5; i++) {
        cr_assert_eq(recv(peer_fd, bytes, sizeof(bytes), 0), HEARTBEAT_BYTES);
        cr_assert_eq(heartbeat_parse(bytes, HEARTBEAT_BYTES, &heartbeat), 0);
        cr_assert(heartbeat.from == US && heartbeat.to == PEER);
        cr_assert(heartbeat_is_signed(bytes, keys[US]));
    }
    while (recv(other_fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0) {
        cr_assert_eq(heartbeat_parse(bytes, HEARTBEAT_BYTES, &heartbeat), 0);
        cr_assert_eq(heartbeat.to, MARKER);
    }
}
