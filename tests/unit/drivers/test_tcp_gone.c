/*
 * Memory that its process takes away while the tcp driver sends it or receives into it: the kernel
 * then refuses to, which must not end the link, for others use it too.
 */
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "drivers/tcp/tcp.h"
#include "tests/unit/drivers/kit.h"

enum { REGION = 1 << 20, PAGE = 4096 };

static uint8_t *gone;

/* As a process does that shortens the file of its memory. */
static void take_away(void)
{
    const int fd = memfd_create("empty", MFD_CLOEXEC);
    cr_assert(fd >= 0);
    cr_assert_eq(mmap(gone, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0), gone);
    close(fd);
}

/* As tcad's guard: what was taken away is replaced when somebody touches it. */
static void replace(int signal)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    if (mmap(gone, PAGE, PROT_READ | PROT_WRITE, flags, -1, 0) != gone)
        _exit(1);
}

static void run(struct side *sender, struct side *receiver, struct driver_put *put)
{
    struct op op;
    op_init(&op);
    receiver->notified_count = 0;
    cr_assert(post(sender, receiver, put, &op) == 0);
    cr_assert(pump_until(sender, receiver, &op.done, 1));
    cr_assert(op.status == 0 && receiver->notified_count == 1);
}

/* Which connection it is. */
static uint16_t port_of(const struct driver_peer *peer)
{
    struct sockaddr_in at;
    socklen_t bytes = sizeof(at);
    const int fd = ((const struct tcp_peer *)peer)->sender.connection->fd;
    cr_assert(getsockname(fd, (struct sockaddr *)&at, &bytes) == 0);
    return at.sin_port;
}

/* Of the source everything is sent. Bytes for a target that is gone may go nowhere; what comes
 * after them arrives. */
static void check(const struct shape *shape, bool of_source)
{
    struct side sender, receiver;
    struct driver_peer *peer;
    struct driver_landing *landing;
    struct driver_put *put;
    struct driver_put_info info;
    uint8_t address[ADDRESS_MAX_BYTES], blob[LANDING_MAX_BYTES];
    struct layout *layout = shape_layout(shape);
    cr_assert(side_open(&sender, "tcp", 0, REGION) == 0);
    cr_assert(side_open(&receiver, "tcp", 0, REGION) == 0);
    const struct driver_ops *ops = sender.driver->ops;
    struct driver_landing_args target = {
        .region = receiver.region, .layout = layout, .notify = true};
    struct driver_put_args args = {
        .region = sender.region, .landing = blob, .layout = layout, .target_layout = layout};
    cr_assert(ops->landing_new(receiver.driver, &target, &landing, blob, &args.landing_bytes) == 0);
    const int address_bytes = ops->address(receiver.driver, address);
    cr_assert(connect_to(sender.driver, address, (size_t)address_bytes, &peer) == 0);
    args.peer = peer;
    cr_assert(ops->put_prepare(sender.driver, &args, &put, &info) == 0);
    fill(sender.memory, REGION, 5);
    run(&sender, &receiver, put);
    const uint16_t port = port_of(peer);
    gone = (of_source ? sender : receiver).memory + 8 * PAGE;
    signal(SIGBUS, replace);
    take_away();
    run(&sender, &receiver, put);
    replace(0);
    if (!of_source)
        run(&sender, &receiver, put);
    cr_assert(port_of(peer) == port);
    for (uint64_t i = 0; i < shape_bytes(shape); i++)
        cr_assert(receiver.memory[shape_place(shape, i)] == sender.memory[shape_place(shape, i)]);
    ops->put_release(sender.driver, put);
    ops->peer_disconnect(sender.driver, peer);
    ops->landing_free(receiver.driver, landing);
    side_close(&sender);
    side_close(&receiver);
    free(layout);
}

static const struct shape contiguous = {.block = 300000, .count = 1, .outer = 1},
                          long_blocks = {.block = 8192, .count = 40, .stride = 16384, .outer = 1};

Test(tcp_gone, in_clear, .timeout = 60)
{
    setenv("TEST_TCP_PLAIN", "1", 1);
    check(&contiguous, true);
    check(&long_blocks, true);
    check(&contiguous, false);
    check(&long_blocks, false);
}

Test(tcp_gone, in_tls, .timeout = 60)
{
    check(&contiguous, true);
    check(&long_blocks, true);
    check(&contiguous, false);
    check(&long_blocks, false);
}
