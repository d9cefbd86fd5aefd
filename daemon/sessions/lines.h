/* The notification lines of a session: which (rank, slot) has which. The segment has a copy of the
 * table for the session's client (proto/segment.h), which is only written here. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/segment.h"

struct lines {
    struct notify_segment *segment;
    uint32_t count;  /* lines in use: those below */
    uint32_t room;   /* of keys */
    uint32_t bits;   /* of the table's size; 0: there is none */
    uint64_t *keys;  /* by line */
    uint32_t *table; /* line + 1; 0: free */
};

/* What a line costs: itself, and its share of the tables in both memories. */
enum { LINES_BYTES_EACH = 256 };

/* Whether (rank, slot) has a line. */
bool lines_find(const struct lines *lines, uint32_t rank, uint32_t slot, uint32_t *ret_line);
/* Gives (rank, slot), which has none, a line. -ENOMEM; -ENOSPC: all are in use, or the keys have
 * been chosen so that they collide. */
int lines_add(struct lines *lines, uint32_t rank, uint32_t slot, uint32_t *ret_line);
void lines_deinit(struct lines *lines);
