/*
 * Long and short puts of one session in flight at the same time. Plan p of CROWD (even ones are
 * long, odd ones a word) runs on channel p / 2 and puts a word for each start at both ends of its
 * own part of the target; then it notifies slot p. Every round starts all of them, in an order that
 * both sides know. So the receiver detects data that came too early, too often or not at all, and
 * which starts overtook others.
 */
#include <errno.h>
#include <stdlib.h>

#include "tests/integration/actor/actor.h"

enum { CROWD = 8, WORD = 8 };

/* The order in which they are started in this round. */
static void shuffle(uint64_t round, uint32_t order[CROWD])
{
    uint64_t random = round * 0x9e3779b97f4a7c15u + 1;
    for (uint32_t i = 0; i < CROWD; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        uint32_t at = (uint32_t)(random >> 33) % (i + 1);
        order[i] = order[at];
        order[at] = i;
    }
}

static struct shape shape_of(uint32_t plan, struct shape longs)
{
    return plan % 2 == 0 ? longs : (struct shape){.count = 1, .block_bytes = WORD};
}

static const struct shape last_word = {.count = 1, .block_bytes = WORD};

static uint64_t seed_of(uint64_t round, uint32_t plan)
{
    return round * CROWD + plan;
}

/* The pairs of a long put and a short one on another channel that was started later and was
 * complete before half the time of the long one, by the sender's clock. */
static uint64_t overtaken(struct tca_plan *const *plans)
{
    struct tca_receipt receipts[CROWD];
    uint64_t pairs = 0;
    for (uint32_t plan = 0; plan < CROWD; plan++) {
        if (tca_plan_receipt(plans[plan], &receipts[plan]) < 0)
            return 0;
        if (receipts[plan].seat == TCA_SEAT_CLIENT)
            receipts[plan].taken_ns = receipts[plan].start_ns;
    }
    for (uint32_t slow = 0; slow < CROWD; slow += 2) {
        uint64_t half_ns =
            receipts[slow].taken_ns + (receipts[slow].done_ns - receipts[slow].taken_ns) / 2;
        for (uint32_t quick = 1; quick < CROWD; quick += 2)
            pairs += quick / 2 != slow / 2 && receipts[quick].taken_ns > receipts[slow].taken_ns &&
                     receipts[quick].done_ns < half_ns;
    }
    return pairs;
}

/* crowd FIRST_PLAN SOURCE PART_BYTES LONG_SHAPE ACK_RANK ACK_SLOT COUNT: ok COUNT OVERTAKEN */
static int crowd(struct actor *actor, const struct words *words)
{
    uint64_t first = word_number(words, 1), part = word_number(words, 3),
             count = word_number(words, 7), pairs = 0;
    uint8_t *source = tca_region_address(word_region(actor, words, 2));
    struct shape longs = word_shape(words, 4);
    for (uint64_t round = 0; round < count; round++) {
        uint32_t order[CROWD];
        int r = 0;
        shuffle(round, order);
        for (uint32_t plan = 0; plan < CROWD; plan++) {
            shape_fill(source + plan * part, shape_of(plan, longs), seed_of(round, plan));
            shape_fill(source + (plan + 1) * part - WORD, last_word, seed_of(round, plan));
        }
        for (uint32_t i = 0; r == 0 && i < CROWD; i++)
            r = tca_start(actor->plans[first + order[i]]);
        for (uint32_t plan = 0; r == 0 && plan < CROWD; plan++)
            r = tca_wait(actor->plans[first + plan], TCA_DEFAULT);
        pairs += r == 0 ? overtaken(&actor->plans[first]) : 0;
        if (r == 0)
            r = tca_notified_wait(actor->session, (uint32_t)word_number(words, 5),
                                  (uint32_t)word_number(words, 6), TCA_DEFAULT);
        if (r < 0)
            return say_error(r, "%llu %s", (unsigned long long)round, tca_error_text());
    }
    return say("%llu %llu", (unsigned long long)count, (unsigned long long)pairs);
}

