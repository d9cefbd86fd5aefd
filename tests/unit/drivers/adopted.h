/* Two instances of the tcp driver, as in processes, and connections between their peers. */
#pragma once

#include <criterion/criterion.h>

#include "drivers/tcp/adopt.h"
#include "drivers/tcp/tcp.h"
#include "tests/unit/drivers/kit.h"

enum { REGION = 8 << 20, KINDS = 4, PART = 1 << 20, STALE = 0x11 };

static const struct shape shapes[KINDS] = {
    {.block = 8, .count = 1, .outer = 1},
    {.block = 8, .count = 1000, .stride = 24, .outer = 1},
    {.block = 1000000, .count = 1, .outer = 1},
    {.block = 6000, .count = 100, .stride = 6100, .outer = 1},
};
static const uint8_t right[TCP_SECRET_BYTES] = "known to both", wrong[TCP_SECRET_BYTES] = "guessed";

static struct side sender, receiver;

/* NULL: none */
static inline struct tcp_connection *connection_of(const struct driver_peer *peer)
{
    return ((const struct tcp_peer *)peer)->sender.connection;
}

/* One direction between two peers: landings of one with its grant, puts of the other. Each kind has
 * its part of the regions, each direction a half. */
struct pair {
    struct side *from, *to;
    struct driver_peer *peer, *back;
    uint64_t offset_bytes;
    struct layout *layouts[KINDS];
    struct driver_landing *landings[KINDS];
    struct tcp_blob blobs[KINDS];
    struct driver_put *puts[KINDS];
    struct op ops[KINDS];
};

static inline void direction_open(struct pair *pair, uint64_t grant)
{
    const struct driver_ops *ops = pair->from->driver->ops;
    for (unsigned i = 0; i < KINDS; i++) {
        struct driver_put_info info;
        size_t bytes;
        pair->layouts[i] = shape_layout(&shapes[i]);
        const uint64_t at = pair->offset_bytes + i * PART;
        const struct driver_landing_args target = {.region = pair->to->region,
                                                   .offset_bytes = at,
                                                   .layout = pair->layouts[i],
                                                   .notify = true,
                                                   .token = grant,
                                                   .grant = grant};
        cr_assert(ops->landing_new(pair->to->driver, &target, &pair->landings[i], &pair->blobs[i],
                                   &bytes) == 0);
        const struct driver_put_args source = {.peer = pair->peer,
                                               .region = pair->from->region,
                                               .offset_bytes = at,
                                               .layout = pair->layouts[i],
                                               .landing = &pair->blobs[i],
                                               .landing_bytes = bytes,
                                               .target_layout = pair->layouts[i]};
        cr_assert(ops->put_prepare(pair->from->driver, &source, &pair->puts[i], &info) == 0);
    }
}

static inline void pair_open(struct pair *pair, uint64_t grant)
{
    *pair = (struct pair){.from = &sender, .to = &receiver};
    cr_assert(tcp_seat_peer(sender.driver, grant, &pair->peer) == 0);
    cr_assert(tcp_seat_peer(receiver.driver, grant, &pair->back) == 0);
    direction_open(pair, grant);
}

/* The other direction, between the same peers. */
static inline void pair_open_back(struct pair *back, const struct pair *forth, uint64_t grant)
{
    *back = (struct pair){.from = forth->to,
                          .to = forth->from,
                          .peer = forth->back,
                          .back = forth->peer,
                          .offset_bytes = REGION / 2};
    direction_open(back, grant);
}

static inline void direction_close(struct pair *pair)
{
    for (unsigned i = 0; i < KINDS; i++) {
        pair->from->driver->ops->put_release(pair->from->driver, pair->puts[i]);
        pair->to->driver->ops->landing_free(pair->to->driver, pair->landings[i]);
        free(pair->layouts[i]);
    }
}

static inline void pair_close(struct pair *pair)
{
    direction_close(pair);
    pair->from->driver->ops->peer_disconnect(pair->from->driver, pair->peer);
    pair->to->driver->ops->peer_disconnect(pair->to->driver, pair->back);
}

static inline void join(struct pair *pair, const uint8_t *secret)
{
    side_join(&sender, pair->peer, &receiver, pair->back, secret);
}

static inline void begin(struct pair *pair)
{
    for (unsigned i = 0; i < KINDS; i++) {
        op_init(&pair->ops[i]);
        cr_assert(post(pair->from, pair->to, pair->puts[i], &pair->ops[i]) == 0);
    }
}

static inline void end(struct pair *pair, int status)
{
    for (unsigned i = 0; i < KINDS; i++) {
        cr_assert(pump_until(&sender, &receiver, &pair->ops[i].done, 1));
        cr_assert(pair->ops[i].status == status);
    }
}

/* All kinds, and each notification once. */
static inline void check_arrived(const struct pair *pair)
{
    cr_assert(pump_until(&sender, &receiver, &pair->to->notified_count, KINDS));
    pump_rounds(&sender, &receiver, 100);
    cr_assert(pair->to->notified_count == KINDS);
    for (unsigned i = 0; i < KINDS; i++)
        for (uint64_t n = 0; n < shape_bytes(&shapes[i]); n++) {
            const uint64_t at =
                pair->offset_bytes + i * PART + (uint64_t)shape_place(&shapes[i], n);
            cr_assert(pair->to->memory[at] == pair->from->memory[at]);
        }
}

static inline void refill(struct pair *pair, uint32_t seed)
{
    fill(pair->from->memory + pair->offset_bytes, REGION / 2, seed);
    pair->to->notified_count = 0;
}

static inline void run(struct pair *pair, uint32_t seed)
{
    refill(pair, seed);
    begin(pair);
    end(pair, 0);
    check_arrived(pair);
}

static inline void setup(void)
{
    cr_assert(side_open(&sender, TCP_SEAT, 0, REGION) == 0);
    cr_assert(side_open(&receiver, TCP_SEAT, 0, REGION) == 0);
}

static inline void teardown(void)
{
    side_close(&sender);
    side_close(&receiver);
}
