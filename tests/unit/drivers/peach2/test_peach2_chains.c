/* The descriptors of layouts: their number, and from which of the three locations the board fetches
 * them. Read from the registers after a put whose data is checked. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "drivers/peach2/peach2.h"
#include "tests/unit/drivers/kit.h"
#include "tests/unit/drivers/peach2/rig.h"

enum { REGION = 16 << 20, MEBIBYTE = 1 << 20 };

static struct rig rig;
static struct side sides[2];
static struct driver_peer *peer;
static unsigned opened;

const char *side_board(void)
{
    return rig.boards[opened++].path;
}

static void open_all(void)
{
    uint8_t address[ADDRESS_MAX_BYTES];
    rig_boards(&rig, 2, 1);
    for (unsigned node = 0; node < 2; node++)
        cr_assert(side_open(&sides[node], "peach2", 0, REGION) == 0);
    fill(sides[0].memory, REGION, 1);
    int bytes = sides[1].driver->ops->address(sides[1].driver, address);
    cr_assert(connect_to(sides[0].driver, address, (size_t)bytes, &peer) == 0);
}

static void close_all(void)
{
    sides[0].driver->ops->peer_disconnect(sides[0].driver, peer);
    for (unsigned node = 0; node < 2; node++)
        side_close(&sides[node]);
    rig_end_boards(&rig);
}

struct transfer {
    struct shape from, to;
    struct layout *source, *target;
    struct driver_landing *landing;
    struct driver_put *put;
    struct driver_put_info info;
};

/* To a landing for the driver of a node alone; NULL: for all. */
static struct transfer prepare_for(const struct side *only, const struct shape *from,
                                   const struct shape *to)
{
    const struct driver_ops *ops = sides[0].driver->ops;
    struct transfer transfer = {
        .from = *from, .to = *to, .source = shape_layout(from), .target = shape_layout(to)};
    uint8_t blob[LANDING_MAX_BYTES], address[ADDRESS_MAX_BYTES];
    size_t blob_bytes;
    const struct driver_landing_args landing = {
        .region = sides[1].region,
        .layout = transfer.target,
        .notify = true,
        .from = only ? address : NULL,
        .from_bytes = only ? (size_t)ops->address(only->driver, address) : 0};
    cr_assert(ops->landing_new(sides[1].driver, &landing, &transfer.landing, blob, &blob_bytes) ==
              0);
    const struct driver_put_args put = {.peer = peer,
                                        .region = sides[0].region,
                                        .layout = transfer.source,
                                        .landing = blob,
                                        .landing_bytes = blob_bytes,
                                        .target_layout = transfer.target};
    cr_assert(ops->put_prepare(sides[0].driver, &put, &transfer.put, &transfer.info) == 0);
    return transfer;
}

static struct transfer prepare(const struct shape *from, const struct shape *to)
{
    return prepare_for(NULL, from, to);
}

static void release(struct transfer *transfer)
{
    sides[0].driver->ops->put_release(sides[0].driver, transfer->put);
    sides[1].driver->ops->landing_free(sides[1].driver, transfer->landing);
    free(transfer->source);
    free(transfer->target);
}

static void check_data(const struct transfer *transfer)
{
    const uint64_t bytes = shape_bytes(&transfer->from);
    for (uint64_t i = 0; i < bytes; i++)
        cr_assert(sides[1].memory[shape_place(&transfer->to, i)] ==
                      sides[0].memory[shape_place(&transfer->from, i)],
                  "byte %lu of %lu", i, bytes);
}

/* The last command of the sender's board, and the descriptors of its chain: the channel is the one
 * that has moved. */
struct told {
    uint32_t fetch, descriptors, commands, retries;
};

static const struct peach2_descriptor *descriptor_at(const struct peach2 *peach2, unsigned channel,
                                                     uint32_t fetch, uint64_t name)
{
    const struct peach2_registers *bar0 = peach2->device.bar0;
    return fetch == PEACH2_FETCH_REGISTERS ? &bar0->channels[channel].descriptors[name]
           : fetch == PEACH2_FETCH_INTERNAL
               ? &bar0->descriptors[name]
               : (const void *)(peach2->arena + (name - peach2->arena_bus));
}

