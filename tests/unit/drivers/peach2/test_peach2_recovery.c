/*
 * The driver while cables are pulled and boards die: four nodes in a ring, all in this process,
 * everybody puts to everybody. Every message has a number, in its words and by its place in the
 * order: none is lost, none comes twice, none before its data.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "proto/wait.h"
#include "tests/unit/drivers/kit.h"
#include "tests/unit/drivers/peach2/rig.h"

enum { NODES = 4, BYTES = 8000, REGION = 2 * NODES * 16384, SLOT = 16384 };

struct stream {
    struct driver_peer *peer;
    struct driver_landing *landing;
    struct driver_put *put;
    struct layout *source, *target;
    struct op op;
    uint32_t sent; /* the put that runs, or ran last */
    uint32_t seen; /* at the receiver */
    bool failed;
    bool off; /* nothing more is sent */
};

static struct rig rig;
static struct side sides[NODES];
static struct stream streams[NODES][NODES]; /* from, to */
static unsigned opened;
static bool odd; /* layouts that have to be staged */

const char *side_board(void)
{
    return rig.boards[opened++].path;
}

unsigned side_board_nodes(void)
{
    return NODES;
}

static uint8_t *source_of(unsigned from, unsigned to)
{
    return sides[from].memory + to * SLOT;
}

static uint8_t *target_of(unsigned from, unsigned to)
{
    return sides[to].memory + (NODES + from) * SLOT + (odd ? 3 : 0);
}

static void open_stream(unsigned from, unsigned to)
{
    struct stream *stream = &streams[from][to];
    struct driver *sender = sides[from].driver, *receiver = sides[to].driver;
    const struct shape shape = {
        .block = 80, .count = BYTES / 80, .stride = odd ? 83 : 96, .outer = 1};
    uint8_t address[ADDRESS_MAX_BYTES], blob[LANDING_MAX_BYTES];
    size_t blob_bytes;
    struct driver_put_info info;
    int bytes = receiver->ops->address(receiver, address);
    cr_assert(sender->ops->peer_connect(sender, address, (size_t)bytes, &stream->peer) == 0);
    stream->source = shape_layout(&(struct shape){.block = BYTES, .count = 1, .outer = 1});
    stream->target = shape_layout(&shape);
    struct driver_landing_args landing = {.region = sides[to].region,
                                          .offset_bytes =
                                              (uint64_t)(target_of(from, to) - sides[to].memory),
                                          .layout = stream->target,
                                          .notify = true,
                                          .token = from};
    cr_assert(receiver->ops->landing_new(receiver, &landing, &stream->landing, blob, &blob_bytes) ==
              0);
    struct driver_put_args put = {.peer = stream->peer,
                                  .region = sides[from].region,
                                  .offset_bytes = to * SLOT,
                                  .layout = stream->source,
                                  .landing = blob,
                                  .landing_bytes = blob_bytes,
                                  .target_layout = stream->target};
    cr_assert(sender->ops->put_prepare(sender, &put, &stream->put, &info) == 0);
    cr_assert(info.gathered == odd);
}

static void close_stream(unsigned from, unsigned to)
{
    struct stream *stream = &streams[from][to];
    struct driver *sender = sides[from].driver;
    sender->ops->put_release(sender, stream->put);
    sender->ops->peer_disconnect(sender, stream->peer);
    sides[to].driver->ops->landing_free(sides[to].driver, stream->landing);
    free(stream->source);
    free(stream->target);
}

static void open_all(bool with_odd)
{
    odd = with_odd;
    opened = 0;
    memset(streams, 0, sizeof(streams));
    rig_boards(&rig, NODES, 1);
    for (unsigned node = 0; node < NODES; node++)
        cr_assert(side_open(&sides[node], "peach2", 0, REGION) == 0);
    for (unsigned i = 0; i < NODES * NODES; i++)
        open_stream(i / NODES, i % NODES);
}

