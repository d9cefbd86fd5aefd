/* Hostile register content: the board reports the fault, and it and its neighbours continue to
 * work. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/unit/drivers/kit.h"
#include "tests/unit/drivers/peach2/traffic.h"

enum { MEMORY = 1 << 20 };

static struct rig rig;

static const struct peach2_descriptor good = {
    .source = RIG_BUS,
    .destination = PEACH2_GLOBAL | UINT64_C(1) << PEACH2_NODE_SHIFT | (RIG_BUS + 4096),
    .length = 4096,
    .flags = PEACH2_END | PEACH2_NOTIFY | PEACH2_ACKNOWLEDGE,
    .notify = {1, 2}};

/* Node `from` can put to `to`, now. */
static void check_works(unsigned from, unsigned to)
{
    static uint64_t number = 1000;
    struct rig_board *board = &rig.boards[from];
    uint64_t notify[2];
    struct peach2_descriptor descriptor = good;
    descriptor.destination = peach2_global(to, RIG_BUS + 4096);
    descriptor.notify[0] = ++number;
    fill(board->memory, 4096, (uint32_t)number);
    board->bar0->descriptors[1023] = descriptor;
    rig_command(board, 3, PEACH2_FETCH_INTERNAL, 1023);
    do
        cr_assert(rig_notified(&rig.boards[to], from, notify), "%u to %u is broken", from, to);
    while (notify[0] != number);
    cr_assert(memcmp(rig.boards[to].memory + 4096, board->memory, 4096) == 0);
    cr_assert(rig_done(board, 3));
}

static void check_error(const struct peach2_descriptor *descriptor, uint32_t error)
{
    struct rig_board *board = &rig.boards[0];
    board->bar0->channels[0].descriptors[5] = *descriptor;
    rig_command(board, 0, PEACH2_FETCH_REGISTERS, 5);
    cr_assert(rig_error(board, 0) == error, "%u, not %u", board->bar0->channels[0].error, error);
    cr_assert(atomic_load(&board->bar0->cause) & PEACH2_CAUSE_ERROR);
    cr_assert(atomic_load(&board->bar0->channels[0].error_at) == 5);
    rig_abort(board, 0);
    cr_assert(atomic_load(&board->bar0->channels[0].error) == 0);
}

Test(peach2_hostile, every_error_of_a_descriptor, .timeout = 60)
{
    rig_open(&rig, 2, 1, MEMORY);
#define WRONG(what, error)                                                                         \
    do {                                                                                           \
        struct peach2_descriptor d = good;                                                         \
        what;                                                                                      \
        check_error(&d, error);                                                                    \
    } while (0)
    WRONG(d.flags |= 1 << 7, PEACH2_BAD_FLAGS);
    WRONG(d.source += 2, PEACH2_BAD_ALIGNMENT);
    WRONG(d.source += 4, PEACH2_BAD_ALIGNMENT); /* the phases differ */
    WRONG(d.destination += 8, PEACH2_BAD_ALIGNMENT);
    WRONG(d.length += 2, PEACH2_BAD_ALIGNMENT);
    WRONG((d.block = 64, d.source_gap = 3), PEACH2_BAD_ALIGNMENT);
    WRONG((d.block = 64, d.source_gap = 4), PEACH2_BAD_ALIGNMENT);
    WRONG(d.block = 2, PEACH2_BAD_ALIGNMENT);
    WRONG(d.block = 48, PEACH2_BAD_LENGTH);
    WRONG(d.block = 8192, PEACH2_BAD_LENGTH);
    WRONG(d.length = PEACH2_LENGTH_MAX + 4, PEACH2_BAD_LENGTH);
    WRONG(d.length = UINT32_MAX & ~3u, PEACH2_BAD_LENGTH);
    WRONG(d.source = 0, PEACH2_BAD_SOURCE);
    WRONG(d.source = UINT64_MAX - 15, PEACH2_BAD_SOURCE);
    WRONG(d.source = PEACH2_INTERNAL | 1 << 30, PEACH2_BAD_SOURCE);
    WRONG(d.source = peach2_global(1, RIG_BUS), PEACH2_BAD_SOURCE); /* put only */
    WRONG(d.source = RIG_BUS + MEMORY + PEACH2_NODES * RIG_RING * 32 - 2048, PEACH2_BAD_SOURCE);
    WRONG((d.block = 64, d.source_gap = 1 << 20), PEACH2_BAD_SOURCE);
    WRONG((d.block = 64, d.source_gap = INT32_MIN), PEACH2_BAD_SOURCE);
    WRONG(d.destination = RIG_BUS, PEACH2_BAD_DESTINATION);
    WRONG(d.destination = peach2_global(7, RIG_BUS), PEACH2_BAD_DESTINATION);
    check_works(0, 1);
    check_works(1, 0);
    rig_close(&rig);
}

