/*
 * Two instances of a driver (DRIVER) put to each other, all kinds at once, while their connections
 * are cut again and again: each start completes, and each notification comes once, with its data.
 */
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/wait.h"
#include "tests/unit/drivers/kit.h"
#include "tests/unit/proto/random.h"

enum { PART = 2 << 20, STREAMS = 8, REGION = 2 * STREAMS * PART, STALE = 0x5a };

static const struct shape shapes[] = {
    {.block = 24, .count = 1, .outer = 1, .offset = 5},
    {.block = 300000, .count = 1, .outer = 1},
    {.block = 1500000, .count = 1, .outer = 1},
    {.block = 8, .count = 3, .stride = 24, .outer = 1},
    {.block = 8, .count = 37500, .stride = 24, .outer = 1},
    {.block = 40, .count = 7500, .stride = 48, .outer = 1},
    {.block = 6000, .count = 250, .stride = 6100, .outer = 1},
};
static const struct {
    int source, target; /* -1: a notification alone */
} kinds[STREAMS] = {{0, 0}, {1, 1}, {2, 2}, {3, 3}, {4, 5}, {1, 4}, {6, 2}, {-1, -1}};

static struct side sides[2];

/* Puts of one kind, in succession. */
struct stream {
    struct side *from, *to;
    uint64_t source_offset, target_offset;
    const struct shape *source, *target;
    struct layout *layouts[2];
    struct driver_landing *landing;
    struct driver_put *put;
    struct op op;
    uint64_t token;
    unsigned starts, arrived; /* notifications */
    bool running;
};
static struct stream streams[2][STREAMS];

static void stream_open(struct stream *stream, unsigned way, unsigned kind,
                        struct driver_peer *peer)
{
    uint8_t blob[LANDING_MAX_BYTES];
    size_t bytes;
    struct driver_put_info info;
    const bool empty = kinds[kind].source < 0;
    *stream = (struct stream){
        .from = &sides[way],
        .to = &sides[1 - way],
        .source_offset = kind * PART,
        .target_offset = (STREAMS + kind) * PART,
        .source = empty ? NULL : &shapes[kinds[kind].source],
        .target = empty ? NULL : &shapes[kinds[kind].target],
        .token = kind,
    };
    if (!empty) {
        stream->layouts[0] = shape_layout(stream->source);
        stream->layouts[1] = shape_layout(stream->target);
    }
    struct driver_landing_args landing = {
        .region = empty ? NULL : stream->to->region,
        .offset_bytes = stream->target_offset,
        .layout = stream->layouts[1],
        .notify = true,
        .token = stream->token,
    };
    struct driver *to = stream->to->driver, *from = stream->from->driver;
    cr_assert(to->ops->landing_new(to, &landing, &stream->landing, blob, &bytes) == 0);
    struct driver_put_args put = {
        .peer = peer,
        .flow = kind,
        .region = empty ? NULL : stream->from->region,
        .offset_bytes = stream->source_offset,
        .layout = stream->layouts[0],
        .landing = blob,
        .landing_bytes = bytes,
        .target_layout = stream->layouts[1],
    };
    cr_assert(from->ops->put_prepare(from, &put, &stream->put, &info) == 0);
}

static void stream_close(struct stream *stream)
{
    stream->from->driver->ops->put_release(stream->from->driver, stream->put);
    stream->to->driver->ops->landing_free(stream->to->driver, stream->landing);
    free(stream->layouts[0]);
    free(stream->layouts[1]);
}

/* Fast to compute; no two words and no two starts alike. */
static void refill(uint8_t *bytes, uint32_t start)
{
    for (uint32_t i = 0; i < PART / 4; i++) {
        const uint32_t word = (i + 1) * 2654435761u ^ start * 40503u;
        memcpy(bytes + 4 * i, &word, sizeof(word));
    }
}

static void stream_start(struct stream *stream)
{
    stream->starts++;
    stream->running = true;
    if (stream->source)
        refill(stream->from->memory + stream->source_offset, stream->starts);
    op_init(&stream->op);
    cr_assert(post(stream->from, stream->to, stream->put, &stream->op) == 0);
}

static void check_bytes(const struct stream *stream)
{
    const uint8_t *from = stream->from->memory + stream->source_offset,
                  *to = stream->to->memory + stream->target_offset;
    for (uint64_t i = 0; stream->source && i < shape_bytes(stream->source); i++)
        if (to[shape_place(stream->target, i)] != from[shape_place(stream->source, i)])
            cr_assert_fail("kind %u, start %u: byte %zu is wrong", (unsigned)stream->token,
                           stream->starts, (size_t)i);
}

static void check_silent(const struct stream *stream)
{
    const uint8_t *to = stream->to->memory + stream->target_offset;
    for (size_t i = 0; i < PART; i++)
        if (to[i] != STALE)
            cr_assert_fail("kind %u, after start %u: something came once more",
                           (unsigned)stream->token, stream->starts);
}

static void move(void)
{
    for (unsigned i = 0; i < 2; i++)
        cr_assert(sides[i].driver->ops->progress(sides[i].driver, 16) >= 0);
    for (unsigned i = 0; i < 2; i++) {
        for (unsigned n = 0; n < sides[i].notified_count; n++)
            streams[1 - i][sides[i].notified[n]].arrived++;
        sides[i].notified_count = 0;
    }
}

/* The other end notices it by a FIN, or by a RST when it sends more. Every second time only one end
 * is cut, so that the other still sends data that will not be read. */
