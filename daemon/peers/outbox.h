/*
 * The messages of a link that the other daemon has not acknowledged yet, in order. Both sides
 * number them from 1. The numbers need not be sent, because a connection neither loses nor reorders
 * messages, and the next connection continues after the last message that has arrived.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "daemon/base/loop.h"

/* What a connection can queue (STREAM_QUEUE_MAX_BYTES), less room for a greeting and heartbeats. */
enum { OUTBOX_MAX_BYTES = STREAM_QUEUE_MAX_BYTES - (1 << 20) };

struct kept {
    struct kept *next;
    size_t count;
    uint32_t tag;
    uint8_t bytes[]; /* count */
};

struct outbox {
    struct kept *first, **last;
    uint64_t acknowledged; /* the number of the last message that is no longer kept */
    uint64_t sent;         /* the number of the last message */
    size_t bytes;          /* of all kept messages, including overhead */
};

void outbox_init(struct outbox *outbox);
void outbox_deinit(struct outbox *outbox);
/* Appends a message, whose bytes the caller fills in. 0, -ENOBUFS or -ENOMEM. */
int outbox_add(struct outbox *outbox, uint32_t tag, size_t count, struct kept **ret_kept);
/* The other side has received so many messages: drops them. -EPROTO: more than were sent, or fewer
 * than before. */
int outbox_acknowledge(struct outbox *outbox, uint64_t received);
