/* Each node sends to each: messages with a number in every word, and a notification with that
 * number. */
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

/* Serves every pair once: sends up to `goal` messages as the window allows, and checks arrivals.
 * Returns their number. Asserts that messages arrive in order, each once, after their data. */
unsigned traffic_round(struct traffic *traffic, uint32_t goal);
/* Runs until every pair has received `goal` messages. */
void traffic_run(struct traffic *traffic, uint32_t goal);
