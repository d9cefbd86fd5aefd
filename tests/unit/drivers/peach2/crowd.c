#include "tests/unit/drivers/peach2/crowd.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "proto/wait.h"

enum { BLOCK = 80, BLOCKS = 100, PLANE = 10, BYTES = BLOCK * BLOCKS, SLOT = 16384 };
#define PATIENCE_NS UINT64_C(60000000000)

static struct crowd *present; /* whose boards the next drivers get */
static unsigned opened;

const char *side_board(void)
{
    return present->rig.boards[opened++].path;
}

unsigned side_board_nodes(void)
{
    return present->nodes;
}

static uint8_t *source_of(struct crowd *crowd, unsigned from, unsigned to)
{
    return crowd->sides[from].memory + to * SLOT;
}

static uint8_t *target_of(struct crowd *crowd, unsigned from, unsigned to)
{
    return crowd->sides[to].memory + (crowd->nodes + from) * SLOT;
}

/* One stride, which is one descriptor in the channel's registers; two, a chain in internal memory;
 * or what the hardware cannot do at all. */
static struct shape shape_of(const struct crowd *crowd, unsigned from, unsigned to)
{
    if (crowd->odd)
        return (struct shape){
            .block = BLOCK, .count = BLOCKS, .stride = 83, .outer = 1, .offset = 3};
    if ((from + to) % 2)
        return (struct shape){.block = BLOCK,
                              .count = PLANE,
                              .stride = 96,
                              .outer = BLOCKS / PLANE,
                              .outer_stride = 1008};
    return (struct shape){.block = BLOCK, .count = BLOCKS, .stride = 96, .outer = 1};
}

static void open_stream(struct crowd *crowd, unsigned from, unsigned to)
{
    struct stream *stream = &crowd->streams[from][to];
    struct driver *sender = crowd->sides[from].driver, *receiver = crowd->sides[to].driver;
    const struct shape shape = shape_of(crowd, from, to);
    uint8_t address[ADDRESS_MAX_BYTES], blob[LANDING_MAX_BYTES];
    size_t blob_bytes;
    struct driver_put_info info;
    int bytes = receiver->ops->address(receiver, address);
    cr_assert(connect_to(sender, address, (size_t)bytes, &stream->peer) == 0);
    stream->source = shape_layout(&(struct shape){.block = BYTES, .count = 1, .outer = 1});
    stream->target = shape_layout(&shape);
    struct driver_landing_args landing = {.region = crowd->sides[to].region,
                                          .offset_bytes = (crowd->nodes + from) * SLOT,
                                          .layout = stream->target,
                                          .notify = true,
                                          .token = from};
    cr_assert(receiver->ops->landing_new(receiver, &landing, &stream->landing, blob, &blob_bytes) ==
              0);
    struct driver_put_args put = {.peer = stream->peer,
                                  .region = crowd->sides[from].region,
                                  .offset_bytes = to * SLOT,
                                  .layout = stream->source,
                                  .landing = blob,
                                  .landing_bytes = blob_bytes,
                                  .target_layout = stream->target};
    cr_assert(sender->ops->put_prepare(sender, &put, &stream->put, &info) == 0);
    cr_assert(info.gathered == crowd->odd);
    cr_assert(crowd->odd || info.descriptors == ((from + to) % 2 ? BLOCKS / PLANE : 1));
}

static void close_stream(struct crowd *crowd, unsigned from, unsigned to)
{
    struct stream *stream = &crowd->streams[from][to];
    struct driver *sender = crowd->sides[from].driver;
    sender->ops->put_release(sender, stream->put);
    sender->ops->peer_disconnect(sender, stream->peer);
    crowd->sides[to].driver->ops->landing_free(crowd->sides[to].driver, stream->landing);
    free(stream->source);
    free(stream->target);
}

void crowd_open(struct crowd *crowd, unsigned nodes, bool odd)
{
    *crowd = (struct crowd){.nodes = nodes, .odd = odd};
    present = crowd;
    opened = 0;
    rig_boards(&crowd->rig, nodes, 0);
    for (unsigned node = 0; node < nodes; node++)
        cr_assert(side_open(&crowd->sides[node], "peach2", 0, (size_t)2 * nodes * SLOT) == 0);
    for (unsigned i = 0; i < nodes * nodes; i++)
        open_stream(crowd, i / nodes, i % nodes);
}

/* The next number, once the receiver has seen the last. */
static void send_next(struct crowd *crowd, unsigned from, unsigned to)
{
    struct stream *stream = &crowd->streams[from][to];
    if (stream->off || stream->failed || (stream->sent > 0 && stream->op.done == 0) ||
        stream->seen != stream->sent)
        return;
    if (stream->sent > 0 && stream->op.status != 0) {
        stream->failed = true;
        return;
    }
    stream->sent++;
    memset(source_of(crowd, from, to), (int)(stream->sent % 251), BYTES);
    op_init(&stream->op);
    struct driver *driver = crowd->sides[from].driver;
    if (driver->ops->put_post(driver, stream->put, &stream->op.op) < 0)
        stream->failed = true;
}

