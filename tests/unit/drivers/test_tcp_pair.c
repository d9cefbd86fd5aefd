/*
 * Connections between processes of two nodes, as their daemons make them: dialled to the port of an
 * instance, which hands them over if they are expected; and landings that are numbered elsewhere.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "drivers/tcp/adopt.h"
#include "drivers/tcp/tcp.h"
#include "tests/unit/drivers/kit.h"

enum { REGION = 1 << 20, PAIR = 5, TIMEOUT_S = 30 };

static const struct shape shape = {.block = 24, .count = 2000, .stride = 40, .outer = 1};
static const uint8_t right[PAIR_SECRET_BYTES] = "known to both", wrong[PAIR_SECRET_BYTES] = "other";

static struct side door, sender, receiver;
static struct tcp_address address;

static void setup_with(bool plain)
{
    if (plain)
        setenv("TEST_TCP_PLAIN", "1", 1);
    else
        unsetenv("TEST_TCP_PLAIN");
    cr_assert(side_open(&door, "tcp", 0, REGION) == 0);
    cr_assert(side_open(&sender, TCP_SEAT, 0, REGION) == 0);
    cr_assert(side_open(&receiver, TCP_SEAT, 0, REGION) == 0);
    cr_assert(door.driver->ops->address(door.driver, &address) == sizeof(address));
    fill(sender.memory, REGION, 1);
}

static void setup(void)
{
    setup_with(true);
}

static void teardown(void)
{
    side_close(&sender);
    side_close(&receiver);
    side_close(&door);
}

TestSuite(tcp_pair, .init = setup, .fini = teardown, .timeout = 120);

static uint64_t forged(void)
{
    struct driver_door state;
    door.driver->ops->door(door.driver, &state);
    return state.forged;
}

/* ---- dialling, in a thread of its own ---- */

struct call {
    uint64_t pair;
    const uint8_t *secret;
    int fd;
    bool encrypts;
    _Atomic bool over;
};

static void *dial_work(void *context)
{
    struct call *call = context;
    call->fd = door.driver->ops->pairs->dial(door.driver, &address, sizeof(address), call->pair,
                                             call->secret, TIMEOUT_S * UINT64_C(1000000000),
                                             &call->encrypts);
    call->over = true;
    return NULL;
}

static int dial(uint64_t pair, const uint8_t *secret)
{
    struct call call = {.pair = pair, .secret = secret};
    pthread_t thread;
    cr_assert(pthread_create(&thread, NULL, dial_work, &call) == 0);
    while (!call.over)
        pump_rounds(&door, NULL, 1);
    pthread_join(thread, NULL);
    cr_assert(call.fd >= 0);
    cr_assert(call.encrypts == address.encrypts);
    return call.fd;
}

static void expect(uint64_t pair)
{
    cr_assert(door.driver->ops->pairs->expect(door.driver, pair, right) == 0);
}

/* The door's end is closed. */
static void check_refused(int fd, uint64_t refused)
{
    struct pollfd event = {.fd = fd, .events = POLLIN};
    char byte;
    while (poll(&event, 1, 0) == 0)
        pump_rounds(&door, NULL, 1);
    cr_assert(recv(fd, &byte, 1, MSG_DONTWAIT) <= 0);
    cr_assert(forged() == refused);
    close(fd);
}

/* ---- a put over it ---- */

struct way {
    struct driver_peer *peer, *back;
    struct driver_landing *landing;
    struct driver_put *put;
    struct layout *layout;
    struct op op;
};

static void way_open(struct way *way, uint32_t index, uint32_t generation)
{
    uint8_t blob[LANDING_MAX_BYTES];
    struct driver_put_info info;
    *way = (struct way){.layout = shape_layout(&shape)};
    cr_assert(tcp_seat_peer(sender.driver, PAIR, &way->peer) == 0);
    cr_assert(tcp_seat_peer(receiver.driver, PAIR, &way->back) == 0);
    const struct driver_put_args args = {
        .peer = way->peer,
        .region = sender.region,
        .layout = way->layout,
        .landing = blob,
        .landing_bytes = tcp_seat_blob(index, generation, shape_bytes(&shape), blob),
        .target_layout = way->layout};
    cr_assert(sender.driver->ops->put_prepare(sender.driver, &args, &way->put, &info) == 0);
}

static int way_land(struct way *way, uint32_t index, uint32_t generation)
{
    const struct driver_landing_args args = {.region = receiver.region,
                                             .layout = way->layout,
                                             .notify = true,
                                             .token = generation,
                                             .grant = PAIR};
    return tcp_seat_landing(receiver.driver, &args, index, generation, &way->landing);
}

static void way_post(struct way *way)
{
    op_init(&way->op);
    cr_assert(post(&sender, &receiver, way->put, &way->op) == 0);
}

static void way_end(struct way *way)
{
    cr_assert(pump_until(&sender, &receiver, &receiver.notified_count, 1));
    cr_assert(pump_until(&sender, &receiver, &way->op.done, 1));
    cr_assert(way->op.status == 0);
    for (uint64_t n = 0; n < shape_bytes(&shape); n++) {
        const int64_t at = shape_place(&shape, n);
        cr_assert(receiver.memory[at] == sender.memory[at]);
    }
}