Test(peach2_hostile, commands_that_make_no_sense, .timeout = 60)
{
    static const struct {
        uint32_t fetch;
        uint64_t first;
    } wrong[] = {{0, 0},
                 {4, 0},
                 {UINT32_MAX, 0},
                 {PEACH2_FETCH_INTERNAL, 1024},
                 {PEACH2_FETCH_REGISTERS, 16},
                 {PEACH2_FETCH_HOST, 0},
                 {PEACH2_FETCH_HOST, RIG_BUS + 8},
                 {PEACH2_FETCH_HOST, UINT64_MAX - 63},
                 {PEACH2_FETCH_HOST, PEACH2_INTERNAL}};
    rig_open(&rig, 2, 1, MEMORY);
    struct rig_board *board = &rig.boards[0];
    for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        rig_command(board, 2, wrong[i].fetch, wrong[i].first);
        cr_assert(rig_error(board, 2) == PEACH2_BAD_FETCH);
        check_works(0, 1); /* another channel is not affected */
        rig_abort(board, 2);
    }
    atomic_fetch_add(&board->bar0->channels[2].start, 1000);
    rig_ring(board);
    cr_assert(rig_error(board, 2) == PEACH2_BAD_START);
    rig_abort(board, 2);
    atomic_fetch_add(&board->bar2->tail, 100000);
    rig_ring(board);
    check_works(0, 1);
    rig_close(&rig);
}

/* A chain with a loop, with and without data. */
Test(peach2_hostile, loops, .timeout = 60)
{
    rig_open(&rig, 3, 1, MEMORY);
    struct rig_board *board = &rig.boards[0];
    for (unsigned i = 0; i < 2; i++) {
        board->bar0->descriptors[i] = good;
        board->bar0->descriptors[i].flags = 0;
        board->bar0->descriptors[i].length = 0;
        board->bar0->descriptors[i].next = 1 - i;
    }
    rig_command(board, 0, PEACH2_FETCH_INTERNAL, 0);
    cr_assert(rig_error(board, 0) == PEACH2_BAD_CHAIN);
    rig_abort(board, 0);
    board->bar0->descriptors[1].length = MEMORY / 2; /* half a GiB until the loop is detected */
    rig_command(board, 0, PEACH2_FETCH_INTERNAL, 0);
    for (unsigned i = 0; i < 20; i++) {
        check_works(0, 1);
        check_works(1, 2);
        check_works(2, 0);
    }
    rig_abort(board, 0);
    check_works(0, 1);
    rig_close(&rig);
}

