/* Sixteen nodes, 2 x 8, each puts to each (crowd.h), and every board forwards packets, while cables
 * and boards fail and return. */
#include <criterion/criterion.h>

#include "proto/wait.h"
#include "tests/unit/drivers/peach2/crowd.h"

enum { NODES = 16 };

static struct crowd crowd;
static uint32_t state;

static unsigned pick(unsigned below)
{
    return next_random(&state) % below;
}

static void rounds(unsigned count)
{
    while (count-- > 0)
        crowd_round(&crowd);
}

/* Waits for progress, not for a time, because a board can lack a core. */
static void go_on_for(uint64_t ns)
{
    const uint64_t until_ns = clock_now_ns() + ns;
    while (clock_now_ns() < until_ns)
        crowd_round(&crowd);
}

/* One, two or three cables of any kind at once, and back in another order. */
Test(peach2_storm, cables, .timeout = 280)
{
    state = 2015;
    crowd_open(&crowd, NODES, false);
    crowd_run(&crowd, 2);
    for (unsigned round = 0; round < 6; round++) {
        unsigned nodes[3], ports[3], count = 1 + round % 3;
        for (unsigned i = 0; i < count; i++) {
            nodes[i] = pick(NODES);
            ports[i] = PEACH2_E + pick(3);
            rig_plug(&crowd.rig, nodes[i], ports[i], false);
            rounds(pick(20));
        }
        crowd_run(&crowd, 1);
        for (unsigned i = 0; i < count; i++) {
            rig_plug(&crowd.rig, nodes[i], ports[i], true);
            rounds(pick(20));
        }
        crowd_run(&crowd, 1);
    }
    cr_assert(crowd_downs(&crowd) == 0);
    crowd_close(&crowd);
}

/* Each board is on the path of many pairs, and on none while it is dead. */
Test(peach2_storm, boards, .timeout = 280)
{
    state = 1996;
    crowd_open(&crowd, NODES, false);
    crowd_run(&crowd, 2);
    for (unsigned round = 0; round < 4; round++) {
        const unsigned node = pick(NODES);
        rounds(pick(20));
        rig_kill_board(&crowd.rig, node);
        rounds(50);
        rig_start(&crowd.rig, node);
        crowd_run(&crowd, 2);
    }
    cr_assert(crowd_downs(&crowd) == 0);
    crowd_close(&crowd);
}

/* A rung and a ring's cable that flap, each for itself. */
Test(peach2_storm, cables_that_flap, .timeout = 280)
{
    crowd_open(&crowd, NODES, false);
    crowd_run(&crowd, 2);
    for (unsigned round = 0; round < 30; round++) {
        rig_plug(&crowd.rig, 0, PEACH2_E, round % 2);
        go_on_for(UINT64_C(50000000));
        rig_plug(&crowd.rig, 4, PEACH2_S, round / 2 % 2);
        go_on_for(UINT64_C(50000000));
    }
    rig_plug(&crowd.rig, 0, PEACH2_E, true);
    rig_plug(&crowd.rig, 4, PEACH2_S, true);
    crowd_run(&crowd, 2);
    cr_assert(crowd_downs(&crowd) == 0);
    crowd_close(&crowd);
}

/* A node whose three cables stay unplugged: puts to it and from it fail; all others continue. */
Test(peach2_storm, a_node_cut_off, .timeout = 280)
{
    enum { AWAY = 5 };
    crowd_open(&crowd, NODES, false);
    crowd_run(&crowd, 2);
    for (unsigned port = PEACH2_E; port < PEACH2_PORTS; port++)
        rig_plug(&crowd.rig, AWAY, port, false);
    for (unsigned node = 0; node < NODES; node++) {
        crowd.streams[node][AWAY].off = crowd.streams[AWAY][node].off = node != AWAY;
        /* what is under way when it is cut off is all that is still to end */
    }
    const uint64_t give_up_ns = clock_now_ns() + UINT64_C(60000000000);
    for (unsigned told = 0; told < 2 * (NODES - 1);) {
        told = 0;
        crowd_round(&crowd);
        for (unsigned node = 0; node < NODES; node++)
            if (node != AWAY) {
                told += crowd.streams[node][AWAY].op.done > 0;
                told += crowd.streams[AWAY][node].op.done > 0;
            }
        cr_assert(clock_now_ns() < give_up_ns, "%u are told", told);
    }
    crowd_run(&crowd, 2);
    for (unsigned node = 0; node < NODES; node++)
        for (unsigned to = 0; to < NODES; to++)
            cr_assert(node == AWAY || to == AWAY || crowd.streams[node][to].op.status >= 0);
    crowd_close(&crowd);
}
