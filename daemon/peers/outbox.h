/*
 * The messages of a link to another daemon that it has not acknowledged yet, in their order. They
 * are numbered from 1, on both sides alike, without a word on the wire: a connection neither loses
 * nor reorders any, and the next one goes on behind the last that has arrived.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "daemon/base/loop.h"

/* As much as a connection takes (STREAM_QUEUE_MAX_BYTES), less room for a greeting and heartbeats.
 */
enum { OUTBOX_MAX_BYTES = STREAM_QUEUE_MAX_BYTES - (1 << 20) };

struct kept {
    struct kept *next;
    size_t count;
    uint32_t tag;
    uint8_t bytes[]; /* count */
};

struct outbox {
    struct kept *first, **last;
    uint64_t acknowledged; /* the number of the last message that is not kept any more */
    uint64_t sent;         /* of the last one that is */
    size_t bytes;          /* of all that is kept, with what keeping it costs */
};

void outbox_init(struct outbox *outbox);
void outbox_deinit(struct outbox *outbox);
/* The last one, whose bytes are still to be written; -ENOBUFS, -ENOMEM. */
int outbox_add(struct outbox *outbox, uint32_t tag, size_t count, struct kept **ret_kept);
/* The other side has received as many: forgets them. -EPROTO: it cannot have. */
int outbox_acknowledge(struct outbox *outbox, uint64_t received);
