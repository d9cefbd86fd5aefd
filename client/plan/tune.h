/*
 * Finds the fastest of a few candidates while the application works. Each start uses one candidate;
 * the measure is the time from one start to the next, as the application sees it. The remaining
 * candidates alternate in blocks of several starts, in random order and of random length, so that
 * other plans that tune themselves at the same time, here or at the other end, disturb all
 * candidates alike. A candidate is judged by the lower quartile of its blocks, which outliers do
 * not affect. The slower half is dropped after each stage.
 *
 * With the same seed, order and lengths are the same, whatever is measured. So two processes that
 * start plans of one seed in each iteration try the same candidates in the same iterations, and do
 * not blame each other's slow ones. Each candidate has a slot of the stage, by its number; where
 * the two have dropped different ones, most slots still agree.
 *
 * Where a change of the candidate takes long, blocks are stretched, and the slowest quarter of
 * their starts does not count: other plans that change at the same time hold these up. The caller
 * ends such a block itself, when all its data has arrived: tune_over(), tune_end(). Starts between
 * this end and the next tune_start() do not count, either.
 *
 * Pure: no clock, no allocation, no system call.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
    TUNE_CANDIDATES_MAX = 8,
    TUNE_SAMPLES = 16, /* blocks that a candidate is judged by: the newest */
    TUNE_DROPPED = 255,
    TUNE_STRETCH_MAX = 4,
    TUNE_COUNTED_MIN = 2, /* starts of a block that count, */
    TUNE_COUNTED_MAX = 5, /* times the stretch */
};

struct tune_record {
    float samples_ns[TUNE_SAMPLES]; /* per start */
    uint32_t blocks;                /* so far */
};

struct tune {
    uint64_t random;
    uint8_t slots[TUNE_CANDIDATES_MAX]; /* of this stage: candidates, or TUNE_DROPPED */
    uint8_t slot_count;
    uint8_t order[TUNE_CANDIDATES_MAX]; /* of the slots in this round */
    uint8_t left;                       /* candidates */
    uint8_t best;                       /* of those, at the end of the last round; the favourite */
    uint8_t turn;                       /* index in `order` */
    uint8_t rounds;                     /* in this stage so far */
    uint8_t starts;                     /* of this block so far */
    uint8_t length;                     /* of this block; 0: the first one has not begun */
    uint8_t stretch;                    /* of blocks */
    uint8_t favourite;
    uint64_t last_ns; /* the last start of this block; its first one does not count, as it finds the
                         caches as another candidate has left them */
    float times_ns[TUNE_STRETCH_MAX * TUNE_COUNTED_MAX]; /* from its starts to the next */
    struct tune_record records[TUNE_CANDIDATES_MAX];
};

/* At least 1 candidate. `favourite` stays the choice unless another one is clearly faster. Blocks
 * are `stretch` times as long as usual. */
void tune_init(struct tune *tune, unsigned candidates, unsigned favourite, unsigned stretch,
               uint64_t seed);

/* A start begins at now_ns: returns the candidate for it. Once settled, always the best. */
unsigned tune_start(struct tune *tune, uint64_t now_ns);

static inline bool tune_settled(const struct tune *tune)
{
    return tune->left == 1;
}

/* The candidate of the next start: once settled, and in the slot of one that was dropped, the
 * best. */
static inline unsigned tune_candidate(const struct tune *tune)
{
    const unsigned candidate = tune->slots[tune->order[tune->turn]];
    return tune_settled(tune) || candidate == TUNE_DROPPED ? tune->best : candidate;
}

/* The block has had all its starts. The next tune_start() ends it, or earlier tune_end(): at a
 * start at now_ns; the data of the block's starts has arrived late_ns later. */
static inline bool tune_over(const struct tune *tune)
{
    return !tune_settled(tune) && tune->starts == tune->length;
}
void tune_end(struct tune *tune, uint64_t now_ns, uint64_t late_ns);

/* The lower quartile of a candidate's blocks, per start; 0: none yet. */
float tune_quartile_ns(const struct tune *tune, unsigned candidate);
