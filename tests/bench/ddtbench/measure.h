/*
 * measure: one way of moving one pattern: checked, then timed. Both programs are measured by this
 * code, through the same three calls.
 */
#pragma once

#include "tests/bench/ddtbench/pattern.h"
#include "tests/bench/ddtbench/pieces.h"
#include "tests/bench/ddtbench/side.h"

/* Who measures what, where. */
struct bench {
    struct side *side;
    int me;
    char *area;
    double seconds;  /* for each way of each pattern */
    bool check_gaps; /* checks that nothing outside the pattern is written */
    uint64_t value;  /* what is sent next */
    struct pattern pattern;
    struct pieces send, receive;
};

/*
 * Moves the pattern: send() and receive() in a ping-pong, all of an exchange in swap(); `half`:
 * which half of the area is sent from. The data is complete before send() or swap(), and has
 * arrived when receive() or swap() returns. A program that must complete a send before the next one
 * does so in settle(), at the end of a round trip. Each ends the program if it fails.
 */
struct mover {
    void (*send)(void *context);
    void (*receive)(void *context);
    void (*settle)(void *context); /* may be NULL */
    void (*swap)(void *context, int half);
    void *context;
};

void bench_begin(struct bench *bench, uint32_t number);
void bench_end(struct bench *bench);

/* The other rank's data arrives, all of it, and nothing else changes; else prints what is wrong on
 * stderr and ends the program. Collective. */
void bench_check(struct bench *bench, const struct mover *mover, const char *what, bool gaps);

/* Both directions, or both halves of an exchange. Collective. */
void bench_round(struct bench *bench, const struct mover *mover);

struct timing {
    double one_way_us; /* median */
    double least_us;
    uint64_t samples;
    uint64_t starts; /* starts before, until plans had tuned themselves; 0: nothing to tune */
    struct distance before, after;
};

struct timing bench_time(struct bench *bench, const struct mover *mover);

/* One line of JSON to stdout, at rank 0. */
void bench_report(const struct bench *bench, const char *how, const char *way,
                  const struct timing *timing);
