/*
 * Drivers of all nodes of a sub-cluster in this process, over boards in processes of their own:
 * everybody puts to everybody, itself included. Every message has a number, in its words and by its
 * place in the order: none is lost, none comes twice, none before its data. Criterion asserts
 * inside.
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
/* Sends where the last has come, moves all drivers on, checks what has come. */
void crowd_round(struct crowd *crowd);
/* Until every stream that is not off has seen so many more. */
void crowd_run(struct crowd *crowd, uint32_t more);
/* What the slowest of them has seen. */
uint32_t crowd_least(const struct crowd *crowd);
/* Something is on its way, or has not been noticed. */
bool crowd_under_way(const struct crowd *crowd);
/* So many peers were given up, by all. */
unsigned crowd_downs(const struct crowd *crowd);