struct arrivals {
    uint32_t place[CROWD]; /* in the order of starts */
    bool here[CROWD];
};

/* -EILSEQ: an earlier start on the same channel has not arrived. */
static int note_order(struct actor *actor, struct arrivals *arrivals, uint32_t plan, bool ordered)
{
    for (uint32_t other = 0; other < CROWD; other++) {
        if (arrivals->here[other] || arrivals->place[other] >= arrivals->place[plan])
            continue;
        bool here = tca_notified_count(actor->session, 0, other) >
                    0; /* checked after the plan's own notification */
        if (ordered && !here && other / 2 == plan / 2)
            return -EILSEQ;
    }
    return 0;
}

/* One notification of each, in any order. */
static int hear_all(struct actor *actor, struct arrivals *arrivals, const uint8_t *target,
                    uint64_t part, struct shape longs, uint64_t round, bool ordered)
{
    for (uint32_t left = CROWD, plan = 0; left > 0; plan = (plan + 1) % CROWD) {
        if (arrivals->here[plan])
            continue;
        int r = tca_notified(actor->session, 0, plan);
        if (r < 0)
            return r;
        if (r == 0)
            continue;
        if ((r = note_order(actor, arrivals, plan, ordered)) < 0)
            return r;
        struct shape shape = shape_of(plan, longs);
        if (shape_check(target + plan * part, shape, seed_of(round, plan)) != shape_bytes(shape) ||
            shape_check(target + (plan + 1) * part - WORD, last_word, seed_of(round, plan)) != WORD)
            return -EBADMSG;
        arrivals->here[plan] = true;
        left--;
    }
    for (uint32_t plan = 0; plan < CROWD; plan++)
        if (tca_notified_count(actor->session, 0, plan) != 0)
            return -EEXIST;
    return 0;
}

/* Whether the bytes outside all puts are unchanged. */
static bool guarded(const uint8_t *target, uint64_t part, struct shape longs, uint8_t guard)
{
    uint8_t *inside = calloc(CROWD, part);
    uint64_t at = 0;
    for (uint32_t plan = 0; inside && plan < CROWD; plan++) {
        shape_mark(inside + plan * part, shape_of(plan, longs));
        shape_mark(inside + (plan + 1) * part - WORD, last_word);
    }
    while (inside && at < CROWD * part && (inside[at] || target[at] == guard))
        at++;
    free(inside);
    return inside && at == CROWD * part;
}

/* crowded TARGET PART_BYTES LONG_SHAPE ACK_PLAN COUNT ORDERED GUARD: from rank 0. ORDERED 1: those
 * of a channel must arrive in the order of their starts. Bytes outside the puts must stay GUARD. ok
 * COUNT */
static int crowded(struct actor *actor, const struct words *words)
{
    const uint8_t *target = tca_region_address(word_region(actor, words, 1));
    uint64_t part = word_number(words, 2), count = word_number(words, 5);
    struct shape longs = word_shape(words, 3);
    struct tca_plan *ack = word_plan(actor, words, 4);
    for (uint64_t round = 0; round < count; round++) {
        struct arrivals arrivals = {0};
        uint32_t order[CROWD];
        shuffle(round, order);
        for (uint32_t i = 0; i < CROWD; i++)
            arrivals.place[order[i]] = i;
        int r = hear_all(actor, &arrivals, target, part, longs, round, word_number(words, 6));
        if (r == 0)
            r = tca_start(ack);
        if (r == 0)
            r = tca_wait(ack, TCA_DEFAULT);
        if (r < 0)
            return say_error(r, "%llu %s", (unsigned long long)round, tca_error_text());
    }
    if (!guarded(target, part, longs, (uint8_t)word_number(words, 7)))
        return say_error(-EBADMSG, "a byte that nobody put was written");
    return say("%llu", (unsigned long long)count);
}

const struct command crowd_commands[] = {
    {"crowd", 7, crowd},
    {"crowded", 7, crowded},
    {NULL},
};
