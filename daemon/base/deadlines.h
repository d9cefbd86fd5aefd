/* Deadlines of many objects, with one timer. A deadline is a member of its object, so that setting
 * one cannot fail. All calls are for the loop's thread. */
#pragma once

#include <stdint.h>

#include "daemon/base/heap.h"
#include "daemon/base/loop.h"

/* Zeroed: not set. */
struct deadline {
    struct heap_node node; /* by time in ns */
    void (*expired)(void *context);
    void *context;
};

struct deadlines {
    struct loop *loop;
    struct loop_timer *timer;
    struct heap heap;
    uint64_t timer_ns; /* for which the timer is set; UINT64_MAX: it is not */
};

int deadlines_init(struct deadlines *deadlines, struct loop *loop); /* -ENOMEM */
/* Those that are left do not expire. Zeroed: a no-op. */
void deadlines_deinit(struct deadlines *deadlines);

/* Calls expired(context) once, at that time of clock_now_ns() or soon after; UINT64_MAX: never.
 * Replaces an earlier setting. expired() may set and clear any deadline, and free the object. */
void deadline_set(struct deadlines *deadlines, struct deadline *deadline, uint64_t at_ns,
                  void (*expired)(void *context), void *context);
/* The same, unless it is set to an earlier time. */
void deadline_advance(struct deadlines *deadlines, struct deadline *deadline, uint64_t at_ns,
                      void (*expired)(void *context), void *context);
/* Does nothing if it is not set. */
void deadline_clear(struct deadlines *deadlines, struct deadline *deadline);
