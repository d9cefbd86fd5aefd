/*
 * The sender's side of a link that can break. Puts are cut into pieces, which are numbered and kept
 * until the peer has counted them: pieces that were lost with a connection are sent again, from
 * where their bytes are. These are in the source, until the put completes, or in a ring of bytes.
 * The count is what gives room: in the window, and in the ring, of which the peer may have a
 * mirror.
 *
 * The driver makes, sends and counts the pieces; this is what follows for the puts and flushes.
 */
#pragma once

#include <errno.h>

#include "drivers/driver.h"
#include "drivers/flows.h"
#include "drivers/flushes.h"
#include "proto/wait.h"

/* ---- the ring ---- */

enum { WINDOW_RING_ALIGN = 64 };

/* Entries are freed in the order in which they were made. Each is contiguous: the next one starts
 * at offset 0 if the largest would not fit behind it. So both ends can compute all offsets. */
struct window_ring {
    uint32_t bytes, largest;
    uint32_t head, tail; /* offsets of the next entry and of the oldest */
    uint32_t entries;
};

/* The offset of the entry after one at `offset`. */
static inline uint32_t window_ring_after(uint32_t offset, uint32_t length_bytes, uint32_t largest,
                                         uint32_t ring_bytes)
{
    const uint32_t next =
        offset + ((length_bytes + WINDOW_RING_ALIGN - 1) & ~(uint32_t)(WINDOW_RING_ALIGN - 1));
    return next + largest > ring_bytes ? 0 : next;
}

static inline bool window_ring_fits(const struct window_ring *ring, uint32_t length_bytes)
{
    return ring->entries == 0 || ring->tail < ring->head || ring->head + length_bytes <= ring->tail;
}

/* ---- puts and pieces ---- */

/* Embedded in a driver's put. */
struct window_put {
    struct flow_put flow; /* queued until all its pieces are made */
    unsigned cost;        /* of a piece, in the unit of budgets */
    bool stale;           /* its target is gone: for use by the driver */
    /* What a start moves: packed bytes `from` .. `end` of the source, to positions in the target
     * that are higher by `shift`. */
    uint64_t from_bytes, end_bytes, shift_bytes;
    /* of the current start */
    struct driver_op *op; /* NULL: not running */
    uint64_t made_bytes;  /* position in the source: the bytes before it are in pieces */
    uint32_t pending; /* pieces whose bytes are in the source, and what else the driver waits for */
    bool made;        /* no more pieces will be made */
    int error;        /* 0, or what it will complete with; stops making pieces */
};

/* The first member of a driver's pieces. */
struct window_piece {
    struct window_put *put; /* completes with this piece; NULL: does not wait for it */
    uint64_t flow;
    bool done;        /* the last piece of a put that has completed */
    uint32_t offset;  /* in the ring */
    uint32_t in_ring; /* bytes */
};

struct window {
    struct flows flows; /* puts of which pieces are to be made */
    struct flushes flushes;
    void *pieces;
    uint32_t size, piece_bytes; /* number of pieces, a power of 2; bytes of each */
    uint64_t made, counted;     /* pieces */
    uint64_t asked;             /* the driver has asked the peer for a count up to here, */
    bool ask;                   /* and is to ask for one of all that was made */
    struct window_ring ring;
};

static inline struct window_piece *window_piece(const struct window *window, uint64_t number)
{
    return (struct window_piece *)((char *)window->pieces +
                                   (number & (window->size - 1)) * window->piece_bytes);
}

static inline bool window_is_full(const struct window *window)
{
    return window->made - window->counted >= window->size;
}

/* The next piece, to be filled in, with so many bytes of the ring at its offset. NULL: no room. */
static inline struct window_piece *window_next(struct window *window, uint32_t in_ring)
{
    if (window_is_full(window) || (in_ring > 0 && !window_ring_fits(&window->ring, in_ring)))
        return NULL;
    struct window_piece *piece = window_piece(window, window->made);
    *piece = (struct window_piece){.offset = window->ring.head, .in_ring = in_ring};
    return piece;
}

/* Adds that piece. */
static inline void window_add(struct window *window, const struct window_piece *piece)
{
    struct window_ring *ring = &window->ring;
    if (piece->put)
        piece->put->pending++;
    if (piece->in_ring > 0) {
        ring->entries++;
        ring->head = window_ring_after(ring->head, piece->in_ring, ring->largest, ring->bytes);
    }
    window->made++;
}

