#include "tests/unit/drivers/kit.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "drivers/ofi/config.h"
#include "drivers/peach2/config.h"
#include "drivers/tcp/adopt.h"
#include "drivers/tcp/config.h"
#include "proto/wait.h"
#include "tests/unit/proto/random.h"

uint64_t shape_bytes(const struct shape *shape)
{
    return shape->block * shape->count * shape->outer;
}

int64_t shape_place(const struct shape *shape, uint64_t position)
{
    uint64_t plane = shape->block * shape->count;
    uint64_t inside = position % plane;
    return shape->offset + (int64_t)(position / plane) * shape->outer_stride +
           (int64_t)(inside / shape->block) * shape->stride + (int64_t)(inside % shape->block);
}

struct layout *shape_layout(const struct shape *shape)
{
    struct layout *block, *row, *plane, *moved;
    if (layout_contiguous(shape->block, &block) < 0 ||
        layout_repeat(block, shape->count, shape->stride, &row) < 0 ||
        layout_repeat(row, shape->outer, shape->outer_stride, &plane) < 0 ||
        layout_shift(plane, shape->offset, &moved) < 0)
        abort();
    free(block);
    free(row);
    free(plane);
    return moved;
}

uint32_t next_random(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

void fill(uint8_t *bytes, size_t length, uint32_t seed)
{
    struct random random = {seed};
    for (size_t i = 0; i < length; i += sizeof(uint64_t)) {
        const uint64_t value = random_next(&random);
        memcpy(&bytes[i], &value, length - i < sizeof(value) ? length - i : sizeof(value));
    }
}

static void notified(void *context, uint64_t token)
{
    struct side *side = context;
    if (side->expected && memcmp(side->memory, side->expected, side->bytes) != 0)
        side->early = true;
    if (side->test)
        side->test();
    if (side->notified_count < NOTIFIED_MAX)
        side->notified[side->notified_count] = token;
    side->notified_count++;
}

static void peer_down(void *context, struct driver_peer *peer, int error)
{
    struct side *side = context;
    side->downs++;
    side->down_error = error;
}

const void *side_config(const char *name)
{
    static struct tcp_config tcp = {.address = "127.0.0.1"};
    static struct ofi_config ofi = {.address = "127.0.0.1", .unprotected = true};
    static struct peach2_config peach2;
    tcp.plain = getenv("TEST_TCP_PLAIN") != NULL;
    ofi.provider = getenv("TEST_OFI_PROVIDER") ? getenv("TEST_OFI_PROVIDER") : "tcp";
    peach2.board = side_board ? side_board() : NULL;
    peach2.nodes = side_board_nodes ? side_board_nodes() : 2;
    peach2.window_bytes = side_board_window ? side_board_window() : 0;
    return strcmp(name, "tcp") == 0      ? (const void *)&tcp
           : strcmp(name, "ofi") == 0    ? (const void *)&ofi
           : strcmp(name, "peach2") == 0 ? (const void *)&peach2
                                         : NULL;
}

static void paired(void *context, uint64_t pair, int fd, bool encrypts)
{
    struct side *side = context;
    side->paired_count++;
    side->paired = pair;
    side->paired_fd = fd;
    side->paired_encrypts = encrypts;
}

/* A daemon's instance describes the device. */
static int open_hca_seat(const struct driver_events *events, struct driver **ret_driver)
{
    const struct driver_ops *ops = driver_find("hca");
    const struct driver_config config = {0};
    const struct driver_events nothing = {0};
    uint8_t device[ADDRESS_MAX_BYTES];
    struct driver *daemon;
    int r = ops->open(&config, &nothing, &daemon);
    if (r < 0)
        return r;
    const int bytes = ops->pairs->device(daemon, device);
    ops->close(daemon);
    return tca_hca_seat.open(device, (size_t)bytes, events, ret_driver);
}

static struct driver_events events_of(struct side *side)
{
    return (struct driver_events){
        .notified = notified, .peer_down = peer_down, .paired = paired, .context = side};
}

static int add_region(struct side *side)
{
    int fd = memfd_create("side", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, (off_t)side->bytes) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) < 0)
        return -errno;
    side->memory = mmap(NULL, side->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (side->memory == MAP_FAILED)
        return -ENOMEM;
    struct driver_memory memory = {.base = side->memory, .length_bytes = side->bytes, .fd = fd};
    int r = side->regions->ops->region_add(side->regions, &memory, &side->region);
    close(fd);
    return r;
}

int side_open(struct side *side, const char *name, uint64_t segment_bytes, size_t bytes)
{
    const struct driver_ops *ops = driver_find(name);
    const struct driver_config config = {.segment_bytes = segment_bytes, .own = side_config(name)};
    const struct driver_events events = events_of(side);
    *side = (struct side){.bytes = bytes};
    signal(SIGPIPE, SIG_IGN); /* as in tcad: OpenSSL writes to its sockets without MSG_NOSIGNAL */
    int r = strcmp(name, TCP_SEAT) == 0   ? tcp_seat_open(&events, &side->driver)
            : strcmp(name, HCA_SEAT) == 0 ? open_hca_seat(&events, &side->driver)
            : ops                         ? ops->open(&config, &events, &side->driver)
                                          : -ENOENT;
    side->regions = side->driver;
    return r < 0 ? r : add_region(side);
}

