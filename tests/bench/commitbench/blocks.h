/*
 * blocks: data of the programs of tests/bench/commit: blocks of doubles at irregular places, in
 * order, no two of them adjacent; and their reports.
 */
#pragma once

#include <stdint.h>

enum { BLOCK_DOUBLES_MAX = 3, BLOCK_GAP_MAX = 4 };

struct blocks {
    uint64_t count;
    uint64_t *lengths; /* in doubles */
    int64_t *offsets;  /* in bytes */
    uint64_t doubles;  /* in all blocks */
};

/* number: 0 or 1, two different lists of blocks of the same length. Ends the program without
 * memory. */
void blocks_init(struct blocks *blocks, uint64_t count, int number);
void blocks_deinit(struct blocks *blocks);
/* The memory that so many blocks need. */
uint64_t blocks_span_bytes(uint64_t count);

/* The phases: made, put into a plan, started for the first time and once more; in ns. */
enum phase { PHASE_LAYOUT, PHASE_PLAN, PHASE_FIRST, PHASE_LATER, PHASES };

struct report {
    uint64_t *samples[PHASES];
    uint64_t room, count;
};

void report_init(struct report *report, uint64_t room);
void report_deinit(struct report *report);
void report_add(struct report *report, const uint64_t phases_ns[PHASES]);
/* The sides described by blocks: one, the other being contiguous; both, each with its own; both,
 * with the same. */
enum sides { SIDES_ONE, SIDES_BOTH, SIDES_SAME };
/* A line of JSON to stdout with the medians. */
void report_say(struct report *report, uint64_t blocks, enum sides sides);

/* "COUNT[,COUNT...]": the numbers, 0 at the end; -1: no such list. */
enum { COUNTS_MAX = 16 };
int counts_parse(const char *text, uint64_t ret_counts[COUNTS_MAX + 1]);
