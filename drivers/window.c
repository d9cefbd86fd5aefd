#include "drivers/window.h"

/* done() may start puts, which adds pieces. */
void window_count(struct window *window, uint64_t counted)
{
    struct window_ring *ring = &window->ring;
    while (window->counted < counted) {
        struct window_piece *piece = window_piece(window, window->counted++);
        struct window_put *put = piece->put;
        if (piece->in_ring > 0) {
            ring->entries--;
            ring->tail =
                window_ring_after(piece->offset, piece->in_ring, ring->largest, ring->bytes);
        }
        if (put) {
            put->pending--;
            window_put_check(put);
        }
    }
    flushes_complete(&window->flushes, window->counted);
}

/* The completed puts of the flow, from this piece on. Each is reported once. */
static uint32_t take_lost(struct window *window, uint64_t first, uint64_t flow)
{
    uint32_t count = 0;
    for (uint64_t n = first; n < window->made; n++) {
        struct window_piece *piece = window_piece(window, n);
        if (!piece->done || piece->flow != flow)
            continue;
        piece->done = false;
        count++;
    }
    return count;
}

static void report_lost(struct window *window, const struct driver_events *events,
                        struct driver_peer *peer)
{
    for (uint64_t n = window->counted; events->puts_lost && n < window->made; n++) {
        const struct window_piece *piece = window_piece(window, n);
        if (piece->done)
            events->puts_lost(events->context, peer, piece->flow,
                              take_lost(window, n, piece->flow));
    }
}

void window_put_stop(struct driver *driver, struct driver_put *driver_put, int error)
{
    struct window_put *put = (struct window_put *)driver_put;
    if (put->op && !put->made && put->made_bytes == put->from_bytes)
        put->error = put->error < 0 ? put->error : error;
}

void window_fail(struct window *window, const struct driver_events *events,
                 struct driver_peer *peer, bool told, int error)
{
    struct window_put *put;
    if (!told)
        report_lost(window, events, peer);
    for (uint64_t n = window->counted; n < window->made; n++) {
        put = window_piece(window, n)->put;
        if (put && put->error == 0)
            put->error = error;
    }
    flushes_fail(&window->flushes, error);
    window_count(window, window->made);
    while ((put = window_next_put(window))) {
        flows_remove(&window->flows, &put->flow);
        put->error = put->error < 0 ? put->error : error;
        put->made = true;
        window_put_check(put);
    }
}