static void way_close(struct way *way)
{
    sender.driver->ops->put_release(sender.driver, way->put);
    sender.driver->ops->peer_disconnect(sender.driver, way->peer);
    receiver.driver->ops->peer_disconnect(receiver.driver, way->back);
    if (way->landing)
        receiver.driver->ops->landing_free(receiver.driver, way->landing);
    free(way->layout);
}

/* From the dial to the data. */
static void check_whole_way(void)
{
    struct way way;
    expect(PAIR);
    way_open(&way, 3, 1);
    cr_assert(way_land(&way, 3, 1) == 0);
    int fd = dial(PAIR, right);
    cr_assert(pump_until(&door, NULL, &door.paired_count, 1));
    cr_assert(door.paired == PAIR && door.paired_encrypts == address.encrypts);
    const uint8_t *secret = address.encrypts ? right : NULL;
    cr_assert(tcp_adopt(sender.driver, way.peer, fd, true, true, secret) == 0);
    cr_assert(tcp_adopt(receiver.driver, way.back, door.paired_fd, false, true, secret) == 0);
    way_post(&way);
    way_end(&way);
    cr_assert(forged() == 0);
    way_close(&way);
}

Test(tcp_pair, in_clear)
{
    cr_assert(!address.encrypts);
    check_whole_way();
}

Test(tcp_pair, encrypted)
{
    teardown();
    setup_with(false);
    cr_assert(address.encrypts);
    check_whole_way();
}

/* ---- who is refused ---- */

static void check_refusals(void)
{
    check_refused(dial(PAIR, right), 1); /* nobody expects it */
    expect(PAIR);
    check_refused(dial(PAIR, wrong), 2);
    check_refused(dial(PAIR + 1, right), 3);
    cr_assert(door.paired_count == 0);
    int fd = dial(PAIR, right); /* an attempt has not used it up */
    cr_assert(pump_until(&door, NULL, &door.paired_count, 1));
    close(door.paired_fd);
    close(fd);
    check_refused(dial(PAIR, right), 4); /* but the connection has */
    expect(PAIR);
    door.driver->ops->pairs->forget(door.driver, PAIR);
    check_refused(dial(PAIR, right), 5);
    cr_assert(door.paired_count == 1);
}

Test(tcp_pair, refused_in_clear)
{
    check_refusals();
}

Test(tcp_pair, refused_where_encrypted)
{
    teardown();
    setup_with(false);
    check_refusals();
}

/* Nobody answers at the other end: the caller is not kept. */
Test(tcp_pair, silent_door)
{
    bool encrypts;
    cr_assert(door.driver->ops->pairs->dial(door.driver, &address, sizeof(address), PAIR, right,
                                            10000000, &encrypts) == -ETIMEDOUT);
    address.magic++;
    cr_assert(door.driver->ops->pairs->dial(door.driver, &address, sizeof(address), PAIR, right,
                                            10000000, &encrypts) == -EINVAL);
}

/* ---- several addresses ---- */

/* The first endpoint leads nowhere, the second to another instance, the third to the door. */
static void lead_astray(struct tcp_address *of, const struct tcp_address *other)
{
    cr_assert(of->count == 1);
    of->endpoints[2] = of->endpoints[0];
    of->endpoints[1] = other->endpoints[0];
    of->endpoints[0].host[3] = 9; /* 127.0.0.9 */
    of->count = 3;
}

/* A link finds the right one, although another instance answers, and then begins with that. */
static void check_link(void)
{
    struct side from, to;
    struct tcp_address to_address;
    struct driver_peer *peer;
    struct driver_landing *landing;
    struct driver_put *put;
    struct driver_put_info info;
    uint8_t blob[LANDING_MAX_BYTES];
    struct layout *layout = shape_layout(&shape);
    cr_assert(side_open(&from, "tcp", 0, REGION) == 0);
    cr_assert(side_open(&to, "tcp", 0, REGION) == 0);
    const struct driver_ops *ops = from.driver->ops;
    cr_assert(ops->address(to.driver, &to_address) == sizeof(to_address));
    lead_astray(&to_address, &address);
    cr_assert(connect_to(from.driver, &to_address, sizeof(to_address), &peer) == 0);
    struct driver_landing_args target = {.region = to.region, .layout = layout, .notify = true};
    struct driver_put_args source = {.peer = peer,
                                     .region = from.region,
                                     .layout = layout,
                                     .landing = blob,
                                     .target_layout = layout};
    cr_assert(ops->landing_new(to.driver, &target, &landing, blob, &source.landing_bytes) == 0);
    cr_assert(ops->put_prepare(from.driver, &source, &put, &info) == 0);
    const struct tcp_peer *link = (const struct tcp_peer *)peer;
    for (unsigned turn = 1; turn < 4; turn++) {
        struct op op;
        op_init(&op);
        cr_assert(post(&from, &to, put, &op) == 0);
        while (to.notified_count < turn) {
            pump_rounds(&from, &to, 1);
            pump_rounds(&door, NULL, 1); /* the other instance */
        }
        cr_assert(pump_until(&from, &to, &op.done, 1));
        cr_assert(op.status == 0);
        cr_assert(memcmp(&link->address.endpoints[0], &to_address.endpoints[2],
                         sizeof(struct tcp_endpoint)) == 0);
        cr_assert(forged() == 1); /* it was tried once */
        shutdown(link->sender.connection->fd, SHUT_RDWR);
        pump_rounds(&from, &to, 10);
    }
    ops->put_release(from.driver, put);
    ops->peer_disconnect(from.driver, peer);
    ops->landing_free(to.driver, landing);
    side_close(&from);
    side_close(&to);
    free(layout);
}