static unsigned cut(void)
{
    static unsigned times;
    unsigned count = 0;
    times++;
    for (int fd = 3; fd < 256; fd++) {
        struct sockaddr_in peer;
        socklen_t bytes = sizeof(peer);
        if (getpeername(fd, (struct sockaddr *)&peer, &bytes) < 0 || peer.sin_family != AF_INET)
            continue;
        if (times % 2 == 0 || count == times / 2 % 2)
            shutdown(fd, SHUT_RDWR);
        count++;
    }
    return count;
}

/* A connection is cut when it has moved data, both ways: drivers give up when they lose one after
 * the other without a count from the other end, or get none for seconds, and on a slow machine a
 * connection takes longer to be made than from one cut to the next. */
static bool has_moved(const unsigned ended[2], const unsigned ended_then[2], unsigned rounds)
{
    for (unsigned way = 0; way < 2; way++)
        if (ended[way] == ended_then[way] && ended[way] < rounds * STREAMS)
            return false;
    return true;
}

/* Each costs up to half a second until the provider has connected again; the remaining starts run
 * uncut, so that the test also ends on a slow machine. */
enum { CUTS_MAX = 60 };

/* After a cut, once the drivers have begun to connect again, they get no processor for this long:
 * longer than a connection may be lost. */
enum { NAP_MS = 6000 };

static void nap(void)
{
    for (unsigned i = 0; i < 50; i++)
        move();
    usleep(NAP_MS * 1000);
}

/* Ends when each stream has completed its starts. */
static void run(unsigned rounds, unsigned pause_ms, bool naps)
{
    uint64_t cut_ns = clock_now_ns();
    unsigned cuts = 0, done, ended[2] = {0}, ended_then[2] = {0};
    do {
        move();
        done = 0;
        for (unsigned i = 0; i < 2 * STREAMS; i++) {
            struct stream *stream = &streams[i / STREAMS][i % STREAMS];
            if (stream->running && (!stream->op.done || stream->arrived < stream->starts))
                continue;
            if (stream->running) {
                stream->running = false;
                ended[i / STREAMS]++;
                cr_assert(stream->op.status == 0, "kind %u, start %u: %d", i % STREAMS,
                          stream->starts, stream->op.status);
                cr_assert(stream->arrived == stream->starts, "kind %u notified twice", i % STREAMS);
                check_bytes(stream);
                if (stream->source)
                    memset(stream->to->memory + stream->target_offset, STALE, PART);
            }
            if (stream->starts == rounds)
                done++;
            else
                stream_start(stream);
        }
        cr_assert(sides[0].downs == 0 && sides[1].downs == 0,
                  "given up after %u cuts; ended since the last: %u and %u", cuts,
                  ended[0] - ended_then[0], ended[1] - ended_then[1]);
        const uint64_t now_ns = clock_now_ns();
        const bool due = pause_ms > 0 && now_ns - cut_ns > pause_ms * UINT64_C(1000000);
        if (due && has_moved(ended, ended_then, rounds) && cuts < CUTS_MAX && cut() > 0) {
            cut_ns = now_ns;
            memcpy(ended_then, ended, sizeof(ended));
            cuts++;
            if (naps && cuts == 1)
                nap();
        }
    } while (done < 2 * STREAMS);
    cr_assert(pause_ms == 0 || cuts > 3, "only %u cuts", cuts);
    for (unsigned i = 0; i < 20000; i++)
        move();
    for (unsigned i = 0; i < 2 * STREAMS; i++) {
        const struct stream *stream = &streams[i / STREAMS][i % STREAMS];
        cr_assert(stream->arrived == stream->starts, "kind %u notified once more", i % STREAMS);
        if (stream->source)
            check_silent(stream);
    }
    cr_assert(sides[0].downs == 0 && sides[1].downs == 0, "given up");
}

static void check(unsigned rounds, unsigned pause_ms, bool naps)
{
    uint8_t address[ADDRESS_MAX_BYTES];
    struct driver_peer *peers[2];
    for (unsigned i = 0; i < 2; i++)
        cr_assert(side_open(&sides[i], DRIVER, 32768, REGION) == 0);
    for (unsigned i = 0; i < 2; i++) {
        size_t bytes = (size_t)sides[1 - i].driver->ops->address(sides[1 - i].driver, address);
        cr_assert(connect_to(sides[i].driver, address, bytes, &peers[i]) == 0);
    }
    for (unsigned i = 0; i < 2 * STREAMS; i++)
        stream_open(&streams[i / STREAMS][i % STREAMS], i / STREAMS, i % STREAMS,
                    peers[i / STREAMS]);
    run(rounds, pause_ms, naps);
    for (unsigned i = 0; i < 2 * STREAMS; i++)
        stream_close(&streams[i / STREAMS][i % STREAMS]);
    for (unsigned i = 0; i < 2; i++)
        sides[i].driver->ops->peer_disconnect(sides[i].driver, peers[i]);
    pump_rounds(&sides[0], &sides[1], 100);
    for (unsigned i = 0; i < 2; i++)
        side_close(&sides[i]);
}

Test(DRIVER_SUITE, nothing_is_cut, .timeout = 300)
{
    check(10, 0, false);
}

Test(DRIVER_SUITE, now_and_then, .timeout = 300)
{
    check((unsigned)random_rounds(20), 200, false);
}

Test(DRIVER_SUITE, all_the_time, .timeout = 300)
{
    check((unsigned)random_rounds(20), 30, false);
}

Test(DRIVER_SUITE, without_a_processor, .timeout = 300)
{
    check(10, 30, true);
}
