/* What all waits of a session have in common: wait.c. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct tca;

/* Internal result: the caller describes what timed out (overdue.h). */
enum { TIMED_OUT = INT_MIN };

/* > 0: ready; 0: not yet; < 0: failed. */
typedef int check_fn(struct tca *session, void *subject);

struct wait_spec {
    check_fn *ready;
    /* < 0: it can never become ready. NULL: `ready` reports this itself. Called now and then, and
     * before each sleep, and then `ready` once more. */
    check_fn *failed;
    void *subject;
    bool notified;      /* for notifications: completions are no reason to wake it */
    int64_t timeout_ns; /* from the start of the wait or, if it copies, from the end of copying */
};

/* Waits; with a time-out of 0, checks once. The checks may wait themselves if they leave
 * session->waiter as it was. */
int session_wait(struct tca *session, struct wait_spec *spec);
