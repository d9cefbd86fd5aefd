/*
 * Memory of an hca instance that is freed while a peer puts into it: the connection survives, late
 * writes do not reach other memory, and the memory is released when nothing more can arrive. Needs
 * a device: tests/vm/run.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "drivers/hca/hca.h"
#include "tests/unit/drivers/kit.h"

enum {
    SMALLEST = 8192,
    SIZES = 10,
    MOST = SMALLEST << SIZES,
    FREES = 40,
    BLOCK = 2048,
    CANARY = 0x5a
};

static struct side sides[2];
static struct driver_peer *peers[2];
static struct layout *layouts[SIZES];
static unsigned gone;
static pid_t last_gone_in; /* thread */

/* With blocks, each is a write of its own: long ones do not fit into the send queue. */
static struct layout *layout_of(uint64_t bytes, bool blocks)
{
    const struct shape whole = {.block = bytes, .count = 1, .outer = 1},
                       comb = {.block = BLOCK,
                               .count = bytes / (2 * BLOCK),
                               .stride = 2 * BLOCK,
                               .outer = 1};
    return shape_layout(blocks ? &comb : &whole);
}

static void setup(void)
{
    for (unsigned i = 0; i < 2; i++)
        cr_assert(side_open(&sides[i], "hca", 0, MOST) == 0);
    cr_assert(connect_sides(&sides[0], &sides[1], &peers[0], &peers[1]) == 0);
    memset(sides[0].memory, 0xbb, MOST);
    for (unsigned i = 0; i < SIZES; i++)
        layouts[i] = layout_of((uint64_t)SMALLEST << i, i % 2);
}

static void teardown(void)
{
    for (unsigned i = 0; i < 2; i++)
        sides[i].driver->ops->peer_disconnect(sides[i].driver, peers[i]);
    for (unsigned i = 0; i < 2; i++)
        side_close(&sides[i]);
    for (unsigned i = 0; i < SIZES; i++)
        free(layouts[i]);
}

TestSuite(hca_freed, .init = setup, .fini = teardown, .timeout = 300);

struct memory {
    struct driver_region *region;
    uint8_t *base;
    size_t bytes;
};

/* In any thread. */
static void count_gone(void *context)
{
    last_gone_in = gettid();
    __atomic_fetch_add((unsigned *)context, 1, __ATOMIC_RELEASE);
}

