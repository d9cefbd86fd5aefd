#include "drivers/flushes.h"

void flushes_push(struct flushes *flushes, struct driver_op *op, uint64_t count)
{
    op->next_flush = NULL;
    op->flush_count = count;
    if (flushes->first)
        flushes->last->next_flush = op;
    else
        flushes->first = op;
    flushes->last = op;
}

/* Removes the flushes first, because done() may free its operation and add flushes. */
static void end(struct flushes *flushes, uint64_t count, int status)
{
    struct driver_op *op = flushes->first, *rest = op;
    while (rest && rest->flush_count <= count)
        rest = rest->next_flush;
    flushes->first = rest;
    for (struct driver_op *next; op != rest; op = next) {
        next = op->next_flush;
        op->done(op, status);
    }
}

void flushes_complete(struct flushes *flushes, uint64_t count)
{
    end(flushes, count, 0);
}

void flushes_fail(struct flushes *flushes, int error)
{
    end(flushes, UINT64_MAX, error);
}
