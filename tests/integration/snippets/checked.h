/*
 * How the documents' snippets are run: each call's result is checked, and pauses of random length
 * make ranks run ahead of one another. A snippet is included in a function, after this.
 */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <tca.h>
#include <time.h>

static uint32_t this_rank;
static unsigned long wrong;

static inline int expect(int result, const char *call)
{
    if (result >= 0)
        return result;
    fprintf(stderr, "rank %u: %s: %s: %s\n", this_rank, call, tca_strerror(result),
            tca_error_text());
    exit(1);
}

static inline int open_session(const struct tca_open_args *args, struct tca **ret_session)
{
    int r = expect(tca_open(args, ret_session), "tca_open");
    this_rank = tca_rank(*ret_session);
    srand((unsigned)time(NULL) * 2 + this_rank);
    return r;
}

/* Mostly none, so that the ranks race, and sometimes one falls behind. */
static inline void pause_sometimes(void)
{
    static const struct timespec step = {.tv_nsec = 50000};

    for (int steps = rand() % 16 ? 0 : rand() % 16; steps > 0; steps--)
        nanosleep(&step, NULL);
}

static inline void check_value(double found, double expected, const char *what, int step, int at)
{
    if (found != expected && wrong++ == 0)
        fprintf(stderr, "rank %u, step %d: %s %d is %.0f and should be %.0f\n", this_rank, step,
                what, at, found, expected);
}

static inline int verdict(int steps, int expected)
{
    if (steps != expected)
        fprintf(stderr, "rank %u: %d steps instead of %d\n", this_rank, steps, expected);
    if (wrong)
        fprintf(stderr, "rank %u: %lu values are wrong\n", this_rank, wrong);
    return wrong || steps != expected;
}

#define tca_open(args, ret)     open_session(args, ret)
#define tca_region_alloc(...)   expect(tca_region_alloc(__VA_ARGS__), "tca_region_alloc")
#define tca_region_handle(...)  expect(tca_region_handle(__VA_ARGS__), "tca_region_handle")
#define tca_allgather(...)      expect(tca_allgather(__VA_ARGS__), "tca_allgather")
#define tca_alloc(...)          expect(tca_alloc(__VA_ARGS__), "tca_alloc")
#define tca_free(...)           expect(tca_free(__VA_ARGS__), "tca_free")
#define tca_barrier(...)        expect(tca_barrier(__VA_ARGS__), "tca_barrier")
#define tca_layout_strided(...) expect(tca_layout_strided(__VA_ARGS__), "tca_layout_strided")
#define tca_plan_new(...)       expect(tca_plan_new(__VA_ARGS__), "tca_plan_new")
#define tca_plan_put(...)       expect(tca_plan_put(__VA_ARGS__), "tca_plan_put")
#define tca_plan_notify(...)    expect(tca_plan_notify(__VA_ARGS__), "tca_plan_notify")
#define tca_plan_commit(...)    expect(tca_plan_commit(__VA_ARGS__), "tca_plan_commit")
#define tca_start(...)          expect(tca_start(__VA_ARGS__), "tca_start")
#define tca_wait(...)           expect(tca_wait(__VA_ARGS__), "tca_wait")
#define tca_notified_wait(...)  expect(tca_notified_wait(__VA_ARGS__), "tca_notified_wait")
