/*
 * Threads take turns, because a session may be used by one thread at a time. Turns are first come,
 * first served; otherwise a polling thread would starve the others.
 */
#pragma once

#include <stdint.h>

struct turn {
    uint32_t depth; /* of nested calls of the API; the outermost one has the turn */
};

struct turn turn_take(void);
void turn_end(const struct turn *turn);

/* Takes the turn until the end of the block. */
#define TAKE_TURN() __attribute__((cleanup(turn_end), unused)) const struct turn turn_ = turn_take()

/* Passes the turn to waiting threads. The outermost call must call it before each wait for
 * something that another thread may have to do. Returns how long the caller may wait before it must
 * pass the turn again. */
int64_t turn_pass(void);
