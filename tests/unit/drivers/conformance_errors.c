/* Conformance of drivers: errors and failed peers. Compiled once for each driver. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "drivers/peach2/config.h"
#include "tests/unit/drivers/world.h"

enum { REGION = 4 << 20, TARGET_OFFSET = REGION / 2 };

Test(DRIVER_SUITE, refuses_what_does_not_fit, .timeout = 60)
{
    struct transfer transfer;
    const struct shape small = {.block = 64, .count = 1, .outer = 1},
                       large = {.block = 65, .count = 1, .outer = 1};
    open_world(0, REGION);
    cr_assert(prepare(&transfer, &small, 0, &large, TARGET_OFFSET, true, 1) == -EMSGSIZE);
    release(&transfer);
    cr_assert(prepare(&transfer, &small, 0, NULL, 0, true, 1) == -EMSGSIZE);
    release(&transfer);
    close_world();
}

Test(DRIVER_SUITE, refuses_garbled_landings, .timeout = 60)
{
    struct transfer transfer;
    struct driver_put *put;
    struct driver_put_info info;
    const struct shape shape = {.block = 64, .count = 1, .outer = 1};
    open_world(0, REGION);
    cr_assert(prepare(&transfer, &shape, 0, &shape, TARGET_OFFSET, true, 1) == 0);
    struct driver_put_args args = {
        .peer = world.peer,
        .region = world.from->region,
        .layout = transfer.source,
        .landing = transfer.blob,
        .landing_bytes = transfer.blob_bytes - 1,
        .target_layout = transfer.target,
    };
    struct driver *from = world.from->driver;
    cr_assert(from->ops->put_prepare(from, &args, &put, &info) == -EINVAL);
    memset(transfer.blob, 0xee, transfer.blob_bytes);
    args.landing_bytes = transfer.blob_bytes;
    cr_assert(from->ops->put_prepare(from, &args, &put, &info) < 0);
    release(&transfer);
    close_world();
}

Test(DRIVER_SUITE, a_peer_that_its_owner_gave_up, .timeout = 60)
{
    enum { PUTS = 8 };
    struct transfer transfers[PUTS];
    const struct shape strided = {.block = 8, .count = 50000, .stride = 16, .outer = 1};
    struct op late;
    open_world(4096, REGION);
    for (unsigned i = 0; i < PUTS; i++) {
        cr_assert(prepare(&transfers[i], &strided, 0, &strided, TARGET_OFFSET, true, i) == 0);
        start(&transfers[i]);
    }
    world.from->driver->ops->peer_fail(world.from->driver, world.peer, -EHOSTDOWN);
    for (unsigned i = 0; i < PUTS; i++) {
        cr_assert(pump_until(world.from, world.to, &transfers[i].op.done, 1));
        cr_assert(transfers[i].op.status == -EHOSTDOWN);
    }
    op_init(&late);
    cr_assert(post(world.from, world.to, transfers[0].put, &late) == -EHOSTDOWN);
    cr_assert(late.done == 0);
    cr_assert(world.from->downs == 0);
    for (unsigned i = 0; i < PUTS; i++)
        release(&transfers[i]);
    close_world();
}

Test(DRIVER_SUITE, a_freed_landing_is_left_alone, .timeout = 60)
{
    struct transfer transfer;
    const struct shape strided = {.block = 8, .count = 1000, .stride = 16, .outer = 1};
    open_world(0, REGION);
    if (INSTANCES == 1) { /* there, the owner guarantees that no put is in flight */
        close_world();
        return;
    }
    cr_assert(prepare(&transfer, &strided, 0, &strided, TARGET_OFFSET, true, 1) == 0);
    start(&transfer);
    cr_assert(pump_until(world.from, world.to, &world.to->notified_count, 1));
    cr_assert(pump_until(world.from, world.to, &transfer.op.done, 1));
    struct driver_landing *again;
    struct driver_landing_args args = {.region = world.to->region,
                                       .offset_bytes = TARGET_OFFSET,
                                       .layout = transfer.target,
                                       .notify = true,
                                       .token = 2};
    world.to->driver->ops->landing_free(world.to->driver, transfer.landing);
    uint8_t blob[LANDING_MAX_BYTES];
    size_t blob_bytes;
    cr_assert(land(&args, &again, blob, &blob_bytes) == 0);
    transfer.landing = again;

    fill(world.from->memory, REGION, 3);
    memset(world.to->memory, 0x33, REGION);
    start(&transfer);
    cr_assert(pump_until(world.from, world.to, &transfer.op.done, 1));
    pump_rounds(world.from, world.to, 1000);
    cr_assert(world.to->notified_count == 1);
    for (size_t i = 0; i < REGION; i++)
        cr_assert(world.to->memory[i] == 0x33);
    release(&transfer);
    close_world();
}

/* ---- memory that is freed under a put ---- */

enum { FREED = 1 << 20, CANARY = 0x5a };

struct memory {
    struct driver_region *region;
    uint8_t *base;
    unsigned gone; /* by any thread */
};

static void count_gone(void *context)
{
    __atomic_fetch_add((unsigned *)context, 1, __ATOMIC_RELEASE);
}

