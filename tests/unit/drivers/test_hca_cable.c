/*
 * The cable of an hca instance is pulled while puts run, and plugged in again: puts complete or
 * fail, whatever has completed has arrived, nothing hangs, and a new connection works. Both
 * instances use one device, so both notice when its port goes down; that only one end notices, or
 * none, is made by hand. Needs a device whose network can be taken away: tests/vm/run.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "drivers/hca/hca.h"
#include "tests/unit/drivers/world.h"

enum { SLOT = 1 << 20, REGION = 5 * SLOT, ROUNDS = 12, NOTHING = 0x5a };

/* One for each path: short, writes, writes of blocks, messages that gather, a notification
 * alone. */
static const struct shape shapes[] = {
    {.block = 64, .count = 1, .outer = 1},
    {.block = SLOT, .count = 1, .outer = 1},
    {.block = 4096, .count = 100, .stride = 8192, .outer = 1},
    {.block = 8, .count = 50000, .stride = 16, .outer = 1},
    {.block = 1000, .count = 1, .outer = 1},
};
enum { PUTS = sizeof(shapes) / sizeof(shapes[0]) };
static_assert(PUTS * SLOT <= REGION, "each has a slot");
static struct transfer transfers[PUTS];

/* ---- the cable ---- */

static struct ifreq network(void)
{
    struct hca_driver *hca = (struct hca_driver *)world.from->driver;
    struct ifreq request = {0};
    char path[256];
    snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/%u/gid_attrs/ndevs/0",
             ibv_get_device_name(hca->context->device), hca->port);
    FILE *file = fopen(path, "r");
    cr_assert(file && fscanf(file, "%15s", request.ifr_name) == 1, "%s", path);
    fclose(file);
    return request;
}

static void plug(bool in)
{
    struct ifreq request = network();
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    cr_assert(fd >= 0 && ioctl(fd, SIOCGIFFLAGS, &request) == 0);
    request.ifr_flags = (short)(in ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP);
    cr_assert(ioctl(fd, SIOCSIFFLAGS, &request) == 0, "%s", strerror(errno));
    close(fd);
}

static bool is_active(void)
{
    struct hca_driver *hca = (struct hca_driver *)world.from->driver;
    struct ibv_port_attr attributes;
    return ibv_query_port(hca->context, hca->port, &attributes) == 0 &&
           attributes.state == IBV_PORT_ACTIVE;
}

/* The kernel tells the device of it after the call. */
static void plug_and_wait(bool in)
{
    plug(in);
    while (is_active() != in)
        usleep(1000);
}

/* ---- puts ---- */

static void *target_of(unsigned put)
{
    return world.to->memory + (uint64_t)put * SLOT;
}

static void prepare_all(void)
{
    for (unsigned i = 0; i < PUTS; i++)
        cr_assert(prepare(&transfers[i], &shapes[i], (uint64_t)i * SLOT, &shapes[i],
                          (uint64_t)i * SLOT, true, i) == 0);
}

static void release_all(void)
{
    for (unsigned i = 0; i < PUTS; i++)
        release(&transfers[i]);
}

static void setup(void)
{
    open_world(0, REGION);
    prepare_all();
}

static void teardown(void)
{
    release_all();
    close_world();
}

TestSuite(hca_cable, .init = setup, .fini = teardown, .timeout = 300);

static void start_all(uint32_t seed)
{
    fill(world.from->memory, REGION, seed);
    memset(world.to->memory, NOTHING, REGION);
    world.to->notified_count = 0;
    for (unsigned i = 0; i < PUTS; i++)
        start(&transfers[i]);
}

static bool was_notified(unsigned put)
{
    for (unsigned i = 0; i < world.to->notified_count; i++)
        if (world.to->notified[i] == put)
            return true;
    return false;
}

static void check_arrived(unsigned put)
{
    const uint8_t *source = world.from->memory + (uint64_t)put * SLOT, *target = target_of(put);
    for (uint64_t at = 0; at < shape_bytes(&shapes[put]); at++) {
        const int64_t place = shape_place(&shapes[put], at);
        cr_assert(source[place] == target[place], "put %u: byte %lu is wrong", put, at);
    }
}

/* All have ended. Short ones complete before they arrive. */
static void end_all(void)
{
    for (unsigned i = 0; i < PUTS; i++) {
        const struct op *op = &transfers[i].op;
        cr_assert(pump_until(world.from, world.to, &op->done, 1), "put %u hangs", i);
        cr_assert(op->status == 0 || op->status == -ENETDOWN, "put %u: %d", i, op->status);
    }
}

static void check_all(void)
{
    for (unsigned i = 0; i < PUTS; i++) {
        if (transfers[i].op.status == 0 && shape_bytes(&shapes[i]) > HCA_COPY_BYTES)
            cr_assert(was_notified(i), "put %u has completed and not arrived", i);
        if (was_notified(i))
            check_arrived(i);
    }
}