static void memory_new(struct memory *memory, size_t bytes)
{
    struct driver *driver = sides[1].driver;
    int fd = memfd_create("freed", MFD_CLOEXEC);
    cr_assert(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
    memory->base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    memory->bytes = bytes;
    cr_assert(memory->base != MAP_FAILED);
    memset(memory->base, CANARY, bytes);
    struct driver_memory args = {.base = memory->base,
                                 .length_bytes = bytes,
                                 .fd = fd,
                                 .gone = count_gone,
                                 .context = &gone};
    cr_assert(driver->ops->region_add(driver, &args, &memory->region) == 0);
    close(fd);
}

static void memory_free(struct memory *memory)
{
    sides[1].driver->ops->region_remove(sides[1].driver, memory->region);
    munmap(memory->base, memory->bytes);
}

static struct driver_put *put_to(const struct memory *memory, const struct layout *layout,
                                 struct driver_landing **ret_landing)
{
    uint8_t blob[LANDING_MAX_BYTES];
    size_t blob_bytes;
    struct driver_put *put;
    struct driver_put_info info;
    struct driver *from = sides[0].driver, *to = sides[1].driver;
    struct driver_landing_args landing_args = {
        .region = memory->region, .layout = layout, .notify = true, .token = 1};
    cr_assert(to->ops->landing_new(to, &landing_args, ret_landing, blob, &blob_bytes) == 0);
    struct driver_put_args args = {.peer = peers[0],
                                   .region = sides[0].region,
                                   .layout = layout,
                                   .landing = blob,
                                   .landing_bytes = blob_bytes,
                                   .target_layout = layout};
    cr_assert(from->ops->put_prepare(from, &args, &put, &info) == 0);
    return put;
}

/* The target is freed while a put is in flight, and other memory takes its addresses. */
static void free_under_way(unsigned number)
{
    struct memory freed, next;
    struct driver_landing *landing;
    struct op op;
    const unsigned size = number % SIZES;
    memory_new(&freed, (size_t)SMALLEST << size);
    struct driver_put *put = put_to(&freed, layouts[size], &landing);
    op_init(&op);
    cr_assert(post(&sides[0], &sides[1], put, &op) == 0);
    pump_rounds(&sides[0], &sides[1], number % 7);

    sides[1].driver->ops->landing_free(sides[1].driver, landing);
    memory_free(&freed);
    memory_new(&next, (size_t)SMALLEST << size);
    cr_assert(pump_until(&sides[0], &sides[1], &op.done, 1), "free %u: the put hangs", number);
    cr_assert(op.status == 0 || op.status == -ESTALE, "free %u: %d", number, op.status);
    for (size_t i = 0; i < next.bytes; i++)
        if (next.base[i] != CANARY)
            cr_assert_fail("byte %zu of somebody else's memory was written", i);
    sides[0].driver->ops->put_release(sides[0].driver, put);
    memory_free(&next);
}

Test(hca_freed, while_a_peer_puts)
{
    for (unsigned i = 0; i < FREES; i++)
        free_under_way(i);
    cr_assert(pump_until(&sides[0], &sides[1], &gone, 2 * FREES), "%u of %u are kept for ever",
              2 * FREES - gone, 2 * FREES);
    cr_assert(sides[0].downs == 0 && sides[1].downs == 0, "a free has cost the connection");
}

/* A put that was prepared before, and one that is prepared afterwards with the old description. */
Test(hca_freed, later_puts_are_stale)
{
    struct memory freed;
    struct driver_landing *landing;
    struct op op;
    struct driver_put_info info;
    struct driver_put *late;
    uint8_t blob[LANDING_MAX_BYTES];
    size_t blob_bytes;
    struct driver *from = sides[0].driver, *to = sides[1].driver;
    memory_new(&freed, SMALLEST);
    struct driver_put *put = put_to(&freed, layouts[0], &landing);
    to->ops->landing_free(to, landing);
    struct driver_landing_args landing_args = {.region = freed.region, .layout = layouts[0]};
    cr_assert(to->ops->landing_new(to, &landing_args, &landing, blob, &blob_bytes) == 0);
    to->ops->landing_free(to, landing);
    memory_free(&freed);
    cr_assert(pump_until(&sides[0], &sides[1], &gone, 1));
    op_init(&op);
    cr_assert(from->ops->put_post(from, put, &op.op) == -ESTALE);
    struct driver_put_args args = {.peer = peers[0],
                                   .region = sides[0].region,
                                   .layout = layouts[0],
                                   .landing = blob,
                                   .landing_bytes = blob_bytes,
                                   .target_layout = layouts[0]};
    cr_assert(from->ops->put_prepare(from, &args, &late, &info) == -ESTALE);
    from->ops->put_release(from, put);
}

/* A peer that does not answer keeps the memory until it is lost. */
Test(hca_freed, the_dead_do_not_answer)
{
    struct side none = {0};
    struct memory freed;
    struct driver_landing *landing;
    memory_new(&freed, SMALLEST);
    struct driver_put *put = put_to(&freed, layouts[0], &landing);
    sides[1].driver->ops->landing_free(sides[1].driver, landing);
    memory_free(&freed);
    pump_rounds(&sides[1], &none, 1000);
    cr_assert(gone == 0, "released before the peer has stopped");
    sides[1].driver->ops->peer_fail(sides[1].driver, peers[1], -EHOSTDOWN);
    cr_assert(pump_until(&sides[1], &none, &gone, 1));
    cr_assert(last_gone_in != gettid(), "the thread that serves all peers has unpinned it");
    sides[0].driver->ops->put_release(sides[0].driver, put);
}

/* Nor for ever. */
Test(hca_freed, the_silent_are_cut_off)
{
    struct side none = {0};
    struct memory freed;
    struct driver_landing *landing;
    struct recall *recall = &((struct hca_driver *)sides[1].driver)->recall;
    struct recall_driver impatient = *recall->driver;
    impatient.deadline_ns = 1;
    recall->driver = &impatient;
    memory_new(&freed, SMALLEST);
    struct driver_put *put = put_to(&freed, layouts[0], &landing);
    sides[1].driver->ops->landing_free(sides[1].driver, landing);
    memory_free(&freed);
    cr_assert(pump_until(&sides[1], &none, &sides[1].downs, 1), "it is not lost");
    cr_assert(pump_until(&sides[1], &none, &gone, 1));
    sides[0].driver->ops->put_release(sides[0].driver, put);
    recall->driver = &hca_recall;
}

/* More peers than the completion queue has room for at first. */
Test(hca_freed, many_peers)
{
    struct hca_driver *hca = (struct hca_driver *)sides[0].driver;
    const struct driver_ops *ops = sides[0].driver->ops;
    uint8_t address[ADDRESS_MAX_BYTES], offer[OFFER_MAX_BYTES];
    size_t offer_bytes;
    const int bytes = ops->address(sides[1].driver, address);
    const int before = hca->cq->cqe; /* the device rounds up */
    const unsigned count = (unsigned)before / (HCA_REQUESTS + HCA_RECEIVES) + 4;
    struct driver_peer **many = calloc(count, sizeof(struct driver_peer *));
    cr_assert(many);
    for (unsigned i = 0; i < count; i++) {
        const int r = ops->peer_connect(sides[0].driver, address, (size_t)bytes, &many[i], offer,
                                        &offer_bytes);
        cr_assert(r == 0, "%u: %s", i, strerror(-r));
    }
    cr_assert(hca->cq->cqe > before);
    for (unsigned i = 0; i < count; i++)
        ops->peer_disconnect(sides[0].driver, many[i]);
    free(many);
    while (hca->dead) /* thousands of receive buffers come back */
        pump_rounds(&sides[0], &sides[1], 100);
}