/* ---- completion ---- */

/* Completes the put if it waits for nothing more. */
static inline void window_put_check(struct window_put *put)
{
    struct driver_op *op = put->op;
    if (!op || !put->made || put->pending > 0)
        return;
    put->op = NULL;
    op->done(op, put->error);
}

/* The peer has counted so many pieces: at least as many as before, at most those that were made. */
void window_count(struct window *window, uint64_t counted);

/* driver_ops.peer_flush() of a peer that is there. True: the operation waits, and progress() has to
 * ask for a count if `ask` says so. */
static inline bool window_flush(struct window *window, struct driver_op *op)
{
    const bool idle = window->counted == window->made;
    if (idle && !op->probe) {
        op->done(op, 0);
        return false;
    }
    /* A probe of an idle window waits for the piece that asks. */
    flushes_push(&window->flushes, op, window->made + idle);
    window->ask |= idle || window->asked < window->made;
    return true;
}

/* The peer is lost: completes all puts and flushes with the error. told: the owner needs no report
 * on puts that have completed and may not have arrived. */
void window_fail(struct window *window, const struct driver_events *events,
                 struct driver_peer *peer, bool told, int error);

/* ---- making pieces ---- */

/* Makes the next piece of a put: 0, -EAGAIN (no room for it, maybe for others) or another error (no
 * room for any). Sets made with the last. */
typedef int window_make(struct window_put *put);

enum { WINDOW_PIECE_COST = 256 }; /* of a piece, in bytes that its flow moves */

static inline unsigned window_spend(unsigned budget, const struct window_put *put)
{
    return put->cost < budget ? budget - put->cost : 0;
}

/* See driver_ops.put_part(). */
static inline void window_part(struct window_put *put, const struct driver_part *part)
{
    put->from_bytes = part->source_at_bytes;
    put->end_bytes = part->source_at_bytes + part->bytes;
    put->shift_bytes = part->target_at_bytes - part->source_at_bytes; /* modulo 2^64 */
}

/* Starts a put. The caller has checked the peer, and sees to it that progress() pumps. */
static inline void window_post(struct window *window, struct window_put *put, struct driver_op *op,
                               unsigned budget, window_make *make)
{
    int r = flows_busy(&window->flows, &put->flow) ? -EAGAIN : 0;
    op->posted_ns = 0;
    put->op = op;
    put->made_bytes = put->from_bytes;
    put->made = false;
    put->error = 0;
    for (; r == 0 && budget > 0 && !put->made; budget = window_spend(budget, put))
        r = make(put);
    if (put->made)
        window_put_check(put);
    else
        flows_push(&window->flows, &put->flow);
}

/* driver_ops.put_stop of drivers whose puts begin with a window_put. */
void window_put_stop(struct driver *driver, struct driver_put *put, int error);

static inline struct window_put *window_next_put(const struct window *window)
{
    struct flow_put *flow = flows_next(&window->flows);
    return flow ? (struct window_put *)((char *)flow - offsetof(struct window_put, flow)) : NULL;
}

/* Makes pieces of the queued puts, in turn. Returns their number. */
static inline int window_pump(struct window *window, unsigned budget, window_make *make)
{
    const struct window_put *stuck = NULL; /* the first put without room since the last piece */
    struct window_put *put;
    int pieces = 0, r = 0;
    while (budget > 0 && (r == 0 || r == -EAGAIN) && (put = window_next_put(window)) &&
           put != stuck) {
        const uint64_t before = put->made_bytes;
        r = put->error < 0 ? 0 : make(put);
        if (r < 0) {
            stuck = stuck ? stuck : put;
            flows_turn(&window->flows);
            continue;
        }
        pieces++;
        stuck = NULL;
        budget = window_spend(budget, put);
        flows_spend(&window->flows, put->made_bytes - before + WINDOW_PIECE_COST);
        put->made |= put->error < 0;
        if (!put->made)
            continue;
        flows_remove(&window->flows, &put->flow);
        put->op->posted_ns = clock_now_ns();
        window_put_check(put);
    }
    return pieces;
}
