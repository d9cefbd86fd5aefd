/*
 * The slots that a session waits for from any rank (tca_notified_wait_any()), each with a queue of
 * the lines that may have notifications. What a wait costs depends on how many have been notified:
 * whoever notifies a line marks it (struct notify_marks), and the others are not looked at.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/segment.h"

struct watch { /* a slot */
    uint32_t slot;
    uint32_t queued;      /* lines in its queue */
    uint32_t first, last; /* of these; nothing if `queued` is 0 */
    struct watch *next;
};

struct watched_line {
    uint32_t rank, slot;
    struct watch *watch; /* of the slot; NULL: none */
    uint32_t next;       /* in its queue */
    bool queued;
};

struct watches {
    struct watch *slots;        /* the one used last comes first */
    struct watched_line *lines; /* all that the session had at the last call of watches_update() */
    uint32_t count, room;       /* of them */
};

/* The watch of a slot: the first time, all of its lines come into its queue. 0, -ENOMEM. */
int watches_find(struct watches *watches, struct notify_segment *segment, uint32_t slot,
                 struct watch **ret_watch);
/* Puts the lines that were marked since the last call into their queues, and new ones. 0,
 * -ENOMEM. */
int watches_update(struct watches *watches, struct notify_segment *segment);

/* Takes the first line from the queue, which has some. */
uint32_t watch_take(struct watches *watches, struct watch *watch);
/* Puts a line into its queue, as the last one, unless it is there. */
void watch_queue(struct watches *watches, uint32_t line);

void watches_end(struct watches *watches);
