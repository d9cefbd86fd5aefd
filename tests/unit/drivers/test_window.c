/* Windows: puts in many pieces, some in a ring, counted by a peer that may be lost. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "drivers/window.h"

enum { PUTS = 24, FLOWS = 5, WINDOW = 16, LARGEST = 1000, RING = 8 * 1024, STEPS = 100000 };

struct put {
    struct window_put base; /* first */
    struct driver_op op;
    uint32_t piece_bytes, pieces; /* to be made */
    bool in_ring;                 /* its number of pieces: it completes once they are made */
    unsigned ended;
    int status;
};

struct piece {
    struct window_piece base; /* first */
    uint8_t mark;             /* of its bytes in the ring */
};

static struct put all[PUTS];
static struct piece pieces[WINDOW];
static struct window window;
static uint8_t ring[RING];
static uint8_t next_mark;
static uint32_t lost[FLOWS];

static void done(struct driver_op *op, int status)
{
    struct put *put = (struct put *)((char *)op - offsetof(struct put, op));
    put->ended++;
    put->status = status;
}

static int make(struct window_put *base)
{
    struct put *put = (struct put *)base;
    struct window_piece *piece = window_next(&window, put->in_ring ? put->piece_bytes : 0);
    if (!piece)
        return window_is_full(&window) ? -EBUSY : -EAGAIN;
    if (put->in_ring) {
        cr_assert(piece->offset % WINDOW_RING_ALIGN == 0 &&
                  piece->offset + put->piece_bytes <= RING);
        ((struct piece *)piece)->mark = ++next_mark;
        memset(ring + piece->offset, next_mark, put->piece_bytes);
    }
    base->made_bytes += put->piece_bytes;
    base->made = base->made_bytes == (uint64_t)put->pieces * put->piece_bytes;
    piece->put = put->in_ring ? NULL : base;
    piece->flow = base->flow.flow;
    piece->done = base->made && put->in_ring;
    window_add(&window, piece);
    return 0;
}

static void setup(unsigned seed)
{
    srand(seed);
    window = (struct window){.pieces = pieces,
                             .size = WINDOW,
                             .piece_bytes = sizeof(pieces[0]),
                             .ring = {.bytes = RING, .largest = LARGEST}};
    for (unsigned i = 0; i < PUTS; i++)
        all[i] = (struct put){.base = {.flow = {.peer = &window, .flow = i % FLOWS}, .cost = 1},
                              .op.done = done,
                              .in_ring = i % 2};
}

/* Bytes in the ring stay unchanged until they are counted. */
static void check(void)
{
    unsigned entries = 0;
    cr_assert(window.made - window.counted <= WINDOW);
    for (uint64_t n = window.counted; n < window.made; n++) {
        const struct piece *piece = (struct piece *)window_piece(&window, n);
        for (uint32_t i = 0; i < piece->base.in_ring; i++)
            cr_assert(ring[piece->base.offset + i] == piece->mark);
        entries += piece->base.in_ring > 0;
    }
    cr_assert(entries == window.ring.entries);
}

static void post(struct put *put)
{
    put->piece_bytes = 1 + (uint32_t)rand() % LARGEST;
    put->pieces = 1 + (uint32_t)rand() % 6;
    put->ended = 0;
    window_post(&window, &put->base, &put->op, 4, make);
}

static void step(void)
{
    struct put *put = &all[rand() % PUTS];
    switch (rand() % 3) {
    case 0:
        if (!put->base.op)
            post(put);
        break;
    case 1:
        window_pump(&window, 8, make);
        break;
    default:
        window_count(&window,
                     window.counted + (uint64_t)rand() % (window.made - window.counted + 1));
        break;
    }
}

Test(window, puts_complete_once)
{
    setup(1);
    for (unsigned i = 0; i < STEPS; i++) {
        step();
        check();
    }
    for (unsigned i = 0; i < 1000; i++) {
        window_pump(&window, 100, make);
        window_count(&window, window.made);
    }
    for (unsigned i = 0; i < PUTS; i++)
        cr_assert(!all[i].base.op && all[i].ended == 1 && all[i].status == 0);
    cr_assert(window.ring.entries == 0);
}

