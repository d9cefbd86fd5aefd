/* The rules of registers.h about packets: routing, the hop limit, late and missing packets, and
 * forged acknowledgements. */
#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

#include "proto/wait.h"
#include "tests/unit/drivers/peach2/rig.h"

enum { MEMORY = 1 << 20, TARGETS = MEMORY / 2 };

static struct rig rig;

static const struct peach2_descriptor good = {
    .source = RIG_BUS, .length = 64, .flags = PEACH2_END | PEACH2_ACKNOWLEDGE};

static void start(unsigned from, unsigned channel, struct peach2_descriptor descriptor)
{
    struct rig_board *board = &rig.boards[from];
    const uint32_t slot = board->starts[channel] % PEACH2_REGISTER_DESCRIPTORS;
    board->bar0->channels[channel].descriptors[slot] = descriptor;
    rig_command(board, channel, PEACH2_FETCH_REGISTERS, slot);
}

static struct peach2_descriptor to(unsigned node, uint64_t bus)
{
    struct peach2_descriptor descriptor = good;
    descriptor.destination = peach2_global(node, bus);
    return descriptor;
}

static void wait_for(const _Atomic uint32_t *word, uint32_t bits, const char *what)
{
    const uint64_t give_up_ns = clock_now_ns() + UINT64_C(20000000000);
    while ((atomic_load(word) & bits) != bits) {
        cr_assert(clock_now_ns() < give_up_ns, "%s: %x", what, atomic_load(word));
        usleep(20);
    }
}

static uint64_t discarded(unsigned node)
{
    return atomic_load(&rig.boards[node].bar0->discarded);
}

/* ---- routes ---- */

/* 64 bytes from 0 into the memory of 1: whether a route leads there. */
static bool leads(uint64_t offset)
{
    struct rig_board *board = &rig.boards[0], *far = &rig.boards[1];
    memset(far->memory + offset, 0, 64);
    memset(board->memory, 7, 64);
    start(0, 0, to(1, RIG_BUS + offset));
    if (!rig_done(board, 0)) {
        cr_assert_eq(rig_error(board, 0), PEACH2_BAD_DESTINATION);
        rig_abort(board, 0);
        cr_assert_eq(far->memory[offset], 0);
        return false;
    }
    cr_assert(far->memory[offset] == 7 && far->memory[offset + 63] == 7);
    return true;
}

/* The first matching entry counts, as of the last commit. */
Test(peach2_packets, routing_registers, .timeout = 60)
{
    enum { PART = 1 << 16, AT = TARGETS };
    rig_open(&rig, 3, 1, MEMORY);
    struct rig_board *board = &rig.boards[0];
    struct peach2_route *routes = board->bar0->routes;
    const struct peach2_route nowhere = {.base = peach2_global(1, RIG_BUS + AT),
                                         .mask = ~(uint64_t)(PART - 1),
                                         .port = PEACH2_DISCARD};
    const struct peach2_route whole = {.base = peach2_global(1, 0),
                                       .mask = PEACH2_WINDOW_MASK,
                                       .port = PEACH2_E,
                                       .turns = 1 << PEACH2_N};
    cr_assert(leads(AT));
    memset(routes, 0, sizeof(board->bar0->routes));
    routes[0] = (struct peach2_route){
        .base = peach2_global(0, 0), .mask = PEACH2_WINDOW_MASK, .port = PEACH2_N};
    routes[5] = nowhere;
    routes[PEACH2_ROUTES - 1] = whole;
    cr_assert(leads(AT), "nothing was committed");
    rig_commit(board);
    cr_assert(!leads(AT) && !leads(AT + PART - 64));
    cr_assert(leads(AT + PART) && leads(AT - 64));
    routes[5] = whole; /* now it is the first */
    routes[PEACH2_ROUTES - 1] = nowhere;
    rig_commit(board);
    cr_assert(leads(AT));
    routes[5].mask = 0; /* no entry */
    rig_commit(board);
    cr_assert(!leads(AT + PART));
    routes[5] = (struct peach2_route){.base = PEACH2_GLOBAL, /* of all nodes */
                                      .mask = ~(PEACH2_NODE_MASK | PEACH2_OFFSET_MASK),
                                      .port = PEACH2_E};
    rig_commit(board);
    cr_assert(leads(AT) && leads(AT + PART));
    routes[5].port = PEACH2_PORTS + PEACH2_E; /* no such port */
    rig_commit(board);
    cr_assert(!leads(AT));
    rig_close(&rig);
}