/* The next number, once the receiver has seen the last. */
static void send_next(unsigned from, unsigned to)
{
    struct stream *stream = &streams[from][to];
    if (stream->off || stream->failed || (stream->sent > 0 && stream->op.done == 0) ||
        stream->seen != stream->sent)
        return;
    if (stream->sent > 0 && stream->op.status != 0) {
        stream->failed = true;
        return;
    }
    stream->sent++;
    memset(source_of(from, to), (int)(stream->sent % 251), BYTES);
    op_init(&stream->op);
    int r = sides[from].driver->ops->put_post(sides[from].driver, stream->put, &stream->op.op);
    if (r < 0)
        stream->failed = true;
}

static void check(unsigned from, unsigned to)
{
    struct stream *stream = &streams[from][to];
    const uint8_t *target = target_of(from, to), value = (uint8_t)((stream->seen + 1) % 251);
    cr_assert(stream->seen + 1 == stream->sent, "%u to %u: a notification too many", from, to);
    for (unsigned block = 0; block < BYTES / 80; block++)
        for (unsigned i = 0; i < 80; i++)
            cr_assert(target[block * (odd ? 83 : 96) + i] == value, "%u to %u: not the data of %u",
                      from, to, stream->seen + 1);
    memset(sides[to].memory + (NODES + from) * SLOT, 0xee, SLOT); /* what comes twice would show */
    stream->seen++;
}

static void go_round(void)
{
    for (unsigned i = 0; i < NODES * NODES; i++)
        send_next(i / NODES, i % NODES);
    for (unsigned node = 0; node < NODES; node++) {
        struct side *side = &sides[node];
        cr_assert(side->driver->ops->progress(side->driver, 16) >= 0);
        for (unsigned i = 0; i < side->notified_count; i++)
            check((unsigned)side->notified[i], node);
        side->notified_count = 0;
    }
}

static void close_all(void)
{
    for (unsigned i = 0; i < NODES * NODES; i++) {
        struct stream *stream = &streams[i / NODES][i % NODES];
        stream->off = true;
        while (stream->sent > 0 && !stream->failed && stream->op.done == 0)
            go_round();
    }
    for (unsigned i = 0; i < NODES * NODES; i++)
        close_stream(i / NODES, i % NODES);
    for (unsigned node = 0; node < NODES; node++)
        side_close(&sides[node]);
    rig_end_boards(&rig);
}

static uint32_t least(void)
{
    uint32_t seen = UINT32_MAX;
    for (unsigned i = 0; i < NODES * NODES; i++)
        if (!streams[i / NODES][i % NODES].off && streams[i / NODES][i % NODES].seen < seen)
            seen = streams[i / NODES][i % NODES].seen;
    return seen;
}

/* Until every stream has seen so many more. */
static void run(uint32_t more)
{
    const uint64_t give_up_ns = clock_now_ns() + UINT64_C(40000000000);
    for (uint32_t goal = least() + more; least() < goal;) {
        go_round();
        if (clock_now_ns() < give_up_ns)
            continue;
        for (unsigned i = 0; i < NODES * NODES; i++)
            cr_log_error("%u to %u: done %u, sent %u, seen %u, failed %d", i / NODES, i % NODES,
                         streams[i / NODES][i % NODES].op.done, streams[i / NODES][i % NODES].sent,
                         streams[i / NODES][i % NODES].seen, streams[i / NODES][i % NODES].failed);
        cr_assert_fail("nothing moves any more");
    }
}

static void check_cables(bool with_odd)
{
    open_all(with_odd);
    run(20);
    for (unsigned round = 0; round < 6; round++) {
        unsigned node = round % NODES, port = round % 2 ? PEACH2_W : PEACH2_E;
        rig_plug(&rig, node, port, false);
        run(20); /* the other way round */
        rig_plug(&rig, node, port, true);
        run(20);
    }
    for (unsigned node = 0; node < NODES; node++)
        cr_assert(sides[node].downs == 0);
    close_all();
}

