/*
 * Which steps of a chain wait for earlier ones. The compiler of a plan decides it, from the bytes
 * that each step reads and writes: a step that reads what an earlier one writes, or writes what an
 * earlier one reads or writes, comes after it, whichever ways the two go. Steps that touch nothing
 * in common go on side by side.
 *
 * A chain has one kind of waiting: a step that waits, waits until all steps before it are done. So
 * the answer for a step is whether it waits, and whether that is enough: a put may be done (its
 * source is free) before its data have landed.
 *
 * Takes n log n in the steps of a chain. Layouts that cannot be told apart with little work count as
 * overlapping: such a step waits without need.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/layout.h"

#define ORDER_NOTHING UINT32_MAX

struct order_bytes {
    uint64_t space; /* addresses mean something within it */
    uint64_t base;  /* of the layout */
    const struct layout *layout;
};

/* A put, a notification, both, or neither (a wait). */
struct order_step {
    bool put, notify;
    uint64_t way;                      /* where it goes */
    struct order_bytes source, target; /* of a put */
    bool ahead;   /* its source may be read while steps before it are under way */
    bool lands;   /* when it is done, it has landed */
    bool keeps;   /* what goes the same way after it lands after it */
    bool settles; /* what has landed is yet to be copied to where it belongs */

    /* The answer. `landed`: besides, what was put the same way as these steps, and before this one,
     * has landed (memory that this one reads; memory that it writes); ORDER_NOTHING: no need. */
    bool waits;
    uint32_t landed[2];
    bool settled;   /* and has been copied */
    uint32_t after; /* that has bytes in common with it; ORDER_NOTHING: it waits for none in
                       particular */
};

/* Of all ways. */
struct order_rules {
    bool ordered; /* steps that go the same way land in order, so the source of one was read by the
                     time that a later one lands; not what is gathered on its way: see `keeps` */
    bool serial;  /* a step is done before a later one that goes the same way begins */
};

/* 0 or -ENOMEM. */
int order_steps(const struct order_rules *rules, struct order_step *steps, uint32_t count);
