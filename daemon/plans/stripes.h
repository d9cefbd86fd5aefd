/*
 * Dividing a put among rails, so that all end at the same time:
 *
 *   share = (duration - latency) * rate, for the duration at which the shares add up to the put
 *
 * The put is complete once the rails of the further stripes have confirmed them, which takes up to
 * twice their latency: a put for which dividing does not pay with that stays whole.
 */
#pragma once

#include <stdint.h>

enum {
    STRIPES_MAX = 8,             /* of a put, at most this many rails */
    STRIPE_BYTES_MIN = 64 << 10, /* of a share */
    STRIPE_ALIGN_BYTES = 4096,   /* where shares end */
};

struct stripe {
    double latency_ns, bytes_per_ns; /* of its rail */
    uint64_t bytes;                  /* the result; 0: the rail has no share */
};

/* Sets the shares. The first rail is the put's own: it gets all, or what the others leave. */
void stripes_divide(struct stripe *stripes, unsigned count, uint64_t bytes);
