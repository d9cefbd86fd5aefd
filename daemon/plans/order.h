/*
 * Which steps of a chain wait for earlier ones, from the bytes that each step reads and writes: a
 * step that reads what an earlier one writes, or writes what an earlier one reads or writes,
 * follows it, whichever routes the two take. Steps without common bytes run side by side.
 *
 * A chain has one kind of waiting: a step that waits, waits until all earlier steps are done. A put
 * may be done (its source can be reused) before it is complete at the target. So the result for a
 * step is whether it waits, and for what remote completion besides.
 *
 * Takes n log n in the steps of a chain. Layouts that cannot be distinguished with little work
 * count as overlapping: such a step waits without need.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/layout.h"

#define ORDER_NOTHING UINT32_MAX

struct order_bytes {
    uint64_t space; /* address space of `base` */
    uint64_t base;  /* of the layout */
    const struct layout *layout;
};

/* A put, a notification, both, or neither (a wait). */
struct order_step {
    bool put, notify;
    uint64_t route;
    struct order_bytes source, target; /* of a put */
    bool lands;                        /* when it is done, it is complete at the target */
    bool keeps; /* later steps of its route complete at the target after it */

    /* The result. `landed`: steps which, with all earlier ones of their routes, must be complete at
     * the target (memory that this step reads; memory that it writes); ORDER_NOTHING: none.
     * all_landed: those of several routes; then all earlier steps must be. */
    bool waits, all_landed;
    uint32_t landed[2];
    uint32_t after; /* a step with common bytes, for display; ORDER_NOTHING: none */
};

/* Of all routes. */
struct order_rules {
    bool ordered;  /* steps of a route complete at the target in order, and read their sources in
                      that order; unless  gathered: see `keeps` */
    bool serial;   /* a step of a route is done before the next one begins */
    bool crossing; /* two routes lead to the same memory */
};

/* 0 or -ENOMEM. */
int order_steps(const struct order_rules *rules, struct order_step *steps, uint32_t count);
