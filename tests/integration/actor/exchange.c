/* More patterns of checked transfers: back and forth, and all with all. */
#include <errno.h>

#include "tests/integration/actor/actor.h"

/* repeat PLAN COUNT: COUNT starts, 0: until the next line. ok COUNT */
static int repeat(struct actor *actor, const struct words *words)
{
    struct tca_plan *plan = word_plan(actor, words, 1);
    uint64_t count = word_number(words, 2), done = 0;
    int r = 0;
    while (r == 0 && (count == 0 ? !line_waits() : done < count)) {
        r = tca_start(plan);
        if (r == 0)
            r = tca_wait(plan, TCA_DEFAULT);
        done += r == 0;
    }
    if (r < 0)
        return say_error(r, "%llu %s", (unsigned long long)done, tca_error_text());
    return say("%llu", (unsigned long long)done);
}

/* listen RANK SLOT: takes notifications until the next line. ok COUNT */
static int listen_to(struct actor *actor, const struct words *words)
{
    uint32_t rank = (uint32_t)word_number(words, 1), slot = (uint32_t)word_number(words, 2);
    uint64_t count = 0;
    int r = 0;
    while ((r == 0 || r == -ETIMEDOUT) && !line_waits()) {
        r = tca_notified_wait(actor->session, rank, slot, 1000000);
        count += r == 0;
    }
    if (r < 0 && r != -ETIMEDOUT)
        return say_error(r, "%llu %s", (unsigned long long)count, tca_error_text());
    return say("%llu", (unsigned long long)count);
}

static uint8_t *place(const struct actor *actor, const struct words *words, size_t index)
{
    return (uint8_t *)tca_region_address(word_region(actor, words, index)) +
           word_number(words, index + 1);
}

/* echo PLAN REGION OFFSET SHAPE RANK SLOT REGION OFFSET SHAPE COUNT: sends, and checks that the
 * other process puts the same data back into the second place. ok COUNT */
static int echo(struct actor *actor, const struct words *words)
{
    struct tca_plan *plan = word_plan(actor, words, 1);
    struct shape out = word_shape(words, 4), in = word_shape(words, 9);
    uint32_t rank = (uint32_t)word_number(words, 5), slot = (uint32_t)word_number(words, 6);
    uint64_t count = word_number(words, 10);
    for (uint64_t i = 0; i < count; i++) {
        shape_fill(place(actor, words, 2), out, i);
        int r = tca_start(plan);
        if (r == 0)
            r = tca_notified_wait(actor->session, rank, slot, TCA_DEFAULT);
        if (r == 0)
            r = tca_wait(plan, TCA_DEFAULT);
        if (r < 0)
            return say_error(r, "%llu %s", (unsigned long long)i, tca_error_text());
        uint64_t right = shape_check(place(actor, words, 7), in, i);
        if (right != shape_bytes(in))
            return say_error(-EBADMSG, "%llu byte %llu of %llu is wrong", (unsigned long long)i,
                             (unsigned long long)right, (unsigned long long)shape_bytes(in));
    }
    return say("%llu", (unsigned long long)count);
}

/* The contents that rank `from` sends to rank `to` in this round. */
static uint64_t seed_of(uint64_t round, uint32_t from, uint32_t to)
{
    return (round * 64 + from) * 64 + to;
}

static int run(struct tca_plan *plan)
{
    int r = tca_start(plan);
    return r == 0 ? tca_wait(plan, TCA_DEFAULT) : r;
}

static int hear(struct actor *actor, uint32_t slot)
{
    int r = 0;
    for (uint32_t rank = 0; r == 0 && rank < tca_size(actor->session); rank++)
        if (rank != tca_rank(actor->session))
            r = tca_notified_wait(actor->session, rank, slot, TCA_DEFAULT);
    return r;
}

/* exchange PLAN ACK SOURCE TARGET SHAPE PART_BYTES COUNT: PLAN puts part r of the source into part
 * (our rank) of rank r's target and notifies its slot 0; ACK notifies slot 1 of all. ok COUNT */
static int exchange(struct actor *actor, const struct words *words)
{
    struct tca_plan *plan = word_plan(actor, words, 1), *ack = word_plan(actor, words, 2);
    uint8_t *source = tca_region_address(word_region(actor, words, 3));
    const uint8_t *target = tca_region_address(word_region(actor, words, 4));
    struct shape shape = word_shape(words, 5);
    uint64_t part = word_number(words, 6), count = word_number(words, 7);
    uint32_t me = tca_rank(actor->session), size = tca_size(actor->session);
    for (uint64_t round = 0; round < count; round++) {
        for (uint32_t rank = 0; rank < size; rank++)
            shape_fill(source + rank * part, shape, seed_of(round, me, rank));
        int r = run(plan);
        if (r == 0)
            r = hear(actor, 0);
        for (uint32_t rank = 0; r == 0 && rank < size; rank++)
            if (rank != me && shape_check(target + rank * part, shape, seed_of(round, rank, me)) !=
                                  shape_bytes(shape))
                return say_error(-EBADMSG, "%llu from rank %u", (unsigned long long)round, rank);
        if (r == 0)
            r = run(ack);
        if (r == 0)
            r = hear(actor, 1);
        if (r < 0)
            return say_error(r, "%llu %s", (unsigned long long)round, tca_error_text());
    }
    return say("%llu", (unsigned long long)count);
}

const struct command exchange_commands[] = {
    {"repeat", 2, repeat},
    {"listen", 2, listen_to},
    {"echo", 10, echo},
    {"exchange", 7, exchange},
    {NULL},
};