static void memory_new(struct memory *memory)
{
    struct driver *to = world.to->driver;
    const int fd = memfd_create("freed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    cr_assert(fd >= 0 && ftruncate(fd, FREED) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    *memory = (struct memory){.base = mmap(NULL, FREED, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)};
    cr_assert(memory->base != MAP_FAILED);
    memset(memory->base, CANARY, FREED);
    const struct driver_memory args = {.base = memory->base,
                                       .length_bytes = FREED,
                                       .fd = fd,
                                       .gone = count_gone,
                                       .context = &memory->gone};
    cr_assert(to->ops->region_add(to, &args, &memory->region) == 0);
    close(fd);
}

static void memory_free(struct memory *memory)
{
    world.to->driver->ops->region_remove(world.to->driver, memory->region);
    munmap(memory->base, FREED);
}

static int prepare_into(struct transfer *transfer, const struct shape *shape,
                        const struct memory *memory, uint64_t token)
{
    struct driver_region *other = world.to->region;
    world.to->region = memory->region;
    int r = prepare(transfer, shape, 0, shape, 0, true, token);
    world.to->region = other;
    return r;
}

static bool is_untouched(const struct memory *memory)
{
    size_t i = 0;
    while (i < FREED && memory->base[i] == CANARY)
        i++;
    return i == FREED;
}

/* Whoever has the key of freed memory is asked to stop, and says nothing for a while: the memory is
 * not given back, nobody else's is written, and the others' work goes on. */
static void recall_from_the_silent(const struct shape *shape)
{
    struct memory freed, next;
    struct transfer transfer, later;
    struct driver *to = world.to->driver;
    world.to->notified_count = 0;
    memory_new(&freed);
    cr_assert(prepare_into(&transfer, shape, &freed, 1) == 0);
    start(&transfer);
    cr_assert(pump_until(world.from, world.to, &transfer.op.done, 1));
    cr_assert(pump_until(world.from, world.to, &world.to->notified_count, 1));
    start(&transfer);

    to->ops->landing_free(to, transfer.landing);
    memory_free(&freed);
    memory_new(&next);
    cr_assert(prepare_into(&later, shape, &next, 2) == 0);
    pump_rounds(world.to, NULL, 1000);
    cr_assert(is_untouched(&next));
    const bool has_keys = strcmp(DRIVER, "ofi") == 0 || strcmp(DRIVER, "hca") == 0;
    cr_assert(!has_keys || shape->block < FREED || freed.gone == 0, "given back too early");

    cr_assert(pump_until(world.from, world.to, &transfer.op.done, 1));
    cr_assert(transfer.op.status == 0 || transfer.op.status == -ESTALE);
    cr_assert(pump_until(world.from, world.to, &freed.gone, 1), "kept for ever");
    cr_assert(is_untouched(&next));
    const unsigned notified = world.to->notified_count;
    start(&later);
    cr_assert(pump_until(world.from, world.to, &later.op.done, 1));
    cr_assert(later.op.status == 0);
    cr_assert(pump_until(world.from, world.to, &world.to->notified_count, notified + 1));
    cr_assert(world.from->downs == 0 && world.to->downs == 0, "it has cost the peer");

    world.from->driver->ops->put_release(world.from->driver, transfer.put);
    free(transfer.source);
    free(transfer.target);
    release(&later);
    memory_free(&next);
    cr_assert(pump_until(world.from, world.to, &next.gone, 1));
}

Test(DRIVER_SUITE, recall_with_a_silent_holder, .timeout = 60)
{
    const struct shape whole = {.block = FREED, .count = 1, .outer = 1},
                       blocks = {.block = 2048, .count = 200, .stride = 4096, .outer = 1},
                       words = {.block = 8, .count = 20000, .stride = 16, .outer = 1},
                       word = {.block = 8, .count = 1, .outer = 1};
    open_world(0, REGION);
    /* with one instance, the owner guarantees that no put is in flight */
    for (unsigned i = 0; i < 3 && INSTANCES > 1; i++) {
        recall_from_the_silent(&whole);
        recall_from_the_silent(&blocks);
        recall_from_the_silent(&words);
        recall_from_the_silent(&word);
    }
    close_world();
}

Test(DRIVER_SUITE, many_landings, .timeout = 60)
{
    enum { LANDINGS = 100000 };
    struct driver_landing **landings = calloc(LANDINGS, sizeof(landings[0]));
    uint8_t blob[LANDING_MAX_BYTES];
    size_t blob_bytes;
    open_world(0, REGION);
    struct driver *to = world.to->driver;
    struct driver_landing_args args = {.notify = true};
    for (unsigned i = 0; i < LANDINGS; i++)
        cr_assert(land(&args, &landings[i], blob, &blob_bytes) == 0);
    for (unsigned i = 0; i < LANDINGS; i++)
        to->ops->landing_free(to, landings[i]);
    free(landings);
    close_world();
}

Test(DRIVER_SUITE, probe_says_what_it_can)
{
    struct driver_caps caps;
    const struct peach2_config board = {.board = "/nowhere"};
    const struct driver_config config = {
        .own = strcmp(DRIVER, "peach2") == 0 ? &board : side_config(DRIVER)};
    const struct driver_ops *ops = driver_find(DRIVER);
    cr_assert(ops && driver_of_id(ops->id) == ops);
    cr_assert(ops->probe(&config, &caps) == 0);
    cr_assert(caps.same_node || caps.other_nodes);
    cr_assert(caps.detail[0] != '\0');
}
