/* Puts of many flows to one peer: those of a flow complete in order, and flows do not delay each
 * other. */
#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "proto/wait.h"
#include "tests/unit/drivers/kit.h"
#include "tests/unit/drivers/peach2/rig.h"

enum {
    FLOWS = 9,
    PUTS = 6,     /* of a flow, posted one after the other */
    HUGE = FLOWS, /* a flow of its own */
    HUGE_BYTES = 48 << 20,
    SLOT = 1 << 19,
    REGION = 2 * HUGE_BYTES,
};

struct transfer {
    struct layout *layout;
    struct driver_landing *landing;
    struct driver_put *put;
    struct op op;
};

static struct rig rig;
static struct side sides[2];
static struct driver_peer *peer;
static struct transfer transfers[FLOWS][PUTS], huge;
static unsigned opened;

const char *side_board(void)
{
    return rig.boards[opened++].path;
}

/* From node 0 to node 1, to the same place. Token: flow and number. */
static void prepare(struct transfer *transfer, unsigned flow, unsigned number, uint64_t bytes)
{
    const struct driver_ops *ops = sides[0].driver->ops;
    uint8_t blob[LANDING_MAX_BYTES];
    size_t blob_bytes;
    struct driver_put_info info;
    const uint64_t offset = flow == HUGE ? HUGE_BYTES : (uint64_t)(flow * PUTS + number) * SLOT;
    transfer->layout = shape_layout(&(struct shape){.block = bytes, .count = 1, .outer = 1});
    const struct driver_landing_args landing = {.region = sides[1].region,
                                                .offset_bytes = offset,
                                                .layout = transfer->layout,
                                                .notify = true,
                                                .token = flow << 8 | number};
    cr_assert(ops->landing_new(sides[1].driver, &landing, &transfer->landing, blob, &blob_bytes) ==
              0);
    const struct driver_put_args put = {.peer = peer,
                                        .flow = flow,
                                        .region = sides[0].region,
                                        .offset_bytes = offset,
                                        .layout = transfer->layout,
                                        .landing = blob,
                                        .landing_bytes = blob_bytes,
                                        .target_layout = transfer->layout};
    cr_assert(ops->put_prepare(sides[0].driver, &put, &transfer->put, &info) == 0);
    op_init(&transfer->op);
}

static void release(struct transfer *transfer)
{
    const struct driver_ops *ops = sides[0].driver->ops;
    ops->put_release(sides[0].driver, transfer->put);
    ops->landing_free(sides[1].driver, transfer->landing);
    free(transfer->layout);
}

static void post_one(struct transfer *transfer)
{
    op_init(&transfer->op);
    cr_assert(post(&sides[0], &sides[1], transfer->put, &transfer->op) == 0);
}

static void open_all(void)
{
    uint8_t address[ADDRESS_MAX_BYTES];
    opened = 0;
    rig_boards(&rig, 2, 1);
    for (unsigned node = 0; node < 2; node++)
        cr_assert(side_open(&sides[node], "peach2", 0, REGION) == 0);
    int bytes = sides[1].driver->ops->address(sides[1].driver, address);
    cr_assert(connect_to(sides[0].driver, address, (size_t)bytes, &peer) == 0);
    for (unsigned flow = 0; flow < FLOWS; flow++) /* what is odd is staged */
        for (unsigned number = 0; number < PUTS; number++)
            prepare(&transfers[flow][number], flow, number,
                    number % 3 == 0   ? 8
                    : number % 3 == 1 ? 100000 + flow
                                      : 400000);
    prepare(&huge, HUGE, 0, HUGE_BYTES);
}

static void close_all(void)
{
    for (unsigned i = 0; i < FLOWS * PUTS; i++)
        release(&transfers[i / PUTS][i % PUTS]);
    release(&huge);
    sides[0].driver->ops->peer_disconnect(sides[0].driver, peer);
    for (unsigned node = 0; node < 2; node++)
        side_close(&sides[node]);
    cr_assert(rig_end_boards(&rig) == 0);
}

