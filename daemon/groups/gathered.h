/*
 * The result of a gather, as the ranks of a node get it: what is long is in a memfd that all of
 * them share.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct caller;
struct session;

struct gathered {
    const uint8_t *data; /* not owned */
    size_t bytes, each;  /* of all ranks, of each */
    int memfd;           /* -1: there is none yet, or the data is short */
    /* The lowest rank whose first same_bytes bytes are not those of rank 0; or 0. */
    uint32_t same_bytes, other;
};

static inline struct gathered gathered_of(const uint8_t *data, uint32_t ranks, size_t each)
{
    return (struct gathered){.data = data, .bytes = ranks * each, .each = each, .memfd = -1};
}

/* Answers the caller, whose session this is. */
void gathered_send(struct gathered *gathered, struct session *session, const struct caller *caller);
void gathered_end(struct gathered *gathered);
