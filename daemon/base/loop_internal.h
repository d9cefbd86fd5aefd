/* Between the loop*.c files. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/time.h>

#include "proto/wait.h"

struct event;
struct event_base;
struct loop_job;
struct loop_post;

struct loop {
    struct event_base *base;
    struct event *posted;
    int posted_fd; /* eventfd: wakes the loop for posts of other threads */
    bool stopped;

    pthread_mutex_t mutex; /* protects: */
    struct loop_post *first, **last;
    bool sleeps; /* it waits for events, or is about to, and no post has woken it yet */

    /* the loop's thread only */
    struct loop_post *taken, **last_taken; /* taken from `first`, in order */
    struct loop_job *jobs, **last_job;
    uint64_t slice_end_ns;
    struct loop_last *lasts;
    struct waiter waiter; /* for what loop_expect() announced */
    bool awaits;

    /* written by the loop's thread, read by all */
    _Atomic uint64_t turn_since_ns; /* 0: waits for events */
    _Atomic uint64_t longest_ns;
    _Atomic uint64_t slices;
    _Atomic bool expects; /* loop_expect() was called; any thread writes */
};

struct event_base *loop_base(struct loop *loop);
/* Must be called first in every callback of libevent: begins a turn, unless one has begun. */
void loop_awake(struct loop *loop);
/* Ends the turn: all ready events were processed. */
void loop_turn_over(struct loop *loop);
/* At the end of a turn: runs posted calls, then jobs, for one slice each; what is left continues in
 * the next turn. */
void loop_run_posts(struct loop *loop);
void loop_run_jobs(struct loop *loop);

/* A call at the end of this turn, after posts and jobs; once, however often it is asked for. */
struct loop_last {
    struct loop_last *next, **link; /* NULL: not asked for */
    void (*call)(void *context);
    void *context;
};
void loop_last(struct loop *loop, struct loop_last *last, void (*call)(void *context),
               void *context);
void loop_last_cancel(struct loop_last *last);
void loop_run_lasts(struct loop *loop);

/* Between two turns: whether the loop may wait for events, because nothing is left to do and no
 * post is expected at once. Then the next post wakes it. */
bool loop_may_sleep(struct loop *loop);
