/*
 * What the copy kernels reach, beside memcpy of as many bytes and beside a walk from block to block
 * (as copy programs did at first), in nanoseconds: by each set of kernels, and past the caches.
 *
 * "hot": the same copy again and again. "pull": another thread, on another processor, has written
 * the source before each copy, as a sender does whose receiver copies. "push": it has read the
 * target, as a receiver does whose sender copies. Of many samples the fastest tenth (hot) or the
 * lower quartile is shown; GB/s and ns per block are of the first set. Times on a busy machine mean
 * little: repeat, and compare within a line.
 */
#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "drivers/copy/copy.h"
#include "drivers/copy/kernels.h"
#include "tests/bench/kernels/patterns.h"

enum mode {
    HOT,
    PULL,
    PUSH,
};
static const char *const mode_names[] = {"hot", "pull", "push"};

enum { SAMPLES_MAX = 2000 };

struct bench {
    enum mode mode;
    uint64_t budget_ns;   /* of one figure */
    uint64_t piece_bytes; /* 0: all at once */
    struct kernel_pattern pattern;
    uint8_t *target, *source; /* bases */
    struct copy_program *program;
    /* the partner's: it does its part when `turn` is odd */
    _Atomic unsigned turn;
    atomic_bool over;
};

static uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* ---- what is measured ---- */

static void by_program(struct bench *bench)
{
    uint64_t size = bench->pattern.source->size_bytes,
             piece = bench->piece_bytes > 0 ? bench->piece_bytes : size;
    for (uint64_t position = 0; position < size; position += piece)
        copy_program_run(bench->program, bench->target, bench->source, position,
                         size - position < piece ? size - position : piece);
}

static void by_stream(struct bench *bench)
{
    copy_program_run_stream(bench->program, bench->target, bench->source, 0,
                            bench->pattern.source->size_bytes);
}

static void by_memcpy(struct bench *bench)
{
    memcpy(bench->target, bench->source, bench->pattern.source->size_bytes);
}

/* As copy programs were at first: a cursor on each side, memmove. */
static void by_walk(struct bench *bench)
{
    struct layout_cursor to, from;
    layout_cursor_init(&to, bench->pattern.target, 0);
    layout_cursor_init(&from, bench->pattern.source, 0);
    int64_t to_offset = 0, from_offset = 0;
    uint64_t to_left = 0, from_left = 0;
    for (uint64_t left = bench->pattern.source->size_bytes, piece; left > 0; left -= piece) {
        if (to_left == 0)
            layout_cursor_next(&to, UINT64_MAX, &to_offset, &to_left);
        if (from_left == 0)
            layout_cursor_next(&from, UINT64_MAX, &from_offset, &from_left);
        piece = to_left < from_left ? to_left : from_left;
        memmove(bench->target + to_offset, bench->source + from_offset, piece);
        to_offset += (int64_t)piece;
        from_offset += (int64_t)piece;
        to_left -= piece;
        from_left -= piece;
    }
}

/* ---- the other processor ---- */

static void touch(struct bench *bench)
{
    struct layout_cursor cursor;
    int64_t offset;
    uint64_t length;
    layout_cursor_init(&cursor, bench->mode == PULL ? bench->pattern.source : bench->pattern.target,
                       0);
    while (layout_cursor_next(&cursor, UINT64_MAX, &offset, &length)) {
        if (bench->mode == PULL)
            memset(bench->source + offset, (int)bench->turn, length);
        else
            for (uint64_t i = 0; i < length; i += 8)
                (void)*(volatile uint8_t *)(bench->target + offset + i);
    }
}

static void *partner(void *argument)
{
    struct bench *bench = argument;
    while (!bench->over) {
        if (bench->turn % 2 == 1) {
            touch(bench);
            bench->turn++;
        } else {
            sched_yield();
        }
    }
    return NULL;
}

static void let_partner_touch(struct bench *bench)
{
    bench->turn++;
    while (bench->turn % 2 == 1)
        ;
}

/* ---- measuring ---- */

