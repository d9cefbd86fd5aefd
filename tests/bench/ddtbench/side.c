#include "tests/bench/ddtbench/side.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tools/tca-bench/work.h"

#define PATIENT_SPINS 20000 /* then the other rank evidently has no processor */
#define LINE_BATCHES  7
#define LINE_ROUNDS   100
#define PULLS         9

struct side_shared {
    _Alignas(128) _Atomic uint32_t arrived[2]; /* barriers that the rank has entered */
    _Alignas(128) _Atomic uint32_t turn;       /* the line that is passed back and forth */
    _Alignas(128) uint64_t number[2];
    _Alignas(4096) char pull[SIDE_PULL_BYTES];
};

static void give_up(const char *path)
{
    fprintf(stderr, "ddt: %s: %s\n", path, strerror(errno));
    exit(1);
}

void side_open(struct side *side, const char *path, int me)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);

    if (fd < 0 || ftruncate(fd, sizeof(struct side_shared)) < 0)
        give_up(path);
    *side = (struct side){.me = me, .pulled = aligned_alloc(4096, SIDE_PULL_BYTES)};
    side->shared =
        mmap(NULL, sizeof(struct side_shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (side->shared == MAP_FAILED || !side->pulled)
        give_up(path);
    memset(side->pulled, 1, SIDE_PULL_BYTES);
    side_meet(side);
}

void side_close(struct side *side)
{
    munmap(side->shared, sizeof(struct side_shared));
    free(side->pulled);
}

/* Until the word has the wanted value. Acquire: pairs with the release of the store that writes
 * it. */
static void wait_for(_Atomic uint32_t *word, uint32_t wanted)
{
    for (uint32_t spins = 1;
         (int32_t)(atomic_load_explicit(word, memory_order_acquire) - wanted) < 0; spins++)
        if (spins % PATIENT_SPINS == 0)
            sched_yield();
}

void side_meet(struct side *side)
{
    uint32_t count = ++side->meetings;

    atomic_store_explicit(&side->shared->arrived[side->me], count, memory_order_release);
    wait_for(&side->shared->arrived[1 - side->me], count);
}

uint64_t side_share(struct side *side, uint64_t number)
{
    side->shared->number[side->me] = number;
    side_meet(side);
    number = side->shared->number[0];
    side_meet(side);
    return number;
}

uint64_t side_most(struct side *side, uint64_t number)
{
    uint64_t other;

    side->shared->number[side->me] = number;
    side_meet(side);
    other = side->shared->number[1 - side->me];
    side_meet(side);
    return number > other ? number : other;
}

/* Rank 0 makes the turn odd, rank 1 even. */
static double line_ns(struct side *side)
{
    _Atomic uint32_t *turn = &side->shared->turn;
    uint32_t count = atomic_load_explicit(turn, memory_order_relaxed);
    uint64_t samples[LINE_BATCHES];

    side_meet(side);
    for (int batch = 0; batch < LINE_BATCHES; batch++) {
        uint64_t start_ns = now_ns();

        for (int n = 0; n < LINE_ROUNDS; n++, count += 2) {
            if (side->me == 0)
                atomic_store_explicit(turn, count + 1, memory_order_release);
            else
                wait_for(turn, count + 1);
            if (side->me == 1)
                atomic_store_explicit(turn, count + 2, memory_order_release);
            else
                wait_for(turn, count + 2);
        }
        samples[batch] = now_ns() - start_ns;
    }
    side_meet(side);
    return (double)median_of(samples, LINE_BATCHES) / (2 * LINE_ROUNDS);
}

/* By plain stores, so that the lines are then in this processor's cache: a long memset() may bypass
 * it. */
static void write_words(char *memory, uint64_t value)
{
    for (uint64_t *word = (uint64_t *)(void *)memory, *end = word + SIDE_PULL_BYTES / 8; word < end;
         word++) {
        *word = value;
        __asm__ volatile("" : : : "memory");
    }
}

static double pull_us(struct side *side)
{
    uint64_t samples[PULLS];

    for (int n = 0; n < PULLS; n++) {
        uint64_t start_ns;

        if (side->me == 1)
            write_words(side->shared->pull, (uint64_t)n + 1);
        side_meet(side);
        start_ns = now_ns();
        if (side->me == 0)
            memcpy(side->pulled, side->shared->pull, SIDE_PULL_BYTES);
        __asm__ volatile("" : : "r"(side->pulled) : "memory");
        samples[n] = now_ns() - start_ns;
        side_meet(side);
    }
    return (double)median_of(samples, PULLS) / 1e3;
}

struct distance side_probe(struct side *side)
{
    struct distance distance;

    distance.line_ns = line_ns(side);
    distance.pull_us = pull_us(side);
    return distance;
}