static void check(struct crowd *crowd, unsigned from, unsigned to)
{
    struct stream *stream = &crowd->streams[from][to];
    const struct shape shape = shape_of(crowd, from, to);
    uint8_t *target = target_of(crowd, from, to);
    const uint8_t value = (uint8_t)((stream->seen + 1) % 251);
    cr_assert(stream->seen + 1 == stream->sent, "%u to %u: a notification too many", from, to);
    for (unsigned block = 0; block < BLOCKS; block++) {
        const uint8_t *bytes = target + shape_place(&shape, (uint64_t)block * BLOCK);
        for (unsigned i = 0; i < BLOCK; i++)
            cr_assert(bytes[i] == value, "%u to %u: not the data of %u", from, to,
                      stream->seen + 1);
    }
    memset(target, 0xee, SLOT); /* reveals duplicates */
    stream->seen++;
}

void crowd_round(struct crowd *crowd)
{
    for (unsigned i = 0; i < crowd->nodes * crowd->nodes; i++)
        send_next(crowd, i / crowd->nodes, i % crowd->nodes);
    for (unsigned node = 0; node < crowd->nodes; node++) {
        struct side *side = &crowd->sides[node];
        cr_assert(side->driver->ops->progress(side->driver, 16) >= 0);
        for (unsigned i = 0; i < side->notified_count; i++)
            check(crowd, (unsigned)side->notified[i], node);
        side->notified_count = 0;
    }
}

void crowd_close(struct crowd *crowd)
{
    const unsigned nodes = crowd->nodes;
    for (unsigned i = 0; i < nodes * nodes; i++) {
        struct stream *stream = &crowd->streams[i / nodes][i % nodes];
        stream->off = true;
        while (stream->sent > 0 && !stream->failed && stream->op.done == 0)
            crowd_round(crowd);
    }
    for (unsigned i = 0; i < nodes * nodes; i++)
        close_stream(crowd, i / nodes, i % nodes);
    for (unsigned node = 0; node < nodes; node++)
        side_close(&crowd->sides[node]);
    rig_end_boards(&crowd->rig);
}

uint32_t crowd_least(const struct crowd *crowd)
{
    uint32_t seen = UINT32_MAX;
    for (unsigned from = 0; from < crowd->nodes; from++)
        for (unsigned to = 0; to < crowd->nodes; to++)
            if (!crowd->streams[from][to].off && crowd->streams[from][to].seen < seen)
                seen = crowd->streams[from][to].seen;
    return seen;
}

static uint64_t all_seen(const struct crowd *crowd)
{
    uint64_t seen = 0;
    for (unsigned from = 0; from < crowd->nodes; from++)
        for (unsigned to = 0; to < crowd->nodes; to++)
            seen += crowd->streams[from][to].seen;
    return seen;
}

static void complain(const struct crowd *crowd, const char *what)
{
    for (unsigned from = 0; from < crowd->nodes; from++)
        for (unsigned to = 0; to < crowd->nodes; to++) {
            const struct stream *stream = &crowd->streams[from][to];
            cr_log_error("%u to %u: done %u, status %d, sent %u, seen %u, failed %d", from, to,
                         stream->op.done, stream->op.status, stream->sent, stream->seen,
                         stream->failed);
        }
    cr_assert_fail("%s", what);
}

static bool one_has_failed(const struct crowd *crowd)
{
    for (unsigned from = 0; from < crowd->nodes; from++)
        for (unsigned to = 0; to < crowd->nodes; to++)
            if (!crowd->streams[from][to].off && crowd->streams[from][to].failed)
                return true;
    return false;
}

void crowd_run(struct crowd *crowd, uint32_t more)
{
    uint64_t moved_ns = clock_now_ns(), seen = 0;
    for (uint32_t goal = crowd_least(crowd) + more; crowd_least(crowd) < goal;) {
        crowd_round(crowd);
        const uint64_t now_seen = all_seen(crowd);
        if (now_seen != seen)
            moved_ns = clock_now_ns();
        seen = now_seen;
        if (clock_now_ns() - moved_ns > PATIENCE_NS)
            complain(crowd, "nothing moves any more");
        if (one_has_failed(crowd))
            complain(crowd, "a put has failed");
    }
}

bool crowd_under_way(const struct crowd *crowd)
{
    for (unsigned from = 0; from < crowd->nodes; from++)
        for (unsigned to = 0; to < crowd->nodes; to++) {
            const struct stream *stream = &crowd->streams[from][to];
            if (stream->op.done == 0 || stream->seen != stream->sent)
                return true;
        }
    return false;
}

unsigned crowd_downs(const struct crowd *crowd)
{
    unsigned downs = 0;
    for (unsigned node = 0; node < crowd->nodes; node++)
        downs += crowd->sides[node].downs;
    return downs;
}