/* A gap that leads from one node's window into the next one's. */
Test(peach2_packets, out_of_the_window, .timeout = 60)
{
    rig_open(&rig, 3, 1, MEMORY);
    struct peach2_descriptor astray = to(1, PEACH2_OFFSET_MASK - 63);
    astray.length = 128;
    astray.block = 64;
    astray.destination_gap = RIG_BUS;
    memset(rig.boards[0].memory, 7, 128);
    start(0, 0, astray);
    cr_assert_eq(rig_error(&rig.boards[0], 0), PEACH2_BAD_DESTINATION);
    rig_abort(&rig.boards[0], 0);
    start(0, 0, to(2, RIG_BUS + 4096)); /* behind whatever came there */
    cr_assert(rig_done(&rig.boards[0], 0));
    cr_assert_eq(rig.boards[2].memory[0], 0);
    rig_close(&rig);
}

/* A loop: as many hops as the limit allows. */
Test(peach2_packets, as_many_links_as_allowed, .timeout = 60)
{
    enum { NODES = 4 };
    rig_open(&rig, NODES, 1, MEMORY);
    for (unsigned node = 0; node < NODES; node++) {
        rig.boards[node].bar0->routes[2].port = PEACH2_E; /* nobody is node 2 */
        rig_commit(&rig.boards[node]);
    }
    struct peach2_descriptor astray = to(2, RIG_BUS);
    astray.flags = PEACH2_END;
    start(0, 0, astray);
    wait_for(&rig.boards[0].bar0->cause, PEACH2_CAUSE_HOPS, "it is where it began");
    uint64_t links = 0;
    for (unsigned node = 0; node < NODES; node++) {
        struct peach2_port_registers *port = &rig.boards[node].bar0->ports[PEACH2_E];
        const uint64_t give_up_ns = clock_now_ns() + UINT64_C(20000000000);
        while (atomic_load(&port->packets_out) == 0)
            cr_assert(clock_now_ns() < give_up_ns);
        usleep(1000);
        links += atomic_load(&port->packets_out);
        cr_assert_eq(discarded(node), node == 0);
    }
    cr_assert_eq(links, PEACH2_HOPS_MAX);
    rig_close(&rig);
}

/* ---- late and early packets, and other epochs ---- */

static void wait_sent(uint32_t sent)
{
    const uint64_t give_up_ns = clock_now_ns() + UINT64_C(20000000000);
    while (atomic_load(&rig.boards[0].bar0->channels[0].sent) != sent)
        cr_assert(clock_now_ns() < give_up_ns, "not sent");
    usleep(2000); /* and what comes back would be there */
}

static bool lands_at_2(uint8_t value)
{
    const uint32_t sent = atomic_load(&rig.boards[0].bar0->channels[0].sent);
    memset(rig.boards[0].memory, value, 64);
    start(0, 0, to(2, RIG_BUS + TARGETS));
    wait_sent(sent + 1);
    /* Dropped packets are not acknowledged. A message, which is not numbered, follows them. */
    uint64_t notify[2], line[8] = {value};
    rig_pio(&rig.boards[0], peach2_global(2, PEACH2_INTERNAL | PEACH2_AT_MESSAGE), 0xffff,
            (const uint8_t *)line);
    cr_assert(rig_notified(&rig.boards[2], 0, notify) && notify[0] == value);
    return rig.boards[2].memory[TARGETS] == value;
}

