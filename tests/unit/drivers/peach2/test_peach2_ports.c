/* Ports under load: order, back-pressure, cables that are unplugged and plugged in. */
#include <criterion/criterion.h>
#include <unistd.h>

#include "tests/unit/drivers/peach2/traffic.h"

static struct rig rig;
static struct traffic traffic;

static uint64_t total(uint64_t (*of)(const struct rig_board *board))
{
    uint64_t sum = 0;
    for (unsigned node = 0; node < rig.topology.nodes; node++)
        sum += of(&rig.boards[node]);
    return sum;
}

static uint64_t discarded(const struct rig_board *board)
{
    return atomic_load(&board->bar0->discarded);
}

static uint64_t stalls(const struct rig_board *board)
{
    uint64_t sum = 0;
    for (unsigned port = PEACH2_E; port < PEACH2_PORTS; port++)
        sum += atomic_load(&board->bar0->ports[port].stalls);
    return sum;
}

/* Every acknowledgement has arrived, too. */
static void check_all_done(void)
{
    for (unsigned node = 0; node < rig.topology.nodes; node++)
        for (unsigned channel = 0; channel < PEACH2_CHANNELS; channel++)
            cr_assert(rig_done(&rig.boards[node], channel));
}

static void check_all_to_all(unsigned nodes, unsigned rings, uint32_t goal)
{
    traffic = (struct traffic){.rig = &rig};
    rig_open(&rig, nodes, rings, TRAFFIC_MEMORY);
    traffic_run(&traffic, goal);
    cr_assert(total(discarded) == 0);
    check_all_done();
    rig_close(&rig);
}

Test(peach2_ports, order_in_a_ring_of_five, .timeout = 120)
{
    check_all_to_all(5, 1, 400);
}

Test(peach2_ports, order_in_two_by_eight, .timeout = 240)
{
    check_all_to_all(16, 2, 60);
}

/* Seven boards put into the eighth as fast as they can: the ring fills up, and nothing is lost. */
Test(peach2_ports, full_ports_hold_back, .timeout = 120)
{
    enum { NODES = 8, STARTS = 60, MEMORY = 1 << 20 };
    rig_open(&rig, NODES, 1, MEMORY);
    for (unsigned node = 1; node < NODES; node++) {
        struct rig_board *board = &rig.boards[node];
        for (unsigned i = 0; i < MEMORY / 4; i++)
            ((uint32_t *)board->memory)[i] = node << 24 | i;
        board->bar0->descriptors[0] = (struct peach2_descriptor){
            .source = RIG_BUS,
            .destination = peach2_global(0, RIG_BUS + (node - 1) * (MEMORY / 8)),
            .length = MEMORY / 8,
            .flags = PEACH2_END | PEACH2_NOTIFY | PEACH2_ACKNOWLEDGE,
            .notify = {node},
        };
        for (unsigned i = 0; i < STARTS; i++)
            rig_command(board, i % PEACH2_CHANNELS, PEACH2_FETCH_INTERNAL, 0);
    }
    for (unsigned node = 1; node < NODES; node++) {
        uint64_t notify[2];
        for (unsigned i = 0; i < STARTS; i++)
            cr_assert(rig_notified(&rig.boards[0], node, notify) && notify[0] == node);
        for (unsigned channel = 0; channel < PEACH2_CHANNELS; channel++)
            cr_assert(rig_done(&rig.boards[node], channel));
        const uint32_t *words =
            (const uint32_t *)(rig.boards[0].memory + (node - 1) * (MEMORY / 8));
        for (unsigned i = 0; i < MEMORY / 32; i++)
            cr_assert(words[i] == (node << 24 | i));
    }
    cr_assert(total(discarded) == 0);
    cr_assert(total(stalls) > 0, "nothing was ever full");
    rig_close(&rig);
}

/* Unplugged and plugged in under load, without changes of routes: all packets wait, none is lost or
 * duplicated. */
Test(peach2_ports, a_cable_pulled_and_put_back, .timeout = 120)
{
    traffic = (struct traffic){.rig = &rig};
    rig_open(&rig, 4, 1, TRAFFIC_MEMORY);
    for (unsigned node = 0; node < 4; node++)
        atomic_store(&rig.boards[node].bar0->hold_ms, PEACH2_HOLD_MAX_MS);
    for (uint32_t round = 1; round <= 12; round++) {
        unsigned node = round % 4, port = round % 3 ? PEACH2_E : PEACH2_W;
        for (unsigned i = 0; i < 3; i++)
            traffic_round(&traffic, 60 * round);
        rig_plug(&rig, node, port, false);
        for (unsigned i = 0; i < 20; i++)
            traffic_round(&traffic, 60 * round);
        cr_assert(atomic_load(&rig.boards[node].bar0->ports[port].up) == 0);
        rig_plug(&rig, node, port, true);
        traffic_run(&traffic, 60 * round);
    }
    cr_assert(total(discarded) == 0);
    rig_close(&rig);
}

/* A board is killed and restarted: meanwhile the others route around it and cannot reach it; once
 * its registers are written again, it works as before. */
Test(peach2_ports, a_board_killed_and_restarted, .timeout = 120)
{
    struct peach2_links links;
    traffic = (struct traffic){.rig = &rig};
    rig_open(&rig, 4, 1, TRAFFIC_MEMORY);
    traffic_run(&traffic, 30);
    for (unsigned round = 0; round < 3; round++) {
        check_all_done();
        rig_kill(&rig, 2);
        rig_wait_cables(&rig, 2);
        peach2_links_all(&rig.topology, &links);
        links.up[2] = 0;
        rig_route(&rig, &links);
        /* 1 to 3 goes by 0 now. */
        struct rig_board *board = &rig.boards[1];
        board->bar0->descriptors[0] =
            (struct peach2_descriptor){.source = RIG_BUS,
                                       .destination = peach2_global(3, RIG_BUS),
                                       .length = 4096,
                                       .flags = PEACH2_END | PEACH2_NOTIFY | PEACH2_ACKNOWLEDGE,
                                       .notify = {round}};
        uint64_t notify[2];
        rig_command(board, 0, PEACH2_FETCH_INTERNAL, 0);
        cr_assert(rig_notified(&rig.boards[3], 1, notify) && notify[0] == round);
        cr_assert(rig_done(board, 0));
        /* To 2 there is no way. */
        board->bar0->descriptors[0].destination = peach2_global(2, RIG_BUS);
        rig_command(board, 0, PEACH2_FETCH_INTERNAL, 0);
        cr_assert(rig_error(board, 0) == PEACH2_BAD_DESTINATION);
        rig_abort(board, 0);

        rig_start(&rig, 2);
        rig_attach(&rig, 2);
        rig_wait_cables(&rig, PEACH2_NO_NODE);
        peach2_links_all(&rig.topology, &links);
        rig_route(&rig, &links);
        for (unsigned node = 0; node < 4; node++) { /* its packets are counted from 0 again */
            rig_restart(&rig, 2, node);
            if (node != 2)
                rig_restart(&rig, node, 2);
        }
        for (unsigned node = 0; node < 4; node++)
            traffic.seen[2][node] = traffic.sent[2][node];
        traffic_run(&traffic, 30 + 20 * (round + 1));
    }
    rig_close(&rig);
}

/* With nothing to do, boards sleep. */
Test(peach2_ports, idle_boards_sleep, .timeout = 60)
{
    rig_open(&rig, 2, 1, 4096);
    for (unsigned node = 0; node < 2; node++)
        while (atomic_load(&rig.boards[node].bar0->bell_armed) != 1)
            usleep(1000);
    rig_close(&rig);
}
