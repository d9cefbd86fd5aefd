/* Pairs of hca's instances in processes whose queue pairs fail and are replaced. For tests with a
 * device. */
#pragma once

#include "tests/unit/drivers/hca_pair.h"

static unsigned broken;

static inline void peer_broken(void *context, struct driver_peer *peer, int error)
{
    cr_assert(error == -ENETDOWN);
    broken++;
}

static inline void setup_breaks(void)
{
    setup();
    broken = 0;
    sender.driver->events.peer_broken = receiver.driver->events.peer_broken =
        stranger.driver->events.peer_broken = peer_broken;
}

static inline void stop(struct driver_peer *peer)
{
    hca_peer_stop((struct hca_peer *)peer);
}

/* Until one end has noticed. */
static inline void wait_until_broken(const struct pair *pair)
{
    cr_assert(pump_until(pair->from, &receiver, &broken, 1));
    broken = 0;
}

/* Connected, and each put has run: so its landing is known. */
static inline void pair_ready(struct pair *pair)
{
    pair_open(pair, &sender, PAIR, 1);
    join(pair);
    land(pair, 1);
    run(pair, 1);
}

/* Starts one kind. */
static inline void start_kind(struct pair *pair, unsigned kind)
{
    op_init(&pair->ops[kind]);
    cr_assert(pair->from->driver->ops->put_post(pair->from->driver, pair->puts[kind],
                                                &pair->ops[kind].op) == 0);
}

static inline struct hca_peer *peer_of(struct driver_peer *peer)
{
    return (struct hca_peer *)peer;
}