Test(peach2_recovery, cables_pulled_and_put_back, .timeout = 200)
{
    check_cables(false);
}

Test(peach2_recovery, the_same_with_staged_puts, .timeout = 200)
{
    check_cables(true);
}

/* Killed in the middle of everything, and back within the patience of its peers. */
static void check_boards(bool with_odd)
{
    open_all(with_odd);
    run(20);
    for (unsigned round = 0; round < 4; round++) {
        unsigned node = (round + 2) % NODES;
        for (unsigned i = 0; i < 50; i++)
            go_round();
        rig_kill_board(&rig, node);
        for (unsigned i = 0; i < 200; i++)
            go_round();
        rig_start(&rig, node);
        run(20);
    }
    for (unsigned node = 0; node < NODES; node++)
        cr_assert(sides[node].downs == 0);
    close_all();
}

Test(peach2_recovery, boards_killed_and_restarted, .timeout = 200)
{
    check_boards(false);
}

Test(peach2_recovery, boards_killed_and_restarted_with_staged_puts, .timeout = 200)
{
    check_boards(true);
}

/* One that is stopped in the middle of everything, and goes on: too short to be noticed, or so long
 * that its driver gives it up and finds it again. */
Test(peach2_recovery, boards_that_are_stuck, .timeout = 200)
{
    open_all(false);
    run(20);
    for (unsigned round = 0; round < 4; round++) {
        const pid_t board = rig.boards[round].pid;
        const uint64_t until_ns = clock_now_ns() + UINT64_C(1000000) * (round % 2 ? 2000 : 100);
        for (unsigned i = 0; i < 50; i++)
            go_round();
        kill(board, SIGSTOP);
        while (clock_now_ns() < until_ns)
            go_round();
        kill(board, SIGCONT);
        run(20);
    }
    for (unsigned node = 0; node < NODES; node++)
        cr_assert(sides[node].downs == 0);
    close_all();
}

/* It does not come back: its peers are told, their puts fail, and everybody else goes on. */
Test(peach2_recovery, a_board_that_stays_dead, .timeout = 100)
{
    open_all(false);
    run(10);
    rig_kill_board(&rig, 3);
    const uint64_t give_up_ns = clock_now_ns() + UINT64_C(30000000000);
    while (sides[0].downs < 1 || sides[1].downs < 1 || sides[2].downs < 1 ||
           sides[3].downs < NODES) {
        go_round();
        cr_assert(clock_now_ns() < give_up_ns);
    }
    for (unsigned node = 0; node < NODES; node++) {
        cr_assert(sides[node].down_error == -ENETDOWN);
        cr_assert(streams[node][3].op.status == -ENETDOWN || streams[node][3].failed);
        streams[node][3].off = streams[3][node].off = true;
    }
    run(50);
    close_all();
}

static bool under_way(void)
{
    for (unsigned i = 0; i < NODES * NODES; i++) {
        const struct stream *stream = &streams[i / NODES][i % NODES];
        if (stream->op.done == 0 || stream->seen != stream->sent)
            return true;
    }
    return false;
}

/* Everybody sleeps on the driver's descriptor whenever it may. */
Test(peach2_recovery, sleep_when_there_is_nothing, .timeout = 100)
{
    open_all(false);
    const uint64_t give_up_ns = clock_now_ns() + UINT64_C(60000000000);
    while (least() < 30) {
        struct pollfd fds[NODES];
        bool asleep = true;
        go_round();
        for (unsigned node = 0; node < NODES; node++) {
            struct driver *driver = sides[node].driver;
            fds[node] = (struct pollfd){.fd = driver->ops->event_fd(driver), .events = POLLIN};
            asleep = asleep && driver->ops->arm(driver) == 0;
        }
        if (asleep && under_way())
            cr_assert(poll(fds, NODES, 20000) > 0, "slept through it");
        cr_assert(clock_now_ns() < give_up_ns);
    }
    close_all();
}
