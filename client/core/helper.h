/*
 * The library's thread in this process, tca-helper, and its jobs. It begins with the first job,
 * ends with the last, and gives each job that has something to do a turn, one after the other:
 *
 *   - Each session with connections has one that stands in for the program
 *     (client/core/standby.h). A turn moves a bounded number of pieces. It never waits for the
 *     program: it tries the lock, and a program that holds it does the same work itself.
 *   - Each session with operations that a thread carries out has one that advances them
 *     (client/coll/thread.h). A turn does what can be done without waiting: it may copy whole puts,
 *     and run the program's reduction functions. Connections wait as long, as they do for a program
 *     that makes the same calls itself; what others send stays in buffers meanwhile.
 *
 * A second thread would only help where a process has both at once, and cost every other process a
 * processor that its ranks could use. Pages are moved by the thread that shares them
 * (client/memory/inplace.h). Libtca-compat, which knows public headers only, has threads of its
 * own.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* What a job waits for after a turn. Each has another one when it is woken. */
enum helper_next {
    HELPER_GOES_ON, /* for nothing but the turns of other jobs */
    HELPER_LOOKS,   /* for something that no descriptor tells of: looks as tca_pause() would */
    HELPER_NAPS,    /* for a millisecond to pass */
    HELPER_SLEEPS,  /* for its descriptor to become readable */
    HELPER_STOPS,   /* for nothing but to be woken */
};

/* All fields are the helper's, except for the first three. */
struct helper_job {
    enum helper_next (*turn)(struct helper_job *job);
    int fd;                /* -1: none */
    pthread_mutex_t *lock; /* that turns hold, and fork() shall wait for; NULL: none */
    struct helper_job *next, **link;
    bool added; /* in this process, not in one that it was forked from */
    bool leaving;
    enum helper_next waits;
    uint64_t nap_end_ns;
    _Atomic bool woken;
};

/* The job stays where it is until it is removed. Any thread, also in a turn. -ENOMEM, -EAGAIN,
 * -EMFILE. */
int helper_add(struct helper_job *job);
/* Waits for the end of its turn: not in a turn, and without what turns lock. A job that was not
 * added: no-op. */
void helper_remove(struct helper_job *job);

/* Any thread. */
void helper_ring(struct helper_job *job);
static inline void helper_wake(struct helper_job *job)
{
    if (job->added && !atomic_exchange_explicit(&job->woken, true, memory_order_seq_cst))
        helper_ring(job);
}

/* Around fork() (client/forks.c): in a child, there is no job and no thread. */
void helper_before_fork(void);
void helper_after_fork(void);
void helper_in_child(void);
