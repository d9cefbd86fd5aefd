/* Pairs of hca's instances in processes, with a put of each kind. For tests with a device. */
#pragma once

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "drivers/hca/hca.h"
#include "tests/unit/drivers/kit.h"

enum { REGION = 1 << 20, PART = REGION / 4, STALE = 0x5a, PAIR = 1 };

/* One for each path: short, writes, writes of blocks, messages. */
static const struct shape shapes[] = {
    {.block = 64, .count = 1, .outer = 1},
    {.block = 100000, .count = 1, .outer = 1},
    {.block = 4096, .count = 20, .stride = 8192, .outer = 1},
    {.block = 8, .count = 5000, .stride = 16, .outer = 1},
};
enum { KINDS = sizeof(shapes) / sizeof(shapes[0]) };

static struct side sender, receiver, stranger;

struct pair {
    struct side *from;
    struct driver_peer *peer, *back;
    uint64_t grant;
    struct layout *layouts[KINDS];
    struct driver_put *puts[KINDS];
    struct driver_landing *landings[KINDS];
    struct op ops[KINDS];
};

/* The puts, for landings with the numbers from `first` on, which are to come. */
static inline void pair_open(struct pair *pair, struct side *from, uint64_t grant, uint32_t first)
{
    *pair = (struct pair){.from = from, .grant = grant};
    cr_assert(tca_hca_seat.peer_new(from->driver, PAIR, &pair->peer) == 0);
    cr_assert(tca_hca_seat.peer_new(receiver.driver, grant, &pair->back) == 0);
    for (uint32_t i = 0; i < KINDS; i++) {
        uint8_t blob[LANDING_MAX_BYTES];
        struct driver_put_info info;
        pair->layouts[i] = shape_layout(&shapes[i]);
        const struct driver_put_args args = {
            .peer = pair->peer,
            .region = from->region,
            .offset_bytes = i * PART,
            .layout = pair->layouts[i],
            .landing = blob,
            .landing_bytes = tca_hca_seat.blob(first + i, first + i, shape_bytes(&shapes[i]), blob),
            .target_layout = pair->layouts[i],
        };
        op_init(&pair->ops[i]);
        cr_assert(from->driver->ops->put_prepare(from->driver, &args, &pair->puts[i], &info) == 0);
    }
}

static inline void land(struct pair *pair, uint32_t first)
{
    for (uint32_t i = 0; i < KINDS; i++) {
        const struct driver_landing_args args = {.region = receiver.region,
                                                 .offset_bytes = i * PART,
                                                 .layout = pair->layouts[i],
                                                 .notify = true,
                                                 .token = i,
                                                 .grant = pair->grant};
        cr_assert(tca_hca_seat.landing_new(receiver.driver, &args, first + i, first + i,
                                           &pair->landings[i]) == 0);
    }
}

static inline void join(struct pair *pair)
{
    side_exchange_offers(pair->from, pair->peer, &receiver, pair->back);
}

static inline void start(struct pair *pair)
{
    for (unsigned i = 0; i < KINDS; i++) {
        op_init(&pair->ops[i]);
        cr_assert(pair->from->driver->ops->put_post(pair->from->driver, pair->puts[i],
                                                    &pair->ops[i].op) == 0);
    }
}

static inline void end(struct pair *pair, int status)
{
    for (unsigned i = 0; i < KINDS; i++) {
        cr_assert(pump_until(pair->from, &receiver, &pair->ops[i].done, 1), "kind %u", i);
        cr_assert(pair->ops[i].status == status, "kind %u: %d", i, pair->ops[i].status);
    }
}

static inline void check_arrived(const struct pair *pair)
{
    cr_assert(pump_until(pair->from, &receiver, &receiver.notified_count, KINDS));
    pump_rounds(pair->from, &receiver, 100);
    cr_assert(receiver.notified_count == KINDS);
    receiver.notified_count = 0;
    for (unsigned i = 0; i < KINDS; i++)
        for (uint64_t n = 0; n < shape_bytes(&shapes[i]); n++) {
            const uint64_t at = i * PART + (uint64_t)shape_place(&shapes[i], n);
            cr_assert(receiver.memory[at] == pair->from->memory[at], "kind %u, byte %lu", i, n);
        }
}

static inline void run(struct pair *pair, uint32_t seed)
{
    fill(pair->from->memory, REGION, seed);
    start(pair);
    end(pair, 0);
    check_arrived(pair);
}

static inline void pair_release(struct pair *pair)
{
    for (unsigned i = 0; i < KINDS; i++) {
        pair->from->driver->ops->put_release(pair->from->driver, pair->puts[i]);
        if (pair->landings[i])
            receiver.driver->ops->landing_free(receiver.driver, pair->landings[i]);
        free(pair->layouts[i]);
    }
    pair->from->driver->ops->peer_disconnect(pair->from->driver, pair->peer);
    receiver.driver->ops->peer_disconnect(receiver.driver, pair->back);
}

static inline void pair_close(struct pair *pair)
{
    pair_release(pair);
    pump_rounds(pair->from, &receiver, 10);
}

static inline void setup(void)
{
    cr_assert(side_open(&sender, HCA_SEAT, 0, REGION) == 0);
    cr_assert(side_open(&receiver, HCA_SEAT, 0, REGION) == 0);
    cr_assert(side_open(&stranger, HCA_SEAT, 0, REGION) == 0);
    memset(receiver.memory, STALE, REGION);
}

static inline void teardown(void)
{
    side_close(&sender);
    side_close(&receiver);
    side_close(&stranger);
}
