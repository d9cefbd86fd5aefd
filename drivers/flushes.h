/* The flushes of one peer, oldest first. Each waits until the peer has counted what was sent to it
 * before. A flush is kept in its operation, so that it needs no memory. */
#pragma once

#include "drivers/driver.h"

/* Initialise with {0}. */
struct flushes {
    struct driver_op *first, *last;
};

/* count: at least that of the flush before. */
void flushes_push(struct flushes *flushes, struct driver_op *op, uint64_t count);
/* Completes the flushes that wait for at most this count. */
void flushes_complete(struct flushes *flushes, uint64_t count);
/* Completes all flushes with the error. */
void flushes_fail(struct flushes *flushes, int error);