/* Both ends have lost the connection, once; nothing is done with it any more. */
static void check_lost(void)
{
    struct driver *from = world.from->driver;
    struct op late;
    cr_assert(pump_until(world.from, world.to, &world.from->downs, 1),
              "the sender has not noticed");
    cr_assert(pump_until(world.from, world.to, &world.to->downs, 1),
              "the receiver has not noticed");
    cr_expect(world.from->down_error == -ENETDOWN && world.to->down_error == -ENETDOWN);
    for (unsigned i = 0; i < PUTS; i++) {
        op_init(&late);
        cr_assert(post(world.from, world.to, transfers[i].put, &late) == -ENETDOWN);
    }
    op_init(&late);
    cr_assert(from->ops->peer_flush(from, world.peer, &late.op) == -ENETDOWN && late.done == 0);
}

/* A new connection takes the place of the one that was lost, and all puts arrive. */
static void begin_again(uint32_t seed)
{
    release_all();
    world.from->driver->ops->peer_disconnect(world.from->driver, world.peer);
    world.to->driver->ops->peer_disconnect(world.to->driver, world.back);
    pump_rounds(world.from, world.to, 100);
    cr_assert(connect_sides(world.from, world.to, &world.peer, &world.back) == 0);
    world.from->downs = world.to->downs = 0;
    prepare_all();
    start_all(seed);
    end_all();
    cr_assert(pump_until(world.from, world.to, &world.to->notified_count, PUTS));
    for (unsigned i = 0; i < PUTS; i++) {
        cr_expect(transfers[i].op.status == 0, "put %u: %d", i, transfers[i].op.status);
        check_arrived(i);
    }
    cr_expect(world.from->downs == 0 && world.to->downs == 0);
}

/* ---- what both ends notice ---- */

static void pull_under_puts(unsigned round)
{
    uint8_t address[ADDRESS_MAX_BYTES], offer[OFFER_MAX_BYTES];
    size_t offer_bytes;
    struct driver_peer *none;
    struct op flush;
    struct driver *from = world.from->driver;
    start_all(round);
    op_init(&flush);
    cr_assert(from->ops->peer_flush(from, world.peer, &flush.op) == 0);
    pump_rounds(world.from, world.to, 4 * round * round);
    plug_and_wait(false);
    end_all();
    cr_assert(pump_until(world.from, world.to, &flush.done, 1), "the flush hangs");
    cr_assert(flush.status == 0 || flush.status == -ENETDOWN, "%d", flush.status);
    check_lost();
    check_all();
    const int bytes = from->ops->address(from, address);
    cr_expect(from->ops->peer_connect(from, address, (size_t)bytes, &none, offer, &offer_bytes) ==
              -ENETDOWN);
    plug_and_wait(true);
    begin_again(round);
}

Test(hca_cable, is_pulled_under_puts)
{
    for (unsigned i = 0; i < ROUNDS; i++)
        pull_under_puts(i);
}

/* Out and in before either end has looked. */
Test(hca_cable, is_pulled_for_a_moment)
{
    start_all(1);
    plug(false);
    plug_and_wait(true);
    end_all();
    check_lost();
    check_all();
    begin_again(1);
}

/* ---- what one end notices, or none ---- */

/* Packets vanish: the sender's device sends them again for a time. */
Test(hca_cable, loses_packets)
{
    start_all(1);
    hca_peer_stop((struct hca_peer *)world.back);
    end_all();
    check_lost();
    check_all();
    begin_again(1);
}

/* Of one end, which sleeps while it has nothing to do. */
static bool sleep_until(struct side *side, const unsigned *counter)
{
    const struct driver_ops *ops = side->driver->ops;
    struct pollfd event = {.fd = ops->event_fd(side->driver), .events = POLLIN};
    while (*counter == 0) {
        if (ops->arm(side->driver) == 0 && poll(&event, 1, 60000) == 0)
            return false;
        pump_rounds(side, NULL, 1);
    }
    return true;
}

/* The receiver's device has acknowledged messages, and its end of the connection is gone before it
 * could send the count for which their puts wait. */
Test(hca_cable, only_the_receiver_notices)
{
    enum { GATHERED = 3 };
    struct driver *to = world.to->driver;
    const struct hca_peer *peer = (struct hca_peer *)world.peer;
    op_init(&transfers[GATHERED].op);
    start(&transfers[GATHERED]);
    while (peer->window.made < 3)
        pump_rounds(world.from, NULL, 1);
    usleep(100000); /* the device delivers them */
    to->ops->peer_fail(to, world.back, -ENETDOWN);
    pump_rounds(world.to, NULL, 10);
    cr_assert(sleep_until(world.from, &transfers[GATHERED].op.done), "the put hangs");
    cr_expect(transfers[GATHERED].op.status == -ENETDOWN);
    cr_expect(world.from->downs == 1 && world.from->down_error == -ENETDOWN);
    begin_again(1);
}