/* After the loss of a packet, only messages of its node are accepted until the expected number is
 * reset. */
Test(peach2_packets, one_is_missing, .timeout = 60)
{
    rig_open(&rig, 5, 1, MEMORY);
    struct peach2_registers *far = rig.boards[2].bar0;
    struct peach2_route *route = &rig.boards[1].bar0->routes[2];
    cr_assert(lands_at_2(1));
    route->port = PEACH2_DISCARD;
    rig_commit(&rig.boards[1]);
    start(0, 0, to(2, RIG_BUS));
    wait_for(&rig.boards[1].bar0->cause, PEACH2_CAUSE_UNROUTED, "it is lost");
    wait_sent(2);
    cr_assert_eq(discarded(1), 1);
    route->port = PEACH2_E;
    rig_commit(&rig.boards[1]);
    cr_assert(!(atomic_load(&far->cause) & PEACH2_CAUSE_GAP) && atomic_load(&far->broken) == 0);
    for (unsigned i = 0; i < 3; i++)
        cr_assert(!lands_at_2((uint8_t)(2 + i)));
    cr_assert(atomic_load(&far->cause) & PEACH2_CAUSE_GAP);
    cr_assert(atomic_load(&far->broken) == 1 && atomic_load(&far->stale) == 3);
    cr_assert_eq(discarded(2), 0);
    rig_abort(&rig.boards[0], 0);
    rig_restart(&rig, 0, 2);
    cr_assert(lands_at_2(5) && atomic_load(&far->broken) == 0 && atomic_load(&far->stale) == 3);
    rig_close(&rig);
}

/* Of an epoch before the one that is accepted: neither data nor messages. And what an entry of the
 * ring says of its packet. */
Test(peach2_packets, of_another_epoch, .timeout = 60)
{
    rig_open(&rig, 5, 1, MEMORY);
    struct rig_board *far = &rig.boards[2];
    const struct peach2_notification *entry = (const void *)(far->memory + MEMORY);
    uint64_t line[8] = {9}, notify[2];
    atomic_store(&far->bar0->accept_epoch[0], 5);
    atomic_store(&rig.boards[0].bar0->epoch, 4);
    start(0, 0, to(2, RIG_BUS + TARGETS));
    while (atomic_load(&rig.boards[0].bar0->channels[0].sent) != 1)
        usleep(20);
    rig_pio(&rig.boards[0], peach2_global(2, PEACH2_INTERNAL | PEACH2_AT_MESSAGE), 0xffff,
            (const uint8_t *)line);
    const uint64_t give_up_ns = clock_now_ns() + UINT64_C(20000000000);
    while (atomic_load(&far->bar0->stale) != 2)
        cr_assert(clock_now_ns() < give_up_ns);
    cr_assert(atomic_load(&entry->serial) == 0 && discarded(2) == 0);
    atomic_store(&rig.boards[0].bar0->epoch, 5);
    rig_abort(&rig.boards[0], 0);
    rig_restart(&rig, 0, 2);
    cr_assert(entry[0].epoch == 5 && entry[0].node == 0 && entry[0].port == PEACH2_W &&
              entry[0].restart == 1);
    cr_assert(lands_at_2(6));
    cr_assert(entry[1].epoch == 5 && entry[1].restart == 0);
    line[0] = 3;
    rig_pio(far, peach2_global(2, PEACH2_INTERNAL | PEACH2_AT_NOTIFY), 0xffff,
            (const uint8_t *)line);
    cr_assert(rig_notified(far, 2, notify) && notify[0] == 3);
    cr_assert_eq((entry + 2 * RIG_RING)->port, PEACH2_N);
    rig_close(&rig);
}

/* ---- acknowledgements ---- */

