/*
 * Threads take turns: the session underneath belongs to one at a time. In the order in which they
 * came, for a thread that polls would otherwise leave the others nothing.
 */
#pragma once

#include <stdint.h>

struct turn {
    uint32_t depth; /* calls of the API inside each other: the outermost has the turn */
};

struct turn turn_take(void);
void turn_end(const struct turn *turn);

/* From here to the end of the block. */
#define TAKE_TURN() __attribute__((cleanup(turn_end))) const struct turn turn_ = turn_take()

/* For the outermost call, before each wait for something that another thread may have to bring
 * about: gives the turn to who wants it. Returns how long to wait then until it is passed again. */
int64_t turn_pass(void);
