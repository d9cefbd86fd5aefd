#include "proto/ring.h"

#include <criterion/criterion.h>

enum { CAPACITY = 8 };

struct pair {
    struct ring_indexes shared;
    uint64_t entries[CAPACITY];
    struct ring producer, consumer;
};

/* A ring that has already passed `start` entries. */
static void pair_init(struct pair *pair, uint32_t start)
{
    *pair = (struct pair){0};
    atomic_store(&pair->shared.tail, start);
    atomic_store(&pair->shared.head, start);
    ring_init(&pair->producer, &pair->shared, pair->entries, sizeof(*pair->entries), CAPACITY);
    ring_init(&pair->consumer, &pair->shared, pair->entries, sizeof(*pair->entries), CAPACITY);
    pair->producer.mine = pair->producer.theirs = start;
    pair->consumer.mine = pair->consumer.theirs = start;
}

static const uint32_t starts[] = {
    0,
    1,
    CAPACITY - 1,
    CAPACITY,
    INT32_MAX - 3u,
    UINT32_MAX - CAPACITY,
    UINT32_MAX - 3,
    UINT32_MAX - 1,
    UINT32_MAX,
};
#define EACH_START(s) for (size_t s = 0; s < sizeof(starts) / sizeof(*starts); s++)

Test(ring, fills_and_empties_wherever_the_indexes_are)
{
    EACH_START(s)
    {
        struct pair p;
        uint64_t out;
        pair_init(&p, starts[s]);
        for (int round = 0; round < 3; round++) {
            cr_assert_eq(ring_pop(&p.consumer, &out), 0);
            cr_assert_not(ring_readable(&p.consumer));
            for (uint64_t i = 0; i < CAPACITY; i++)
                cr_assert_eq(ring_push(&p.producer, &(uint64_t){100 * round + i}), 0, "start %u",
                             starts[s]);
            cr_assert_eq(ring_push(&p.producer, &(uint64_t){999}), -EAGAIN);
            for (uint64_t i = 0; i < CAPACITY; i++) {
                cr_assert(ring_readable(&p.consumer));
                cr_assert_eq(ring_pop(&p.consumer, &out), 1);
                cr_assert_eq(out, 100 * round + i);
            }
            cr_assert_eq(ring_pop(&p.consumer, &out), 0);
        }
    }
}

Test(ring, every_fill_level_in_turn)
{
    EACH_START(s)
    {
        struct pair p;
        uint64_t in = 0, expected = 0, out;
        pair_init(&p, starts[s]);
        for (uint64_t level = 1; level <= CAPACITY; level++) {
            for (uint64_t i = 0; i < level; i++)
                cr_assert_eq(ring_push(&p.producer, &(uint64_t){in++}), 0);
            for (uint64_t i = 0; i < level; i++) {
                cr_assert_eq(ring_pop(&p.consumer, &out), 1);
                cr_assert_eq(out, expected++);
            }
        }
        cr_assert_eq(in, expected);
    }
}

Test(ring, one_place_becomes_free_after_another)
{
    EACH_START(s)
    {
        struct pair p;
        uint64_t out;
        pair_init(&p, starts[s]);
        for (uint64_t i = 0; i < CAPACITY; i++)
            cr_assert_eq(ring_push(&p.producer, &i), 0);
        for (uint64_t i = CAPACITY; i < 4 * CAPACITY; i++) {
            cr_assert_eq(ring_push(&p.producer, &i), -EAGAIN);
            cr_assert_eq(ring_pop(&p.consumer, &out), 1);
            cr_assert_eq(out, i - CAPACITY);
            cr_assert_eq(ring_push(&p.producer, &i), 0);
        }
    }
}

/* Hostile indexes: too far away for an honest peer. */
static const uint32_t lies[] = {CAPACITY + 1, CAPACITY + 2,          1u << 16,  INT32_MAX,
                                1u << 31,     UINT32_MAX - CAPACITY, UINT32_MAX};

Test(ring, producer_lies)
{
    EACH_START(s)
    {
        for (size_t l = 0; l < sizeof(lies) / sizeof(*lies); l++) {
            struct pair p;
            uint64_t out = 5;
            pair_init(&p, starts[s]);
            atomic_store(&p.shared.tail, starts[s] + lies[l]);
            cr_assert_eq(ring_pop(&p.consumer, &out), -EPROTO, "start %u lie %u", starts[s],
                         lies[l]);
            cr_assert_eq(out, 5);
            cr_assert_eq(atomic_load(&p.shared.head), starts[s], "nothing is consumed");
        }
    }
}

Test(ring, consumer_lies)
{
    EACH_START(s)
    {
        for (size_t l = 0; l < sizeof(lies) / sizeof(*lies); l++) {
            struct pair p;
            pair_init(&p, starts[s]);
            for (uint64_t i = 0; i < CAPACITY; i++)
                cr_assert_eq(ring_push(&p.producer, &i), 0);
            atomic_store(&p.shared.head, starts[s] + CAPACITY - lies[l]);
            cr_assert_eq(ring_push(&p.producer, &(uint64_t){9}), -EPROTO, "start %u lie %u",
                         starts[s], lies[l]);
            cr_assert_eq(atomic_load(&p.shared.tail), starts[s] + CAPACITY, "nothing is produced");
        }
    }
}

/* An index that moved back is detected as soon as it is read. */
Test(ring, producer_takes_back)
{
    struct pair p;
    uint64_t out;
    pair_init(&p, 10);
    cr_assert_eq(ring_push(&p.producer, &(uint64_t){1}), 0);
    cr_assert_eq(ring_pop(&p.consumer, &out), 1);
    atomic_store(&p.shared.tail, 10);
    cr_assert_eq(ring_pop(&p.consumer, &out), -EPROTO);
}

Test(ring, says_what_is_next_and_what_is_left)
{
    EACH_START(s)
    {
        struct pair p;
        uint64_t out = 0;
        pair_init(&p, starts[s]);
        for (int round = 0; round < 2; round++) {
            cr_assert_eq(ring_peek(&p.consumer, &out), 0);
            cr_assert_eq(ring_left(&p.producer), 0);
            for (uint64_t i = 0; i < CAPACITY; i++)
                cr_assert_eq(ring_push(&p.producer, &i), 0);
            for (uint64_t i = 0; i < CAPACITY; i++) {
                cr_assert_eq(ring_left(&p.producer), CAPACITY - (int)i, "start %u", starts[s]);
                cr_assert_eq(ring_peek(&p.consumer, &out), 1);
                cr_assert_eq(out, i);
                cr_assert_eq(ring_left(&p.producer),
                             CAPACITY - (int)i); /* peeking does not remove it */
                cr_assert_eq(ring_pop(&p.consumer, &out), 1);
                cr_assert_eq(out, i);
            }
        }
        atomic_store(&p.shared.head, p.producer.mine + 1);
        cr_assert_eq(ring_left(&p.producer), -EPROTO);
        atomic_store(&p.shared.tail, p.consumer.mine + CAPACITY + 1);
        cr_assert_eq(ring_peek(&p.consumer, &out), -EPROTO);
    }
}