/* Nothing gets from 1 to 2 until it is let go. */
static void hold_back(void)
{
    rig_open(&rig, 5, 1, MEMORY);
    atomic_store(&rig.boards[1].bar0->hold_ms, PEACH2_HOLD_MAX_MS);
    rig_plug(&rig, 1, PEACH2_E, false);
}

static void let_go(void)
{
    rig_plug(&rig, 1, PEACH2_E, true);
    cr_assert(rig_done(&rig.boards[0], 0));
    for (unsigned node = 0; node < rig.topology.nodes; node++)
        cr_assert_eq(discarded(node), 0);
}

/* `done` is when it has landed, where that was asked for, by whichever descriptor of the chain;
 * `sent` is when it has left. */
Test(peach2_packets, done_is_landed, .timeout = 60)
{
    hold_back();
    struct rig_board *board = &rig.boards[0];
    const struct peach2_channel *channel = &board->bar0->channels[0];
    struct peach2_descriptor far = to(2, RIG_BUS), near = to(1, RIG_BUS);
    near.flags = PEACH2_END;
    start(0, 0, near);
    cr_assert(rig_done(board, 0));
    far.flags = PEACH2_ACKNOWLEDGE;
    far.next = 1;
    board->bar0->descriptors[0] = far;
    board->bar0->descriptors[1] = near;
    rig_command(board, 0, PEACH2_FETCH_INTERNAL, 0);
    wait_sent(2);
    start(0, 0, near); /* may begin, and not end before it */
    wait_sent(3);
    cr_assert_eq(atomic_load(&channel->done), 1);
    let_go();
    /* Nothing at all, and a packet of nothing whose landing is waited for. */
    const uint64_t packets = atomic_load(&channel->packets);
    near.length = 0;
    start(0, 0, near);
    cr_assert(rig_done(board, 0) && atomic_load(&channel->packets) == packets);
    near.flags = PEACH2_END | PEACH2_ACKNOWLEDGE;
    start(0, 0, near);
    cr_assert(rig_done(board, 0) && atomic_load(&channel->packets) == packets + 1);
    rig_close(&rig);
}

static uint64_t tag_of(uint32_t boot, uint32_t channel, uint32_t command)
{
    return (uint64_t)boot << 32 | (uint64_t)channel << 16 | (command & 0xffff);
}

static void forge(uint64_t tag)
{
    uint64_t line[8] = {tag};
    rig_pio(&rig.boards[1], peach2_global(0, PEACH2_INTERNAL | PEACH2_AT_ACKNOWLEDGE), 0xff,
            (const uint8_t *)line);
}

/* Forged acknowledgements: commands that wait for a genuine one keep waiting, others are not
 * delayed. */
Test(peach2_packets, acknowledgements_of_nobody, .timeout = 60)
{
    hold_back();
    const struct peach2_registers *bar0 = rig.boards[0].bar0;
    struct peach2_descriptor near = to(1, RIG_BUS);
    near.flags = PEACH2_END;
    start(0, 0, to(2, RIG_BUS));
    start(0, 0, near);
    wait_sent(2);
    forge(tag_of(bar0->boot + 1, 0, 0));           /* another life's */
    forge(tag_of(bar0->boot, PEACH2_CHANNELS, 0)); /* no such channel */
    forge(tag_of(bar0->boot, 0xffff, 0));
    forge(tag_of(bar0->boot, 0, PEACH2_COMMANDS)); /* in the place of the first, one round later */
    forge(tag_of(bar0->boot, 0, 0x8000));
    forge(tag_of(bar0->boot, 0, 1));                /* it waits for none */
    struct peach2_descriptor last = to(0, RIG_BUS); /* behind them all */
    uint64_t notify[2];
    last.flags = PEACH2_END | PEACH2_NOTIFY;
    start(1, 0, last);
    cr_assert(rig_notified(&rig.boards[0], 1, notify));
    cr_assert_eq(atomic_load(&bar0->channels[0].done), 0);
    let_go();
    rig_close(&rig);
}