/* What it puts to the instance itself is told there. */
int side_open_branch(struct side *side, struct side *trunk, size_t bytes)
{
    const struct driver_ops *ops = trunk->driver->ops;
    const bool itself = ops->id == DRIVER_SHM;
    const struct driver_events events = events_of(itself ? trunk : side);
    *side = (struct side){.bytes = bytes};
    int r = ops->branch(trunk->driver, &events, &side->driver);
    side->regions = trunk->driver;
    return r < 0 ? r : add_region(side);
}

void side_close(struct side *side)
{
    if (!side->driver)
        return;
    side->regions->ops->region_remove(side->regions, side->region);
    side->driver->ops->close(side->driver);
    munmap(side->memory, side->bytes);
    side->driver = NULL;
}

int connect_to(struct driver *driver, const void *address, size_t address_bytes,
               struct driver_peer **ret_peer)
{
    uint8_t offer[OFFER_MAX_BYTES];
    size_t offer_bytes;
    int r =
        driver->ops->peer_connect(driver, address, address_bytes, ret_peer, offer, &offer_bytes);
    if (r == 0 && offer_bytes > 0)
        abort();
    return r;
}

struct offered {
    struct driver_peer *peer;
    uint8_t offer[OFFER_MAX_BYTES];
    size_t bytes;
};

static int offer_to(struct side *from, struct side *to, struct offered *ret_offered)
{
    uint8_t address[ADDRESS_MAX_BYTES];
    int r = to->driver->ops->address(to->driver, address);
    return r < 0 ? r
                 : from->driver->ops->peer_connect(from->driver, address, (size_t)r,
                                                   &ret_offered->peer, ret_offered->offer,
                                                   &ret_offered->bytes);
}

int connect_sides(struct side *from, struct side *to, struct driver_peer **ret_peer,
                  struct driver_peer **ret_back)
{
    const struct driver_ops *ops = from->driver->ops;
    struct offered there = {0}, back = {0};
    int r = offer_to(from, to, &there);
    if (r == 0 && ops->peer_answer) {
        const struct offered *other = from == to ? &there : &back;
        if (from != to)
            r = offer_to(to, from, &back);
        if (r == 0 && from != to)
            r = ops->peer_answer(to->driver, back.peer, there.offer, there.bytes);
        if (r == 0)
            r = ops->peer_answer(from->driver, there.peer, other->offer, other->bytes);
    }
    if (r < 0)
        return r;
    *ret_peer = there.peer;
    *ret_back = back.peer;
    return 0;
}

static void op_done(struct driver_op *driver_op, int status)
{
    struct op *op = (struct op *)driver_op;
    op->status = status;
    op->done++;
}

void op_init(struct op *op)
{
    *op = (struct op){.op.done = op_done, .status = 1};
}

/* Of TCP, so that the kernel can encrypt it. */
static int loopback_pair(int ret_ends[2])
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(at);
    const int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ret_ends[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ret_ends[1] = -1;
    if (bind(listener, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(listener, 1) < 0 ||
        getsockname(listener, (struct sockaddr *)&at, &bytes) < 0 ||
        connect(ret_ends[0], (struct sockaddr *)&at, sizeof(at)) < 0 ||
        (ret_ends[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) < 0)
        return -errno;
    for (int i = 0; i < 2; i++)
        setsockopt(ret_ends[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return close(listener);
}

void side_join(struct side *a, struct driver_peer *peer_a, struct side *b,
               struct driver_peer *peer_b, const uint8_t *secret)
{
    int ends[2];
    if (loopback_pair(ends) < 0 || tcp_adopt(a->driver, peer_a, ends[0], true, true, secret) < 0 ||
        tcp_adopt(b->driver, peer_b, ends[1], false, true, secret) < 0)
        abort();
}

void side_exchange_offers(struct side *a, struct driver_peer *peer_a, struct side *b,
                          struct driver_peer *peer_b)
{
    uint8_t offer[OFFER_MAX_BYTES], back[OFFER_MAX_BYTES];
    const int bytes = tca_hca_seat.offer(a->driver, peer_a, true, offer),
              back_bytes = tca_hca_seat.offer(b->driver, peer_b, false, back);
    if (bytes < 0 || back_bytes < 0 ||
        b->driver->ops->peer_answer(b->driver, peer_b, offer, (size_t)bytes) < 0 ||
        a->driver->ops->peer_answer(a->driver, peer_a, back, (size_t)back_bytes) < 0)
        abort();
}

static void pump(struct side *a, struct side *b)
{
    if (a->driver && a->driver->ops->progress(a->driver, 16) < 0)
        abort();
    if (b && b != a && b->driver && b->driver->ops->progress(b->driver, 16) < 0)
        abort();
}

/* Only a hanging test takes this long, however busy the machine is. */
#define GIVE_UP_NS UINT64_C(240000000000)

bool pump_until(struct side *a, struct side *b, const unsigned *counter, unsigned goal)
{
    const uint64_t give_up_ns = clock_now_ns() + GIVE_UP_NS;
    while (__atomic_load_n(counter, __ATOMIC_ACQUIRE) < goal) { /* of any thread */
        pump(a, b);
        if (clock_now_ns() > give_up_ns)
            return false;
    }
    return true;
}

void pump_rounds(struct side *a, struct side *b, unsigned rounds)
{
    while (rounds-- > 0)
        pump(a, b);
}

int post(struct side *a, struct side *b, struct driver_put *put, struct op *op)
{
    const uint64_t give_up_ns = clock_now_ns() + GIVE_UP_NS;
    int r;
    while ((r = a->driver->ops->put_post(a->driver, put, &op->op)) == -EAGAIN) {
        pump(a, b);
        if (clock_now_ns() > give_up_ns)
            return -ETIMEDOUT;
    }
    return r;
}
