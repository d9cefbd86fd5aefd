/*
 * side: what the two ranks of a program exchange beside the measured traffic, through a page of
 * shared memory, so that all programs are measured alike; and the probe for the current distance of
 * the two processors.
 */
#pragma once

#include <stdint.h>

struct side_shared;

struct side {
    struct side_shared *shared;
    int me;
    uint32_t meetings;
    char *pulled; /* SIDE_PULL_BYTES */
};

#define SIDE_PULL_BYTES 65536

/* Both ranks open the same file, which must exist. Ends the program when that fails. */
void side_open(struct side *side, const char *path, int me);
void side_close(struct side *side);

/* Returns when both have called it. */
void side_meet(struct side *side);
/* Rank 0's number, at both. */
uint64_t side_share(struct side *side, uint64_t number);
/* The larger of both numbers, at both. */
uint64_t side_most(struct side *side, uint64_t number);

/* The distance: a cache line one way in ns, and 64 KiB copied from the other's cache in us.
 * Collective; rank 0's result counts. */
struct distance {
    double line_ns, pull_us;
};
struct distance side_probe(struct side *side);
