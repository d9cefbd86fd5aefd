/*
 * Which of a few routes is the fastest for the starts of a plan (tune.h), where a change of the
 * route takes its time: the starts of a block take one; when the block is over, its data is to
 * arrive before another route is taken, so that a route that only buffers does not seem fast, and
 * starts stay in order. Says what is to be done; the caller does it, and reports.
 *
 *   MOVES --moved--> RUNS --block over--> DRAINS --arrived--> MOVES, until one route is left: OVER
 *
 * Pure: no clock, no allocation, no system call, no plan.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/plan/tune.h"

enum {
    ROUTE_LATE_MAX = 16, /* attempts to let data arrive in time */
};

struct route_choose {
    enum {
        ROUTE_OVER,   /* or not begun */
        ROUTE_MOVES,  /* until the next starts take `route` */
        ROUTE_RUNS,   /* starts are counted */
        ROUTE_DRAINS, /* until the data of the block has arrived */
    } state;
    unsigned route;    /* that starts take, or are to take */
    bool found;        /* OVER: it is the fastest; else the trial was given up */
    uint64_t ended_ns; /* the block */
    uint32_t late;     /* attempts, of this block */
    struct tune tune;
};

/* What the caller is to do. */
enum route_order {
    ROUTE_GO_ON, /* nothing */
    ROUTE_DRAIN, /* let the data of earlier starts arrive: then route_choose_arrived(), or
                    route_choose_late() */
    ROUTE_TAKE,  /* `route`: then route_choose_moved() */
    ROUTE_END,   /* `route`, for good */
};

/* At least 2 routes, of which `favourite` stays unless another is clearly faster. */
enum route_order route_choose_begin(struct route_choose *choose, unsigned routes,
                                    unsigned favourite, uint64_t seed);
/* Of 2 routes, the favourite, which starts take already, is tried first. */
enum route_order route_choose_begin_here(struct route_choose *choose, unsigned favourite,
                                         uint64_t seed);
/* No trial: starts take `from`, and are to take `to` once their data has arrived; found stays
 * false. */
void route_choose_only(struct route_choose *choose, unsigned from, unsigned to);
/* The trial is over, and this route is taken. */
void route_choose_give_up(struct route_choose *choose, unsigned route);
/* A start begins. */
enum route_order route_choose_start(struct route_choose *choose, uint64_t now_ns);
/* The data of the block took this long after its last start. */
enum route_order route_choose_arrived(struct route_choose *choose, uint64_t late_ns);
/* It has not arrived in time. GO_ON: at the end of the next start, another attempt. */
enum route_order route_choose_late(struct route_choose *choose);
/* Whether starts take the route now; if not, it does not lead to the targets. */
enum route_order route_choose_moved(struct route_choose *choose, bool there);