static struct told run(struct transfer *transfer)
{
    const struct peach2 *peach2 = peach2_of(sides[0].driver);
    struct op op;
    struct told told = {0};
    uint32_t before[PEACH2_CHANNELS];
    for (unsigned i = 0; i < PEACH2_CHANNELS; i++)
        before[i] = atomic_load(&peach2->device.bar0->channels[i].start);
    memset(sides[1].memory, 0, REGION);
    op_init(&op);
    cr_assert(post(&sides[0], &sides[1], transfer->put, &op) == 0);
    cr_assert(pump_until(&sides[0], &sides[1], &op.done, 1));
    cr_assert(op.status == 0);
    check_data(transfer);
    for (unsigned i = 0; i < PEACH2_CHANNELS; i++) {
        const struct peach2_channel *channel = &peach2->device.bar0->channels[i];
        const uint32_t start = atomic_load(&channel->start);
        if (start == before[i])
            continue;
        const struct peach2_command command = channel->commands[(start - 1) % PEACH2_COMMANDS];
        cr_assert(told.commands == 0, "one put goes by one channel");
        told = (struct told){
            .fetch = command.fetch, .commands = start - before[i], .retries = op.op.retries};
        const struct peach2_descriptor *at;
        uint64_t name = command.first;
        do {
            at = descriptor_at(peach2, i, command.fetch, name);
            name = at->next;
            told.descriptors++;
        } while (!(at->flags & PEACH2_END));
    }
    return told;
}

static void check(const char *what, const struct shape *from, const struct shape *to,
                  uint32_t descriptors, uint32_t fetch)
{
    struct transfer transfer = prepare(from, to);
    const struct told told = run(&transfer);
    cr_assert(!transfer.info.gathered && transfer.info.descriptors == descriptors, "%s: %u of %u",
              what, transfer.info.descriptors, descriptors);
    /* where a board gets no processor for half a second, the driver commands it once more */
    cr_assert(told.commands == 1 + told.retries && told.descriptors == descriptors,
              "%s: %u in the hardware, by %u commands", what, told.descriptors, told.commands);
    cr_assert(told.fetch == fetch, "%s: fetched from %u, not %u", what, told.fetch, fetch);
    release(&transfer);
}

/* Vectors, faces and everything else with one stride is one descriptor, whatever its blocks are;
 * only the hardware's 1 MiB and a second stride part it. */
Test(peach2_chains, as_few_descriptors_as_possible, .timeout = 120)
{
    static const struct {
        const char *what;
        struct shape from, to;
        uint32_t descriptors;
    } cases[] = {
        {"8 bytes", {8, 1, 0, 1, 0, 0}, {8, 1, 0, 1, 0, 16}, 1},
        {"1 MiB", {MEBIBYTE, 1, 0, 1, 0, 0}, {MEBIBYTE, 1, 0, 1, 0, 4096}, 1},
        {"1 MiB and a word", {MEBIBYTE + 4, 1, 0, 1, 0, 0}, {MEBIBYTE + 4, 1, 0, 1, 0, 0}, 2},
        {"5 MiB", {5 * MEBIBYTE, 1, 0, 1, 0, 0}, {5 * MEBIBYTE, 1, 0, 1, 0, 0}, 5},
        {"a column of doubles", {8, 1000, 8000, 1, 0, 0}, {8, 1000, 8000, 1, 0, 7984}, 1},
        {"a vector", {64, 1024, 512, 1, 0, 4}, {64, 1024, 512, 1, 0, 20}, 1},
        {"to another stride", {64, 1024, 512, 1, 0, 0}, {64, 1024, 80, 1, 0, 0}, 1},
        {"to none", {64, 1024, 512, 1, 0, 0}, {65536, 1, 0, 1, 0, 0}, 1},
        {"from none", {65536, 1, 0, 1, 0, 0}, {64, 1024, 512, 1, 0, 0}, 1},
        {"blocks that lie together", {64, 1024, 64, 1, 0, 0}, {65536, 1, 0, 1, 0, 0}, 1},
        {"backwards", {64, 100, 512, 1, 0, 0}, {64, 100, -128, 1, 0, 100 * 128}, 1},
        {"a stride that is no multiple of 16", {64, 100, 100, 1, 0, 0}, {64, 100, 100, 1, 0, 0}, 1},
        {"blocks of unlike lengths", {96, 100, 512, 1, 0, 0}, {64, 150, 512, 1, 0, 0}, 101},
        {"more than 1 MiB of blocks",
         {65536, 32, 131072, 1, 0, 0},
         {65536, 32, 131072, 1, 0, 0},
         2},
        {"blocks longer than 1 MiB",
         {2 * MEBIBYTE, 2, 3 * MEBIBYTE, 1, 0, 0},
         {2 * MEBIBYTE, 2, 4 * MEBIBYTE, 1, 0, 0},
         4},
        {"parts of blocks that lie together in both",
         {25 * (MEBIBYTE / 16), 2, 41 * (MEBIBYTE / 16), 1, 0, 0},
         {50 * (MEBIBYTE / 16), 1, 0, 1, 0, 0},
         4},
        {"a face of planes", {256, 32, 8192, 1, 0, 0}, {256, 32, 8192, 1, 0, 1024}, 1},
        {"two strides", {64, 16, 512, 32, 65536, 0}, {64, 16, 512, 32, 65536, 0}, 32},
        {"two strides that are one", {64, 16, 512, 32, 16 * 512, 0}, {64, 16, 512, 32, 8192, 0}, 1},
    };
    open_all();
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        check(cases[i].what, &cases[i].from, &cases[i].to, cases[i].descriptors,
              cases[i].descriptors == 1                    ? PEACH2_FETCH_REGISTERS
              : cases[i].descriptors <= INTERNAL_CHAIN_MAX ? PEACH2_FETCH_INTERNAL
                                                           : PEACH2_FETCH_HOST);
    close_all();
}