Test(tcp_pair, other_addresses_in_clear)
{
    check_link();
}

Test(tcp_pair, other_addresses_encrypted)
{
    teardown();
    setup_with(false);
    check_link();
}

/* A dial for a pair tries them in turn, too. */
Test(tcp_pair, the_first_address_leads_nowhere)
{
    address.endpoints[1] = address.endpoints[0];
    address.endpoints[0].host[3] = 9;
    address.count = 2;
    check_whole_way();
}

/* What is announced is checked. */
Test(tcp_pair, impossible_addresses)
{
    struct tcp_address other;
    struct driver_peer *peer;
    for (unsigned what = 0; what < 5; what++) {
        other = address;
        other.count = what == 0 ? 0 : what == 1 ? TCP_ENDPOINTS_MAX + 1 : 2;
        other.endpoints[1] = other.endpoints[0];
        other.endpoints[1].family = what == 2 ? 5 : 4;
        other.endpoints[1].port = what == 3 ? 0 : 1;
        const int r = connect_to(door.driver, &other, sizeof(other), &peer);
        cr_assert_eq(r, what < 4 ? -EINVAL : 0, "case %u", what);
        if (r == 0)
            door.driver->ops->peer_disconnect(door.driver, peer);
    }
}

/* ---- landings by number ---- */

static bool may_sleep(const struct side *side)
{
    const struct driver_ops *ops = side->driver->ops;
    struct pollfd event = {.fd = ops->event_fd(side->driver), .events = POLLIN};
    return ops->arm(side->driver) == 0 && poll(&event, 1, 0) == 0;
}

/* The data is there before the receiver knows where it belongs. */
Test(tcp_pair, ahead_of_its_landing)
{
    struct way way;
    way_open(&way, 0, 7);
    side_join(&sender, way.peer, &receiver, way.back, NULL);
    way_post(&way);
    for (unsigned i = 0; i < 100 && !((struct tcp_peer *)way.peer)->sender.written; i++)
        pump_rounds(&sender, &receiver, 100);
    pump_rounds(&receiver, NULL, 5000);
    cr_assert(receiver.notified_count == 0);
    cr_assert(may_sleep(&receiver)); /* meanwhile */
    cr_assert(way_land(&way, 0, 7) == 0);
    way_end(&way);
    way_close(&way);
}

/* What is gone is told from what is to come. */
Test(tcp_pair, behind_its_landing)
{
    struct way old, new;
    struct op again;
    way_open(&old, 0, 7);
    side_join(&sender, old.peer, &receiver, old.back, NULL);
    cr_assert(way_land(&old, 0, 7) == 0);
    way_post(&old);
    way_end(&old);
    receiver.driver->ops->landing_free(receiver.driver, old.landing);
    old.landing = NULL;
    memset(receiver.memory, 0x11, REGION);
    op_init(&again);
    cr_assert(post(&sender, &receiver, old.put, &again) == 0);
    cr_assert(pump_until(&sender, &receiver, &again.done, 1));
    cr_assert(again.status == -ESTALE);
    cr_assert(sender.driver->ops->put_post(sender.driver, old.put, &again.op) == -ESTALE);
    for (size_t i = 0; i < REGION; i++)
        cr_assert(receiver.memory[i] == 0x11);
    cr_assert(receiver.notified_count == 1);

    way_open(&new, 0, 8); /* its place is taken by another one */
    cr_assert(way_land(&new, 0, 8) == 0);
    struct driver_landing *landing = new.landing;
    cr_assert(way_land(&new, 0, 9) == -EEXIST);
    new.landing = landing;
    way_close(&new);
    way_close(&old);
}

Test(tcp_pair, dropped)
{
    struct way way;
    way_open(&way, 0, 1);
    side_join(&sender, way.peer, &receiver, way.back, NULL);
    way_post(&way);
    receiver.driver->ops->peer_fail(receiver.driver, way.back, -EOWNERDEAD);
    while (((struct tcp_peer *)way.peer)->sender.connection)
        pump_rounds(&sender, &receiver, 1);
    sender.driver->ops->peer_fail(sender.driver, way.peer, -EOWNERDEAD);
    cr_assert(pump_until(&sender, &receiver, &way.op.done, 1));
    cr_assert(way.op.status == -EOWNERDEAD);
    way_close(&way);
}