/* A put that needs room in the ring does not delay those that do not. */
Test(window, a_full_ring_is_not_a_full_window)
{
    setup(1);
    struct put *full = &all[1], *other = &all[2];
    full->piece_bytes = LARGEST;
    full->pieces = WINDOW;
    other->piece_bytes = other->pieces = 1;
    window_post(&window, &full->base, &full->op, WINDOW, make);
    cr_assert(!full->base.made && !window_is_full(&window));
    window_post(&window, &other->base, &other->op, WINDOW, make);
    cr_assert(other->base.made && other->base.pending == 1);
    cr_assert(window_pump(&window, WINDOW, make) == 0);
    window_count(&window, 1);
    cr_assert(window_pump(&window, WINDOW, make) == 1);
}

/* An error ends a put once its pieces have been counted. */
Test(window, a_failed_put_makes_no_more_pieces)
{
    setup(1);
    struct put *put = &all[0];
    put->piece_bytes = 1;
    put->pieces = 100;
    window_post(&window, &put->base, &put->op, 4, make);
    cr_assert(window.made == 4);
    put->base.error = -ESTALE;
    window_pump(&window, 100, make);
    cr_assert(window.made == 4 && put->ended == 0);
    window_count(&window, 4);
    cr_assert(put->ended == 1 && put->status == -ESTALE);
}

Test(window, a_stopped_put_that_has_not_begun_makes_nothing)
{
    setup(1);
    struct put *begun = &all[0], *behind = &all[FLOWS]; /* of one flow */
    begun->pieces = behind->pieces = 10;
    begun->piece_bytes = behind->piece_bytes = 1;
    window_put_stop(NULL, (struct driver_put *)begun, -ESTALE); /* not in flight */
    window_post(&window, &begun->base, &begun->op, 4, make);
    window_post(&window, &behind->base, &behind->op, 4, make);
    window_put_stop(NULL, (struct driver_put *)begun, -ESTALE);
    window_put_stop(NULL, (struct driver_put *)behind, -ESTALE);
    cr_assert(behind->ended == 0, "progress() tells");
    window_pump(&window, 100, make);
    cr_assert(behind->ended == 1 && behind->status == -ESTALE);
    cr_assert(window.made == 10);
    window_count(&window, 10);
    cr_assert(begun->ended == 1 && begun->status == 0);
}

static void count_lost(void *context, struct driver_peer *peer, uint64_t flow, uint32_t count)
{
    cr_assert(lost[flow] == 0, "flow %u is reported twice", (unsigned)flow);
    lost[flow] = count;
}

Test(window, a_lost_peer_ends_all)
{
    const struct driver_events events = {.puts_lost = count_lost};
    for (unsigned seed = 1; seed < 200; seed++) {
        uint32_t expected[FLOWS] = {0};
        setup(seed);
        for (unsigned i = 0; i < 200; i++)
            step();
        for (uint64_t n = window.counted; n < window.made; n++)
            expected[window_piece(&window, n)->flow] += window_piece(&window, n)->done;
        bool running[PUTS];
        for (unsigned i = 0; i < PUTS; i++)
            running[i] = all[i].base.op;
        memset(lost, 0, sizeof(lost));
        struct put flushing = {.op.done = done};
        flushes_push(&window.flushes, &flushing.op, window.made);
        window_fail(&window, &events, NULL, seed % 4 == 0, -EHOSTDOWN);
        for (unsigned i = 0; i < PUTS; i++)
            cr_assert(!running[i] || (all[i].ended == 1 && all[i].status == -EHOSTDOWN));
        for (unsigned i = 0; i < FLOWS; i++)
            cr_assert(lost[i] == (seed % 4 == 0 ? 0 : expected[i]));
        cr_assert(flushing.ended == 1 && flushing.status == -EHOSTDOWN);
        cr_assert(!window_next_put(&window) && window.counted == window.made);
    }
}