static uint32_t compiled(int64_t stride)
{
    const struct shape shape = {
        .block = 64, .count = 2, .stride = stride, .outer = 1, .offset = stride < 0 ? -stride : 0};
    struct layout *layout = shape_layout(&shape);
    struct peach2_descriptor descriptors[2];
    uint32_t count = 0;
    cr_assert(
        peach2_compile(layout, PAGE, layout, peach2_global(1, PAGE), descriptors, 2, &count) == 0);
    free(layout);
    return count;
}

/* A register of 32 bits, with a sign. */
Test(peach2_chains, blocks_too_far_apart_for_a_gap)
{
    const int64_t least = INT32_MIN, most = INT32_MAX / 4 * 4;
    cr_assert_eq(compiled(64 + most), 1);
    cr_assert_eq(compiled(64 + most + 4), 2);
    cr_assert_eq(compiled(64 + least), 1);
    cr_assert_eq(compiled(64 + least - 4), 2);
}

/* So many descriptors: planes of two strides. */
static struct shape planes(uint32_t count)
{
    return (struct shape){
        .block = 16, .count = 2, .stride = 32, .outer = count, .outer_stride = 80};
}

static void check_planes(uint32_t count, uint32_t fetch)
{
    const struct shape shape = planes(count);
    check("planes", &shape, &shape, count, fetch);
}

Test(peach2_chains, internal_memory_first_host_memory_when_long, .timeout = 120)
{
    struct transfer full[PEACH2_INTERNAL_DESCRIPTORS / INTERNAL_CHAIN_MAX];
    const struct shape longest = planes(INTERNAL_CHAIN_MAX);
    open_all();
    check_planes(1, PEACH2_FETCH_REGISTERS);
    check_planes(2, PEACH2_FETCH_INTERNAL);
    check_planes(INTERNAL_CHAIN_MAX, PEACH2_FETCH_INTERNAL);
    check_planes(INTERNAL_CHAIN_MAX + 1, PEACH2_FETCH_HOST);
    check_planes(4096, PEACH2_FETCH_HOST);
    /* All 1,024 slots are taken: short chains also use host memory, until a slot is freed. */
    for (unsigned i = 0; i < sizeof(full) / sizeof(full[0]); i++) {
        full[i] = prepare(&longest, &longest);
        cr_assert(run(&full[i]).fetch == PEACH2_FETCH_INTERNAL);
    }
    check_planes(2, PEACH2_FETCH_HOST);
    check_planes(1, PEACH2_FETCH_REGISTERS);
    release(&full[0]);
    check_planes(INTERNAL_CHAIN_MAX, PEACH2_FETCH_INTERNAL);
    for (unsigned i = 1; i < sizeof(full) / sizeof(full[0]); i++)
        cr_assert(run(&full[i]).fetch == PEACH2_FETCH_INTERNAL);
    for (unsigned i = 1; i < sizeof(full) / sizeof(full[0]); i++)
        release(&full[i]);
    close_all();
}

/* What the hardware could not do is gathered and split here: other phases, lengths and strides that
 * are no multiples of 4, chains beyond any bound. None of it ever raises an error there. */
