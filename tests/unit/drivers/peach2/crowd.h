/*
 * The drivers of all nodes of a sub-cluster in this process, with boards in separate processes.
 * Every node puts to every node, including itself. Every message has a number in its words, and
 * arrives exactly once, in order and not before its data. The functions use Criterion's assertions.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "tests/unit/drivers/kit.h"
#include "tests/unit/drivers/peach2/rig.h"

struct stream {
    struct driver_peer *peer;
    struct driver_landing *landing;
    struct driver_put *put;
    struct layout *source, *target;
    struct op op;
    uint32_t sent; /* the put that runs, or ran last */
    uint32_t seen; /* at the receiver */
    bool failed;
    bool off; /* nothing more is sent */
};

struct crowd {
    unsigned nodes;
    bool odd; /* layouts that have to be staged */
    struct rig rig;
    struct side sides[PEACH2_NODES];
    struct stream streams[PEACH2_NODES][PEACH2_NODES]; /* from, to */
};

/* One at a time; 16 nodes are cabled as 2 x 8, others as a ring. */
void crowd_open(struct crowd *crowd, unsigned nodes, bool odd);
/* What is under way ends first. */
void crowd_close(struct crowd *crowd);
/* Sends the next message of each pair whose last one has arrived, polls all drivers, and checks
 * arrivals. */
void crowd_round(struct crowd *crowd);
/* Runs until each enabled stream has received `more` further messages. */
void crowd_run(struct crowd *crowd, uint32_t more);
/* Messages received by the slowest stream. */
uint32_t crowd_least(const struct crowd *crowd);
/* Whether messages are in flight or not yet processed. */
bool crowd_under_way(const struct crowd *crowd);
/* The number of failed peers, over all drivers. */
unsigned crowd_downs(const struct crowd *crowd);
