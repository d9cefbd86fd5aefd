/* Numbers for tests: the same seed gives the same numbers everywhere (splitmix64). */
#pragma once

#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

struct random {
    uint64_t state;
};

static inline uint64_t random_next(struct random *random)
{
    uint64_t z = random->state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

/* 0 .. limit - 1; limit > 0. */
static inline uint64_t random_below(struct random *random, uint64_t limit)
{
    return random_next(random) % limit;
}

/* A different seed in each run. */
static inline uint64_t random_seed(void)
{
    uint32_t seed = 1;
    (void)!getrandom(&seed, sizeof(seed), 0);
    return seed;
}

/* How often to repeat a random test, at least 1; see tests/integration/processes.py. */
static inline uint64_t random_rounds(uint64_t count)
{
    const char *factor = getenv("TCA_TEST_ROUNDS");
    const double rounds = factor ? (double)count * atof(factor) : (double)count;
    return rounds < 1 ? 1 : (uint64_t)rounds;
}