Test(peach2_chains, what_the_hardware_cannot_do_is_staged, .timeout = 120)
{
    static const struct {
        struct shape from, to;
    } cases[] = {
        {{4096, 1, 0, 1, 0, 0}, {4096, 1, 0, 1, 0, 4}},
        {{4096, 1, 0, 1, 0, 2}, {4096, 1, 0, 1, 0, 2}},
        {{4095, 1, 0, 1, 0, 0}, {4095, 1, 0, 1, 0, 0}},
        {{1, 1, 0, 1, 0, 0}, {1, 1, 0, 1, 0, 3}},
        {{3 * MEBIBYTE + 1, 1, 0, 1, 0, 1}, {3 * MEBIBYTE + 1, 1, 0, 1, 0, 7}},
        {{64, 100, 83, 1, 0, 0}, {64, 100, 83, 1, 0, 0}},
        {{64, 100, 100, 1, 0, 0}, {64, 100, 96, 1, 0, 0}},
        {{6, 1000, 24, 1, 0, 0}, {6, 1000, 40, 1, 0, 1}},
        {{8, 1000, 8000, 1, 0, 0}, {8, 1000, 8000, 1, 0, 8}},
        {{16, 2, 32, 4097, 80, 0}, {16, 2, 32, 4097, 80, 0}},
    };
    open_all();
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct transfer transfer = prepare(&cases[i].from, &cases[i].to);
        cr_assert(transfer.info.gathered, "case %u", i);
        cr_assert(run(&transfer).fetch == PEACH2_FETCH_HOST, "case %u", i);
        release(&transfer);
    }
    for (unsigned node = 0; node < 2; node++) {
        const struct peach2_registers *bar0 = peach2_of(sides[node].driver)->device.bar0;
        cr_assert(atomic_load(&bar0->discarded) == 0);
        for (unsigned i = 0; i < PEACH2_CHANNELS; i++)
            cr_assert(atomic_load(&bar0->channels[i].error) == 0);
    }
    close_all();
}

/* A restarted board has lost its internal memory: chains there must run as before. */
Test(peach2_chains, internal_memory_of_a_board_that_comes_back, .timeout = 120)
{
    const struct shape shape = planes(20);
    open_all();
    struct transfer transfer = prepare(&shape, &shape);
    for (unsigned round = 0; round < 3; round++) {
        const struct told told = run(&transfer);
        cr_assert(told.fetch == PEACH2_FETCH_INTERNAL && told.descriptors == 20);
        rig_kill_board(&rig, 0);
        while (peach2_of(sides[0].driver)->device.bar0)
            pump_rounds(&sides[0], &sides[1], 1);
        rig_start(&rig, 0);
        while (!peach2_of(sides[0].driver)->device.bar0)
            pump_rounds(&sides[0], &sides[1], 1);
    }
    release(&transfer);
    close_all();
}

/* Which node it is for is checked, not only its number, which comes back. */
Test(peach2_chains, no_landing_notifies_for_another_node, .timeout = 120)
{
    static const struct shape shape = {64, 2, 4096, 1, 0, 0};
    open_all();
    for (unsigned for_node = 0; for_node < 2; for_node++) {
        struct transfer transfer = prepare_for(&sides[for_node], &shape, &shape);
        struct op op;
        op_init(&op);
        sides[1].notified_count = 0;
        cr_assert(post(&sides[0], &sides[1], transfer.put, &op) == 0);
        cr_assert(pump_until(&sides[0], &sides[1], &op.done, 1));
        pump_rounds(&sides[0], &sides[1], 1000);
        cr_expect_eq(sides[1].notified_count, for_node == 0);
        release(&transfer);
    }
    close_all();
}

/* A landing blob from a receiver is untrusted. */
Test(peach2_chains, no_landing_leads_to_another_node, .timeout = 120)
{
    static const struct shape shape = {64, 2, 4096, 1, 0, 0};
    open_all();
    struct transfer transfer = prepare(&shape, &shape);
    struct driver *driver = sides[0].driver;
    struct driver_put_args args = {.peer = peer,
                                   .region = sides[0].region,
                                   .layout = transfer.source,
                                   .landing_bytes = sizeof(struct blob),
                                   .target_layout = transfer.target};
    struct driver_put *put;
    struct driver_put_info info;
    struct blob blob = {.magic = BLOB_MAGIC,
                        .cookie = peach2_of(sides[1].driver)->cookie,
                        .size_bytes = shape_bytes(&shape)};
    const uint64_t end = PEACH2_OFFSET_MASK + 1 - (4096 + 64);
    static const uint64_t others[] = {UINT64_C(1) << 40, UINT64_C(2) << 40, UINT64_C(1) << 63};
    args.landing = &blob;
    blob.bus = end;
    cr_assert(driver->ops->put_prepare(driver, &args, &put, &info) == 0);
    driver->ops->put_release(driver, put);
    blob.bus = end + 1;
    cr_assert(driver->ops->put_prepare(driver, &args, &put, &info) == -EINVAL);
    blob.bus = -UINT64_C(64);
    cr_assert(driver->ops->put_prepare(driver, &args, &put, &info) == -EINVAL);
    for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        blob.bus = others[i];
        cr_assert(driver->ops->put_prepare(driver, &args, &put, &info) == -EINVAL);
    }
    blob.bus = 0;
    blob.cookie ^= 1; /* of the instance that was there before */
    cr_assert(driver->ops->put_prepare(driver, &args, &put, &info) == -ESTALE);
    release(&transfer);
    close_all();
}
