/* The loop of a wait: spin, yield, sleep (proto/wait.h). It is inline, with the check that it
 * repeats: a wait in the client seat may take fewer than a hundred instructions. */
#pragma once

#include <limits.h>

#include "client/core/session.h"

/* Internal result: the caller describes what timed out. */
enum { TIMED_OUT = INT_MIN };

/* > 0: ready; 0: not yet; < 0: failed. */
typedef int check_fn(struct tca *session, void *subject);

struct wait_spec {
    check_fn *ready;
    /* < 0: it can never become ready. NULL: `ready` reports this itself. Called now and then, and
     * before each sleep, and then `ready` once more. */
    check_fn *failed;
    void *subject;
    /* Sets the error of a time-out; NULL: there is none, and TCA_HANG has nothing to say. */
    int (*overdue)(const void *subject, int64_t timeout_ns);
    bool told;          /* by hang_report() */
    bool notified;      /* for notifications: completions are no reason to wake it */
    int64_t timeout_ns; /* from the start of the wait or, if it copies, from the end of copying */
};

enum {
    /* Checks that take several times as long as that of a notification: so many fewer come before
     * the first yield. */
    SLOW_ROUNDS = 48,
    IDLE_MOVES = 200, /* about 50 us */
    IDLE_SKIPS = 128,
};

/* wait.c: one step of a wait off the fast path. 0: continue waiting, else the result. The checks
 * may wait themselves if they leave session->waiter as it was. */
int session_check(struct tca *session, struct wait_spec *spec);
/* Sleeps until something may have changed; results as session_check(). */
int session_sleep(struct tca *session, struct wait_spec *spec);
/* Copies long puts, without sleeping or yielding, until nothing is left to copy. */
int session_copy(struct tca *session, struct wait_spec *spec);

/* Whether the daemon has sent events that were not read yet. */
static inline bool session_has_events(const struct tca *session)
{
    return atomic_load_explicit(&session->segment->events, memory_order_relaxed) !=
           session->events_seen;
}

/* Looking at connections to other nodes can take a system call, many times as long as looking for a
 * notification or a completion: when nothing has come over them for long, it is done rarely. */
static inline bool session_skips_pairs(struct tca *session)
{
    return session->idle_moves >= IDLE_MOVES && ++session->skipped < IDLE_SKIPS;
}

/* relaxed: a hint */
static inline bool session_has_pairs(const struct tca *session)
{
    return __builtin_expect(atomic_load_explicit(&session->connected, memory_order_relaxed), 0);
}

/* rounds: of waiter_step()'s first ones, to be left out. */
static inline __attribute__((always_inline)) int wait_until(struct tca *session,
                                                            struct wait_spec *spec, uint32_t rounds)
{
    waiter_begin(&session->waiter);
    session->waiter.rounds = rounds;
    for (;;) {
        int r = spec->ready(session, spec->subject);
        if (r != 0)
            return r;
        if (__builtin_expect(session->copying, 0) && (r = session_copy(session, spec)) != 0)
            return r;
        switch (waiter_step(&session->waiter)) {
        case WAITER_AGAIN:
            break;
        case WAITER_CHECK:
            r = session_check(session, spec);
            break;
        case WAITER_SLEEP:
            r = session_sleep(session, spec);
            break;
        }
        if (r != 0)
            return r;
    }
}

/* Waits; with a time-out of 0, checks once. */
static inline __attribute__((always_inline)) int wait_for(struct tca *session,
                                                          struct wait_spec *spec, uint32_t rounds)
{
    if (spec->timeout_ns != 0)
        return wait_until(session, spec, rounds);
    session->waiter.started_ns = 0;
    return session_check(session, spec);
}