static int compare_times(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Nanoseconds of one copy. */
static double measure(struct bench *bench, void (*copy)(struct bench *))
{
    static double samples[SAMPLES_MAX];
    unsigned count = 0, times = 1;
    uint64_t begin = now_ns();
    copy(bench);
    uint64_t once = now_ns() - begin;
    if (bench->mode == HOT && once < 5000)
        times = (unsigned)(5000 / (once + 1) + 1);
    while (count < SAMPLES_MAX && (count < 5 || now_ns() - begin < bench->budget_ns)) {
        if (bench->mode != HOT)
            let_partner_touch(bench);
        uint64_t start = now_ns();
        for (unsigned i = 0; i < times; i++)
            copy(bench);
        samples[count++] = (double)(now_ns() - start) / times;
    }
    qsort(samples, count, sizeof(*samples), compare_times);
    return samples[bench->mode == HOT ? count / 10 : count / 4];
}

static size_t memory_bytes(const struct layout *layout)
{
    return (size_t)layout->upper_bytes + 4096;
}

static uint8_t *memory_for(const struct layout *layout)
{
    size_t bytes = memory_bytes(layout);
    uint8_t *memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) {
        perror("kernels: mmap");
        exit(1);
    }
    memset(memory, 1, bytes);
    return memory;
}

/* By each set of kernels, the best first; then past the caches by the best. */
static void measure_programs(struct bench *bench)
{
    const struct layout *target = bench->pattern.target, *source = bench->pattern.source;
    double best = 0, streamed = 0;
    for (unsigned i = 0; copy_kernels_name(i); i++) {
        if (!copy_kernels_use(copy_kernels_name(i)) ||
            copy_program_new(target, source, &bench->program) < 0)
            continue;
        double time = measure(bench, by_program);
        printf(" %9.0f", time);
        if (best == 0) {
            best = time;
            streamed = measure(bench, by_stream);
        }
        copy_program_free(bench->program);
    }
    uint64_t blocks =
        source->block_count > target->block_count ? source->block_count : target->block_count;
    printf(" %9.0f %8.2f %8.2f\n", streamed, (double)source->size_bytes / best,
           best / (double)blocks);
}

static void measure_pattern(struct bench *bench)
{
    const struct kernel_pattern *pattern = &bench->pattern;
    bench->target = memory_for(pattern->target);
    bench->source = memory_for(pattern->source);
    printf("%-5s %-22s %9lu %9.0f %9.0f", mode_names[bench->mode], pattern->name,
           pattern->source->size_bytes, measure(bench, by_memcpy), measure(bench, by_walk));
    measure_programs(bench);
    fflush(stdout);
    munmap(bench->target, memory_bytes(pattern->target));
    munmap(bench->source, memory_bytes(pattern->source));
}

static void pin(int processor)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    sched_setaffinity(0, sizeof(set), &set);
}

static void *pinned_partner(void *argument)
{
    pin(1);
    return partner(argument);
}

static void measure_mode(struct bench *bench, const char *only)
{
    pthread_t thread;
    bench->over = false;
    if (bench->mode != HOT)
        pthread_create(&thread, NULL, pinned_partner, bench);
    for (unsigned i = 0; kernel_pattern_new(i, &bench->pattern); i++) {
        if (!only || strstr(bench->pattern.name, only))
            measure_pattern(bench);
        kernel_pattern_free(&bench->pattern);
    }
    bench->over = true;
    if (bench->mode != HOT)
        pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
    struct bench bench = {.budget_ns = 20000000};
    const char *only = NULL, *mode = NULL;
    for (int option; (option = getopt(argc, argv, "m:t:p:o:")) >= 0;) {
        switch (option) {
        case 'm':
            mode = optarg;
            break;
        case 't':
            bench.budget_ns = strtoull(optarg, NULL, 0) * 1000000;
            break;
        case 'p':
            bench.piece_bytes = strtoull(optarg, NULL, 0);
            break;
        case 'o':
            only = optarg;
            break;
        default:
            fprintf(stderr, "Usage: kernels [-m hot|pull|push] [-o PATTERN] [-p PIECE_BYTES] "
                            "[-t MILLISECONDS_PER_FIGURE]\n");
            return 2;
        }
    }
    pin(0);
    printf("%-5s %-22s %9s %9s %9s", "mode", "pattern", "bytes", "memcpy", "walk");
    for (unsigned i = 0; copy_kernels_name(i); i++)
        if (copy_kernels_use(copy_kernels_name(i)))
            printf(" %9s", copy_kernels_name(i));
    printf(" %9s %8s %8s\n", "stream", "GB/s", "ns/block");
    for (bench.mode = HOT; bench.mode <= PUSH; bench.mode++)
        if (!mode || strcmp(mode, mode_names[bench.mode]) == 0)
            measure_mode(&bench, only);
    return 0;
}
