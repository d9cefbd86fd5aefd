#include "client/plan/tune.h"

enum {
    ROUNDS = 6,          /* of a stage */
    LAST_ROUNDS = 14,    /* of the stage with two candidates */
    HOPELESS_ROUNDS = 2, /* after them, candidates that are HOPELESS times slower are dropped */
};
#define HOPELESS 2.0f
#define CLEARLY  0.98f /* of the favourite's time: another candidate must beat this */

/* splitmix64 */
static uint64_t random_below(struct tune *tune, uint64_t limit)
{
    uint64_t z = tune->random += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (z ^ z >> 31) % limit;
}

static void sort(const float *values, uint32_t count, float *ret_sorted)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = i;
        for (; at > 0 && ret_sorted[at - 1] > values[i]; at--)
            ret_sorted[at] = ret_sorted[at - 1];
        ret_sorted[at] = values[i];
    }
}

float tune_quartile_ns(const struct tune *tune, unsigned candidate)
{
    const struct tune_record *record = &tune->records[candidate];
    const uint32_t count = record->blocks < TUNE_SAMPLES ? record->blocks : TUNE_SAMPLES;
    float sorted[TUNE_SAMPLES];
    sort(record->samples_ns, count, sorted);
    return count > 0 ? sorted[(count - 1) / 4] : 0;
}

/* The favourite seems a little faster than it is. */
static float score(const struct tune *tune, unsigned candidate)
{
    const float quartile_ns = tune_quartile_ns(tune, candidate);
    return candidate == tune->favourite ? quartile_ns * CLEARLY : quartile_ns;
}

/* The remaining candidates, the fastest first. */
static void rank(const struct tune *tune, uint8_t ret_ranked[TUNE_CANDIDATES_MAX])
{
    unsigned count = 0;
    for (unsigned i = 0; i < tune->slot_count; i++) {
        unsigned at = count;
        if (tune->slots[i] == TUNE_DROPPED)
            continue;
        for (; at > 0 && score(tune, ret_ranked[at - 1]) > score(tune, tune->slots[i]); at--)
            ret_ranked[at] = ret_ranked[at - 1];
        ret_ranked[at] = tune->slots[i];
        count++;
    }
}

static void drop(struct tune *tune, unsigned candidate)
{
    for (unsigned i = 0; i < tune->slot_count; i++)
        if (tune->slots[i] == candidate)
            tune->slots[i] = TUNE_DROPPED;
    tune->left--;
}

/* The next stage has half as many slots. */
static void begin_stage(struct tune *tune)
{
    unsigned count = 0;
    for (unsigned i = 0; i < tune->slot_count; i++)
        if (tune->slots[i] != TUNE_DROPPED)
            tune->slots[count++] = tune->slots[i];
    tune->slot_count = (uint8_t)((tune->slot_count + 1) / 2);
    while (count < tune->slot_count)
        tune->slots[count++] = TUNE_DROPPED;
    tune->rounds = 0;
}

static void drop_slow(struct tune *tune)
{
    const bool stage_ends = tune->rounds == (tune->slot_count == 2 ? LAST_ROUNDS : ROUNDS);
    const unsigned most = stage_ends ? (tune->slot_count + 1u) / 2 : tune->left;
    uint8_t ranked[TUNE_CANDIDATES_MAX];
    rank(tune, ranked);
    tune->best = ranked[0];
    while (tune->left > most ||
           (tune->left > 1 && tune->rounds >= HOPELESS_ROUNDS &&
            score(tune, ranked[tune->left - 1]) > HOPELESS * score(tune, ranked[0])))
        drop(tune, ranked[tune->left - 1]);
    if (stage_ends)
        begin_stage(tune);
}

static void shuffle(struct tune *tune)
{
    for (unsigned i = 0; i < tune->slot_count; i++)
        tune->order[i] = (uint8_t)i;
    for (unsigned i = tune->slot_count; i > 1; i--) {
        const unsigned other = (unsigned)random_below(tune, i);
        const uint8_t slot = tune->order[i - 1];
        tune->order[i - 1] = tune->order[other];
        tune->order[other] = slot;
    }
}

static void begin_block(struct tune *tune)
{
    if (tune->turn == tune->slot_count) {
        tune->turn = 0;
        tune->rounds++;
        drop_slow(tune);
        if (tune_settled(tune))
            return;
        shuffle(tune);
    }
    tune->starts = 0;
    tune->length =
        (uint8_t)(1 + tune->stretch * TUNE_COUNTED_MIN +
                  random_below(
                      tune, (uint64_t)tune->stretch * (TUNE_COUNTED_MAX - TUNE_COUNTED_MIN) + 1));
}

/* The time from the last start to this one, unless one of them is the block's first. */
static void note_time(struct tune *tune, uint64_t now_ns)
{
    if (tune->starts >= 2)
        tune->times_ns[tune->starts - 2] = (float)(now_ns - tune->last_ns);
    tune->last_ns = now_ns;
}

/* Per start. */
static float block_ns(const struct tune *tune, uint64_t late_ns)
{
    float sorted[TUNE_STRETCH_MAX * TUNE_COUNTED_MAX], sum_ns = 0;
    const uint32_t all = tune->length - 1, count = tune->stretch > 1 ? all - all / 4 : all;
    sort(tune->times_ns, all, sorted);
    for (uint32_t i = 0; i < count; i++)
        sum_ns += sorted[i];
    return sum_ns / (float)count + (float)late_ns / (float)all;
}

static void end_block(struct tune *tune, uint64_t now_ns, uint64_t late_ns)
{
    const unsigned candidate = tune->slots[tune->order[tune->turn]];
    note_time(tune, now_ns);
    if (candidate != TUNE_DROPPED) {
        struct tune_record *record = &tune->records[candidate];
        record->samples_ns[record->blocks++ % TUNE_SAMPLES] = block_ns(tune, late_ns);
    }
    tune->turn++;
}

void tune_init(struct tune *tune, unsigned candidates, unsigned favourite, unsigned stretch,
               uint64_t seed)
{
    *tune = (struct tune){.random = seed,
                          .slot_count = (uint8_t)candidates,
                          .left = (uint8_t)candidates,
                          .best = (uint8_t)favourite,
                          .stretch = (uint8_t)stretch,
                          .favourite = (uint8_t)favourite};
    for (unsigned i = 0; i < candidates; i++)
        tune->slots[i] = (uint8_t)i;
    if (candidates > 1) {
        shuffle(tune);
        begin_block(tune);
    }
}

void tune_end(struct tune *tune, uint64_t now_ns, uint64_t late_ns)
{
    end_block(tune, now_ns, late_ns);
    begin_block(tune);
}

unsigned tune_start(struct tune *tune, uint64_t now_ns)
{
    if (tune_over(tune))
        tune_end(tune, now_ns, 0);
    if (!tune_settled(tune)) {
        note_time(tune, now_ns);
        tune->starts++;
    }
    return tune_candidate(tune);
}
