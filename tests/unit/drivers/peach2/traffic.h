/* Everybody sends to everybody: messages with a number in every word, each with a notification that
 * carries it. */
#pragma once

#include "tests/unit/drivers/peach2/rig.h"

enum {
    TRAFFIC_SLOTS = 32,   /* messages of a pair under way */
    TRAFFIC_BYTES = 1024, /* of a message */
    TRAFFIC_MEMORY = 2 * PEACH2_NODES * TRAFFIC_SLOTS * TRAFFIC_BYTES,
};

struct traffic {
    struct rig *rig;
    uint32_t sent[PEACH2_NODES][PEACH2_NODES]; /* from, to */
    uint32_t seen[PEACH2_NODES][PEACH2_NODES];
    bool absent[PEACH2_NODES]; /* these take no part */
};

/* One look at every pair: sends what it may up to `goal` messages, checks what has come. Returns
 * how many came. Asserts that they come in order, each once, data first. */
unsigned traffic_round(struct traffic *traffic, uint32_t goal);
/* Until every pair has seen `goal`. */
void traffic_run(struct traffic *traffic, uint32_t goal);
