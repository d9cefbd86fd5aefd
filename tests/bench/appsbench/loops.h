/* The exchanges of cases.h by plain loops over memory that both ranks of a node have mapped, and a
 * counter in a line of its own: what remains of an exchange if nothing is in between. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "cases.h"
#include "client/include/tca.h"

struct loops {
    const struct bench_case *one;
    double *mine[2], *theirs[2]; /* arrays, by buffer */
    struct loops_room {
        _Alignas(64) _Atomic uint64_t arrived; /* exchanges of the other rank */
        _Alignas(64) double faces[];           /* packed: two of each buffer */
    } * my_room, *their_room;
    uint64_t done;
};

/* Collective. False: the ranks are on two nodes. */
bool loops_init(struct loops *loops, struct tca *session, const struct bench_case *one,
                double *const arrays[2]);
void loops_deinit(struct loops *loops, struct tca *session);

/* The buffers in turn. Each face is copied to its place in the other's array, or else through
 * packed ones: then each rank strides over its own memory only. */
void loops_exchange(struct loops *loops, bool packs);