/* Routes with a loop, to nowhere, or to the wrong host. */
Test(peach2_hostile, routes_astray, .timeout = 60)
{
    struct peach2_links links;
    rig_open(&rig, 4, 1, MEMORY);
    for (unsigned node = 0; node < 4; node++) {
        rig.boards[node].bar0->routes[1].port = PEACH2_E; /* there is no node 1 */
        rig_commit(&rig.boards[node]);
    }
    struct rig_board *board = &rig.boards[0];
    board->bar0->descriptors[0] = good;
    rig_command(board, 0, PEACH2_FETCH_INTERNAL, 0);
    uint64_t lost = 0;
    while (lost < 4096 / PEACH2_PAYLOAD_MAX + 1) {
        lost = 0;
        for (unsigned node = 0; node < 4; node++)
            lost += atomic_load(&rig.boards[node].bar0->discarded);
    }
    check_works(0, 2);
    rig_abort(board, 0);
    rig.boards[0].bar0->routes[1].port = PEACH2_N;
    rig_commit(&rig.boards[0]);
    rig_command(board, 0, PEACH2_FETCH_INTERNAL, 0);
    while (!(atomic_load(&rig.boards[0].bar0->cause) & PEACH2_CAUSE_UNROUTED))
        usleep(100);
    rig_abort(board, 0);
    peach2_links_all(&rig.topology, &links);
    rig_route(&rig, &links);
    rig_restart(&rig, 0, 1);
    check_works(0, 1);
    rig_close(&rig);
}

Test(peach2_hostile, memory_that_is_not_mapped, .timeout = 60)
{
    rig_open(&rig, 2, 1, MEMORY);
    struct rig_board *board = &rig.boards[0], *far = &rig.boards[1];
    struct peach2_descriptor astray = good;
    static const uint64_t targets[] = {0,
                                       16,
                                       PEACH2_INTERNAL,
                                       PEACH2_INTERNAL | PEACH2_AT_DESCRIPTORS | 4096,
                                       PEACH2_INTERNAL | PEACH2_AT_NOTIFY | 16,
                                       PEACH2_OFFSET_MASK - 15};
    for (unsigned i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
        astray.destination = peach2_global(1, targets[i]);
        astray.length = 16;
        atomic_fetch_and(&far->bar0->cause, ~(uint32_t)PEACH2_CAUSE_UNMAPPED);
        board->bar0->descriptors[0] = astray;
        rig_command(board, 0, PEACH2_FETCH_INTERNAL, 0);
        cr_assert(rig_done(board, 0));
        cr_assert(atomic_load(&far->bar0->cause) & PEACH2_CAUSE_UNMAPPED, "%lx", targets[i]);
    }
    const struct peach2_control unmap = {.type = PEACH2_UNMAP, .address = RIG_BUS};
    cr_assert(rig_ask(board, &unmap, -1) == 0);
    cr_assert(rig_ask(board, &unmap, -1) == -ENOENT);
    check_error(&good, PEACH2_BAD_SOURCE);
    const struct peach2_control stray = {
        .type = PEACH2_ALIAS, .address = 1 << 30, .length = 16, .offset = RIG_BUS};
    cr_assert(rig_ask(board, &stray, -1) == -ENOENT);
    const struct peach2_control map = {.type = PEACH2_MAP, .address = RIG_BUS, .length = MEMORY};
    cr_assert(rig_ask(board, &map, board->memory_fd) == 0);
    /* An alias is removed with its mapping. */
    cr_assert(rig_ask(board, &stray, -1) == 0);
    cr_assert(rig_ask(board, &stray, -1) == -EEXIST);
    cr_assert(rig_ask(board, &unmap, -1) == 0);
    struct peach2_descriptor alias = good;
    alias.source = 1 << 30;
    alias.length = 16;
    check_error(&alias, PEACH2_BAD_SOURCE);
    cr_assert(rig_ask(board, &map, board->memory_fd) == 0);
    cr_assert(rig_ask(board, &stray, -1) == 0);
    check_works(0, 1);
    rig_close(&rig);
}

