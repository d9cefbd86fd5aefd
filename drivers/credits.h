/*
 * The receiver's side of a window (window.h): what it has counted, and what of that the sender
 * knows. A report to the sender (a credit) costs both a message. So it is sent for several pieces
 * at a time, before the sender runs out of room, unless the sender asks for it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Initialise with {0}. */
struct credits {
    uint64_t counted;  /* pieces that were processed */
    uint64_t reported; /* the last count that was sent */
    uint64_t bytes;    /* that the next report will free in the sender's ring */
};

static inline void credits_count(struct credits *credits, uint64_t bytes)
{
    credits->counted++;
    credits->bytes += bytes;
}

/* Whether the next report covers so many pieces or bytes. */
static inline bool credits_due(const struct credits *credits, uint64_t pieces, uint64_t bytes)
{
    return credits->counted - credits->reported >= pieces || credits->bytes >= bytes;
}

static inline void credits_reported(struct credits *credits)
{
    credits->reported = credits->counted;
    credits->bytes = 0;
}
