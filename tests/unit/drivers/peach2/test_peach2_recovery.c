/* The driver while cables are unplugged and boards die: four nodes in a ring, each puts to each
 * (crowd.h). */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/wait.h"
#include "tests/unit/drivers/peach2/crowd.h"

enum { NODES = 4 };

static struct crowd crowd;

static void check_cables(bool with_odd)
{
    crowd_open(&crowd, NODES, with_odd);
    crowd_run(&crowd, 20);
    for (unsigned round = 0; round < 6; round++) {
        unsigned node = round % NODES, port = round % 2 ? PEACH2_W : PEACH2_E;
        rig_plug(&crowd.rig, node, port, false);
        crowd_run(&crowd, 20); /* the other way round */
        rig_plug(&crowd.rig, node, port, true);
        crowd_run(&crowd, 20);
    }
    cr_assert(crowd_downs(&crowd) == 0);
    crowd_close(&crowd);
}

Test(peach2_recovery, cables_pulled_and_put_back, .timeout = 200)
{
    check_cables(false);
}

Test(peach2_recovery, the_same_with_staged_puts, .timeout = 200)
{
    check_cables(true);
}

/* Killed under load, and restarted within the timeout of its peers. */
static void check_boards(bool with_odd)
{
    crowd_open(&crowd, NODES, with_odd);
    crowd_run(&crowd, 20);
    for (unsigned round = 0; round < 4; round++) {
        unsigned node = (round + 2) % NODES;
        for (unsigned i = 0; i < 50; i++)
            crowd_round(&crowd);
        rig_kill_board(&crowd.rig, node);
        for (unsigned i = 0; i < 200; i++)
            crowd_round(&crowd);
        rig_start(&crowd.rig, node);
        crowd_run(&crowd, 20);
    }
    cr_assert(crowd_downs(&crowd) == 0);
    crowd_close(&crowd);
}

Test(peach2_recovery, boards_killed_and_restarted, .timeout = 200)
{
    check_boards(false);
}

Test(peach2_recovery, boards_killed_and_restarted_with_staged_puts, .timeout = 200)
{
    check_boards(true);
}

/* Stopped under load, and continued: too briefly to be noticed, or so long that its driver detaches
 * and attaches again. */
Test(peach2_recovery, boards_that_are_stuck, .timeout = 200)
{
    crowd_open(&crowd, NODES, false);
    crowd_run(&crowd, 20);
    for (unsigned round = 0; round < 4; round++) {
        const pid_t board = crowd.rig.boards[round].pid;
        const uint64_t until_ns = clock_now_ns() + UINT64_C(1000000) * (round % 2 ? 2000 : 100);
        for (unsigned i = 0; i < 50; i++)
            crowd_round(&crowd);
        kill(board, SIGSTOP);
        while (clock_now_ns() < until_ns)
            crowd_round(&crowd);
        kill(board, SIGCONT);
        crowd_run(&crowd, 20);
    }
    cr_assert(crowd_downs(&crowd) == 0);
    crowd_close(&crowd);
}

/* It is not restarted: its peers fail, with their puts, and all others continue. */
Test(peach2_recovery, a_board_that_stays_dead, .timeout = 100)
{
    crowd_open(&crowd, NODES, false);
    crowd_run(&crowd, 10);
    rig_kill_board(&crowd.rig, 3);
    const uint64_t give_up_ns = clock_now_ns() + UINT64_C(30000000000);
    while (crowd.sides[0].downs < 1 || crowd.sides[1].downs < 1 || crowd.sides[2].downs < 1 ||
           crowd.sides[3].downs < NODES) {
        crowd_round(&crowd);
        cr_assert(clock_now_ns() < give_up_ns);
    }
    for (unsigned node = 0; node < NODES; node++) {
        cr_assert(crowd.sides[node].down_error == -ENETDOWN);
        cr_assert(crowd.streams[node][3].op.status == -ENETDOWN || crowd.streams[node][3].failed);
        crowd.streams[node][3].off = crowd.streams[3][node].off = true;
    }
    crowd_run(&crowd, 50);
    crowd_close(&crowd);
}

/* Without enough bus addresses, the driver refuses memory and works on. */
Test(peach2_recovery, bus_addresses_run_out, .timeout = 100)
{
    const uint64_t most = UINT64_C(300) << 30; /* of 512 GiB; no page of it is touched */
    const int fd = memfd_create("large", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    cr_assert(ftruncate(fd, (off_t)most) == 0);
    cr_assert(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
    struct driver_memory large = {.length_bytes = most, .fd = fd}, small = large;
    struct driver_region *first, *other;
    small.length_bytes = 1 << 20;
    crowd_open(&crowd, NODES, false);
    struct driver *driver = crowd.sides[0].driver;
    cr_assert(driver->ops->region_add(driver, &large, &first) == 0);
    cr_assert(driver->ops->region_add(driver, &large, &other) == -EADDRNOTAVAIL);
    driver->ops->region_remove(driver, first);
    cr_assert(driver->ops->region_add(driver, &large, &first) == 0);
    cr_assert(driver->ops->region_add(driver, &small, &other) == 0);
    rig_kill_board(&crowd.rig, 0);
    rig_start(&crowd.rig, 0); /* what is mapped now can be mapped again */
    crowd_run(&crowd, 20);
    driver->ops->region_remove(driver, first);
    driver->ops->region_remove(driver, other);
    crowd_close(&crowd);
    close(fd);
}

/* Every driver sleeps on its descriptor whenever it may. */
Test(peach2_recovery, sleep_when_there_is_nothing, .timeout = 100)
{
    unsigned armed = 0;
    crowd_open(&crowd, NODES, false);
    const uint64_t give_up_ns = clock_now_ns() + UINT64_C(60000000000);
    while (crowd_least(&crowd) < 30 || armed < 30) {
        struct pollfd fds[NODES];
        bool asleep = true;
        crowd_round(&crowd);
        for (unsigned node = 0; node < NODES; node++) {
            struct driver *driver = crowd.sides[node].driver;
            fds[node] = (struct pollfd){.fd = driver->ops->event_fd(driver), .events = POLLIN};
            if (driver->ops->arm(driver) == 0)
                armed++;
            else
                asleep = false;
        }
        if (asleep && crowd_under_way(&crowd))
            cr_assert(poll(fds, NODES, 20000) > 0, "slept through it");
        cr_assert(clock_now_ns() < give_up_ns, "%u times one may sleep", armed);
    }
    crowd_close(&crowd);
}