/* An unread ring: further notifications are an error and do not block other packets. */
Test(peach2_hostile, a_full_notification_ring, .timeout = 60)
{
    rig_open(&rig, 3, 1, MEMORY);
    struct rig_board *board = &rig.boards[0];
    board->bar0->descriptors[0] = good;
    for (unsigned i = 0; i < RIG_RING + 64; i++)
        rig_command(board, i % 4, PEACH2_FETCH_INTERNAL, 0);
    while (!(atomic_load(&rig.boards[1].bar0->cause) & PEACH2_CAUSE_OVERRUN))
        usleep(100);
    check_works(2, 1);
    check_works(2, 0);
    for (unsigned i = 0; i < 4; i++)
        rig_abort(board, i); /* a lost notification is not acknowledged */
    uint64_t notify[2];
    for (unsigned i = 0; i < RIG_RING; i++)
        cr_assert(rig_notified(&rig.boards[1], 0, notify));
    rig_restart(&rig, 0, 1);
    check_works(0, 1);
    rig_close(&rig);
}

/* Random content in BAR 0 and BAR 2 of one board. */
Test(peach2_hostile, random_registers, .timeout = 120)
{
    uint32_t state = 4711;
    rig_open(&rig, 3, 1, MEMORY);
    struct rig_board *board = &rig.boards[0];
    for (unsigned round = 0; round < 40; round++) {
        const size_t bytes = sizeof(*board->bar0) - sizeof(board->bar0->memory);
        for (unsigned i = 0; i < 200; i++) {
            uint32_t *words = (uint32_t *)(i % 4 ? (void *)board->bar0 : (void *)board->bar2);
            size_t count = i % 4 ? bytes / 4 : sizeof(*board->bar2) / 4;
            size_t at = i % 5 ? next_random(&state) % count : next_random(&state) % (4096 / 4);
            words[at] =
                i % 3 ? next_random(&state) : next_random(&state) >> (next_random(&state) % 32);
        }
        rig_ring(board);
        board->bar0->mask = UINT32_MAX;
        usleep(2000);
        check_works(1, 2);
        check_works(2, 1);
    }
    /* After another driver has attached and written all registers, the board works again. */
    rig_detach(board);
    rig_attach(&rig, 0);
    struct peach2_links links;
    peach2_links_all(&rig.topology, &links);
    memset(rig.boards[0].bar0->routes, 0, sizeof(rig.boards[0].bar0->routes));
    atomic_store(&rig.boards[0].bar0->epoch, 0);
    for (unsigned node = 0; node < PEACH2_NODES; node++)
        atomic_store(&rig.boards[0].bar0->accept_epoch[node], 0);
    for (unsigned channel = 0; channel < PEACH2_CHANNELS; channel++)
        rig_abort(&rig.boards[0], channel);
    rig_route(&rig, &links);
    rig.boards[1].notified[0] = rig.boards[2].notified[0] = 0;
    check_works(1, 0);
    rig_close(&rig);
}

/* The same while the board forwards others' packets, which all arrive in order. The routes stay
 * intact, because a driver may set them as it likes. */
Test(peach2_hostile, random_registers_under_way, .timeout = 120)
{
    static struct traffic traffic;
    uint32_t state = 815;
    traffic = (struct traffic){.rig = &rig, .absent[1] = true};
    rig_open(&rig, 4, 1, TRAFFIC_MEMORY);
    struct rig_board *board = &rig.boards[1];
    uint32_t *const words = (uint32_t *)board->bar0;
    const size_t count = sizeof(*board->bar0) / 4,
                 routes = offsetof(struct peach2_registers, routes) / 4,
                 behind = offsetof(struct peach2_registers, ports) / 4;
    for (uint32_t round = 1; round <= 60; round++) {
        for (unsigned i = 0; i < 400; i++) {
            size_t at = i % 2 ? next_random(&state) % count : next_random(&state) % 1024;
            if (at < routes || at >= behind)
                words[at] = next_random(&state) >> (next_random(&state) % 32);
            ((uint32_t *)board->bar2)[next_random(&state) % (sizeof(*board->bar2) / 4)] =
                next_random(&state);
            if (i % 20 == 0)
                traffic_round(&traffic, 10 * round);
        }
        rig_ring(board);
        traffic_run(&traffic, 10 * round);
    }
    cr_assert(atomic_load(&rig.boards[0].bar0->ports[PEACH2_E].packets_out) > 2000,
              "0 has not sent through 1");
    for (unsigned node = 0; node < 4; node++)
        cr_assert(node == 1 || atomic_load(&rig.boards[node].bar0->stale) == 0);
    rig_close(&rig);
}

