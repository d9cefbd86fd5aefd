/* Counters in memory (tca-signal.h). */
#include "client/include/tca-signal.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "tests/integration/actor/actor.h"

/* Also from 2^63 on. */
static uint64_t value_of(const struct words *words, size_t index)
{
    return strtoull(word(words, index), NULL, 10);
}

static uint64_t *counter_at(struct actor *actor, const struct words *words, size_t first)
{
    struct tca_region *region = word_region(actor, words, first);
    return (uint64_t *)((uint8_t *)tca_region_address(region) + word_number(words, first + 1));
}

/* signal PLAN HANDLE OFFSET VALUE */
static int add_signal(struct actor *actor, const struct words *words)
{
    struct tca_handle target;
    word_bytes(words, 2, target.bytes, sizeof(target.bytes));
    return say_result(tca_plan_signal(word_plan(actor, words, 1), &target, value_of(words, 3),
                                      value_of(words, 4)));
}

/* take PLAN REGION OFFSET VALUE: a step that waits for a counter */
static int take(struct actor *actor, const struct words *words)
{
    return say_result(tca_plan_wait_signal(word_plan(actor, words, 1), counter_at(actor, words, 2),
                                           value_of(words, 4)));
}

/* counter REGION OFFSET COMPARE VALUE: ok 0 or 1 */
static int test_counter(struct actor *actor, const struct words *words)
{
    return say_result(tca_signal_test(actor->session, counter_at(actor, words, 1),
                                      (enum tca_signal_compare)value_of(words, 3),
                                      value_of(words, 4)));
}

/* until REGION OFFSET COMPARE VALUE TIMEOUT */
static int until(struct actor *actor, const struct words *words)
{
    return say_result(tca_signal_wait_until(actor->session, counter_at(actor, words, 1),
                                            (enum tca_signal_compare)word_number(words, 3),
                                            value_of(words, 4), word_timeout_ns(words, 5)));
}

/* add REGION OFFSET VALUE: by the processor */
static int add(struct actor *actor, const struct words *words)
{
    atomic_fetch_add((_Atomic uint64_t *)counter_at(actor, words, 1), word_number(words, 3));
    return say("%s", "");
}

/*
 * Several senders put blocks into one region, each into its own, and add to one counter, which
 * precedes the blocks: sender number i adds 2^(16 i). So one look at the counter says how many
 * blocks of each have come.
 */
enum { SENDERS_MAX = 4, COUNT_BITS = 16 };

static void mark_block(uint8_t *block, uint64_t bytes, uint64_t number)
{
    memcpy(block, &number, sizeof(number));
    memcpy(block + bytes - sizeof(number), &number, sizeof(number));
}

/* emit PLAN REGION OFFSET BYTES COUNT: COUNT starts, of blocks with the numbers from 1 on */
static int emit(struct actor *actor, const struct words *words)
{
    struct tca_plan *plan = word_plan(actor, words, 1);
    uint8_t *block = (uint8_t *)counter_at(actor, words, 2);
    int r = 0;
    for (uint64_t number = 1; r == 0 && number <= word_number(words, 5); number++) {
        mark_block(block, word_number(words, 4), number);
        r = tca_start(plan);
        if (r == 0)
            r = tca_wait(plan, TCA_DEFAULT);
    }
    return say_result(r);
}

/* Whether the block is at least this new, at both ends. */
static bool has_come(const uint8_t *block, uint64_t bytes, uint64_t number)
{
    uint64_t first, last;
    memcpy(&first, block, sizeof(first));
    memcpy(&last, block + bytes - sizeof(last), sizeof(last));
    return first >= number && last >= number;
}

/* watch: without calls of the library */
static int await_more(const struct actor *actor, const struct words *words, const uint64_t *counter,
                      uint64_t seen)
{
    if (strcmp(words->at[0], "collect") == 0)
        return tca_signal_wait_until(actor->session, counter, TCA_SIGNAL_NE, seen, TCA_DEFAULT);
    while (atomic_load((const _Atomic uint64_t *)counter) == seen)
        sched_yield();
    return 0;
}

/* collect REGION OFFSET BYTES SENDERS COUNT [ADDRESS]: until COUNT blocks of each have come, behind
 * the counter or at this address. No more than these may, and none after its signal. ok WAITS */
static int collect(struct actor *actor, const struct words *words)
{
    const uint64_t *counter = counter_at(actor, words, 1);
    const uint64_t bytes = word_number(words, 3), senders = word_number(words, 4),
                   count = word_number(words, 5);
    const uint8_t *blocks = words->count > 6 ? (const uint8_t *)(uintptr_t)word_number(words, 6)
                                             : (const uint8_t *)(counter + 1);
    uint64_t seen = 0, all = 0, waits = 0;
    for (uint64_t i = 0; i < senders && i < SENDERS_MAX; i++)
        all |= count << COUNT_BITS * i;
    while (seen != all) {
        int r = await_more(actor, words, counter, seen);
        if (r < 0)
            return say_result(r);
        seen = atomic_load((const _Atomic uint64_t *)counter);
        waits++;
        for (uint64_t i = 0; i < senders; i++) {
            const uint64_t has = seen >> COUNT_BITS * i & ((1u << COUNT_BITS) - 1);
            const uint8_t *block = blocks + i * bytes;
            if (has > count)
                return say_error(-ERANGE, "%llu signals of sender %llu", (unsigned long long)has,
                                 (unsigned long long)i);
            if (!has_come(block, bytes, has))
                return say_error(-EILSEQ, "block %llu of sender %llu comes after its signal",
                                 (unsigned long long)has, (unsigned long long)i);
        }
    }
    return say("%llu", (unsigned long long)waits);
}

const struct command signal_commands[] = {
    {"signal", 4, add_signal}, {"take", 4, take},     {"counter", 4, test_counter},
    {"until", 5, until},       {"add", 3, add},       {"emit", 5, emit},
    {"collect", 5, collect},   {"watch", 5, collect}, {NULL, 0, NULL}};