/* Posts all puts of all flows together, with a fault meanwhile. */
static void check_order(unsigned round, void (*trouble)(unsigned round, unsigned step))
{
    uint32_t *const words = (uint32_t *)sides[0].memory;
    unsigned next[FLOWS] = {0}, step = 0;
    const uint64_t give_up_ns = clock_now_ns() + UINT64_C(30000000000);
    for (uint32_t i = 0; i < FLOWS * PUTS * (SLOT / 4); i++)
        words[i] = i * 2654435761u + round;
    sides[1].notified_count = 0;
    for (unsigned number = 0; number < PUTS; number++)
        for (unsigned flow = 0; flow < FLOWS; flow++)
            post_one(&transfers[flow][number]);
    while (sides[1].notified_count < FLOWS * PUTS || step < 3) {
        if (trouble && step < 3 && sides[1].notified_count >= step * FLOWS * PUTS / 3)
            trouble(round, step++);
        else if (!trouble)
            step = 3;
        pump_rounds(&sides[0], &sides[1], 1);
        cr_assert(clock_now_ns() < give_up_ns, "%u of %d", sides[1].notified_count, FLOWS * PUTS);
    }
    for (unsigned i = 0; i < FLOWS * PUTS; i++) {
        const unsigned flow = (unsigned)sides[1].notified[i] >> 8,
                       number = sides[1].notified[i] & 0xff;
        cr_assert(next[flow] == number, "flow %u: %u, not %u", flow, number, next[flow]);
        next[flow]++;
    }
    for (unsigned i = 0; i < FLOWS * PUTS; i++) {
        struct transfer *transfer = &transfers[i / PUTS][i % PUTS];
        cr_assert(pump_until(&sides[0], &sides[1], &transfer->op.done, 1));
        cr_assert(transfer->op.status == 0);
        cr_assert(memcmp(sides[1].memory + i * SLOT, sides[0].memory + i * SLOT,
                         transfer->layout->size_bytes) == 0);
    }
    pump_rounds(&sides[0], &sides[1], 100);
    cr_assert(sides[1].notified_count == FLOWS * PUTS, "some came twice");
}

Test(peach2_flows, each_in_order, .timeout = 120)
{
    open_all();
    for (unsigned round = 0; round < 20; round++)
        check_order(round, NULL);
    close_all();
}

/* Both cables unplugged and plugged in, a board stopped, a board killed. */
static void make_trouble(unsigned round, unsigned step)
{
    const unsigned node = round / 3 % 2;
    if (round % 3 == 0) {
        rig_plug(&rig, node, step % 2 ? PEACH2_W : PEACH2_E, false);
        pump_rounds(&sides[0], &sides[1], 50);
        rig_plug(&rig, node, step % 2 ? PEACH2_W : PEACH2_E, true);
    } else if (round % 3 == 1) {
        kill(rig.boards[node].pid, SIGSTOP);
        pump_rounds(&sides[0], &sides[1], 50);
        kill(rig.boards[node].pid, SIGCONT);
    } else if (step == 0) {
        rig_kill_board(&rig, node);
        rig_start(&rig, node);
    }
}

Test(peach2_flows, each_in_order_whatever_happens, .timeout = 200)
{
    open_all();
    for (unsigned round = 0; round < 12; round++)
        check_order(round, make_trouble);
    cr_assert(sides[0].downs + sides[1].downs == 0);
    close_all();
}

/* A small put of another flow completes before a huge one that was posted earlier. Preemption can
 * hide the few milliseconds in between, so once in twenty rounds is enough. */
Test(peach2_flows, small_beside_huge, .timeout = 120)
{
    unsigned beside = 0;
    open_all();
    post_one(&transfers[0][0]); /* connects */
    cr_assert(pump_until(&sides[0], &sides[1], &transfers[0][0].op.done, 1));
    for (unsigned i = 0; i < 20 && beside == 0; i++) {
        post_one(&huge);
        post_one(&transfers[1][0]);
        cr_assert(pump_until(&sides[0], &sides[1], &transfers[1][0].op.done, 1));
        beside += huge.op.done == 0;
        cr_assert(pump_until(&sides[0], &sides[1], &huge.op.done, 1));
    }
    cr_assert(beside > 0, "it has always waited");
    close_all();
}

/* A driver that only receives has no timer: it sleeps until the board's interrupt, and not while an
 * earlier interrupt is unprocessed. */
Test(peach2_flows, interrupt_wakes_the_receiver, .timeout = 120)
{
    open_all();
    struct driver *from = sides[0].driver, *to = sides[1].driver;
    struct pollfd told = {.fd = to->ops->event_fd(to), .events = POLLIN};
    for (unsigned round = 1; round <= 20; round++) {
        const uint64_t give_up_ns = clock_now_ns() + UINT64_C(30000000000);
        while (to->ops->arm(to) < 0) {
            pump_rounds(&sides[0], &sides[1], 1);
            cr_assert(clock_now_ns() < give_up_ns, "it may never sleep");
        }
        post_one(&transfers[0][0]);
        while (poll(&told, 1, 0) == 0) {
            from->ops->progress(from, 16);
            cr_assert(clock_now_ns() < give_up_ns, "round %u: it is not woken", round);
        }
        while (to->ops->arm(to) == 0)
            cr_assert(clock_now_ns() < give_up_ns, "round %u: it would sleep", round);
        cr_assert(pump_until(&sides[0], &sides[1], &transfers[0][0].op.done, 1));
        cr_assert(pump_until(&sides[0], &sides[1], &sides[1].notified_count, round));
    }
    close_all();
}