/* A driver asks for an unlimited wait for an unplugged cable: the packets of others that are
 * blocked by it get through all the same. */
Test(peach2_hostile, waits_for_a_cable_for_ever, .timeout = 60)
{
    rig_open(&rig, 5, 1, MEMORY);
    struct rig_board *board = &rig.boards[0];
    atomic_store(&rig.boards[1].bar0->hold_ms, UINT32_MAX);
    rig_plug(&rig, 1, PEACH2_E, false); /* no route is changed */
    for (unsigned i = 0; i < 8; i++) {  /* to 2 by 1: more than the cable between 0 and 1 holds */
        board->bar0->descriptors[i] = good;
        board->bar0->descriptors[i].destination = peach2_global(2, RIG_BUS + 4096);
        board->bar0->descriptors[i].length = 65536;
        rig_command(board, 0, PEACH2_FETCH_INTERNAL, i);
    }
    while (atomic_load(&board->bar0->channels[0].packets) < 64)
        usleep(1000); /* or later packets could overtake them */
    check_works(0, 1);
    cr_assert(atomic_load(&rig.boards[1].bar0->cause) & PEACH2_CAUSE_HELD);
    rig_plug(&rig, 1, PEACH2_E, true);
    rig_wait_cables(&rig, PEACH2_NO_NODE);
    rig_abort(board, 0);
    rig_restart(&rig, 0, 2);
    check_works(0, 2);
    rig_close(&rig);
}

Test(peach2_hostile, the_control_socket, .timeout = 60)
{
    rig_open(&rig, 2, 1, MEMORY);
    struct rig_board *board = &rig.boards[0];
    struct peach2_control map = {.type = PEACH2_MAP, .address = 1 << 30, .length = 4096};
    int loose = memfd_create("loose", MFD_ALLOW_SEALING | MFD_CLOEXEC);
    cr_assert(ftruncate(loose, 4096) == 0);
    cr_assert(rig_ask(board, &map, loose) == -EPERM); /* could be shortened */
    cr_assert(fcntl(loose, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    map.length = 8192;
    cr_assert(rig_ask(board, &map, loose) == -EINVAL); /* longer than it is */
    map.length = 4096;
    map.address = PEACH2_INTERNAL - 2048;
    cr_assert(rig_ask(board, &map, loose) == -EINVAL);
    map.address = RIG_BUS + 4096;
    cr_assert(rig_ask(board, &map, loose) == -EEXIST);
    map.address = 1 << 30;
    map.offset = UINT64_MAX - 4095;
    cr_assert(rig_ask(board, &map, loose) == -EINVAL);
    cr_assert(rig_ask(board, &map, -1) == -EINVAL);
    close(loose);

    struct sockaddr_un name = {.sun_family = AF_UNIX};
    strcpy(name.sun_path, board->path);
    for (unsigned i = 0; i < 100; i++) {
        uint8_t garbage[100];
        fill(garbage, sizeof(garbage), i);
        if (i % 2)
            memset(garbage, (int)(i % 8), 4), memset(garbage + 1, 0, 3);
        if (i % 8 == PEACH2_PLUG || i % 8 == PEACH2_UNPLUG)
            continue; /* these would be obeyed */
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        cr_assert(connect(fd, (struct sockaddr *)&name, sizeof(name)) == 0);
        cr_assert(send(fd, garbage, i % 3 ? sizeof(struct peach2_control) : i, MSG_NOSIGNAL) >= 0);
        usleep(200);
        close(fd);
    }
    check_works(0, 1);
    check_works(1, 0);
    rig_close(&rig);
}
