/* Between the loop*.c files. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/time.h>

struct event;
struct event_base;
struct loop_job;
struct loop_post;

struct loop {
    struct event_base *base;
    struct event *posted;
    int posted_fd; /* eventfd: readable when there may be posts or jobs */
    bool stopped;

    pthread_mutex_t mutex;
    struct loop_post *first, **last; /* under the mutex */

    /* the loop's thread only */
    struct loop_post *taken, **last_taken; /* taken from `first`, in order */
    struct loop_job *jobs, **last_job;
    uint64_t slice_end_ns;

    /* written by the loop's thread, read by all */
    _Atomic uint64_t turn_since_ns; /* 0: waits for events */
    _Atomic uint64_t longest_ns;
    _Atomic uint64_t slices;
};

struct event_base *loop_base(struct loop *loop);
/* Must be called first in every callback of libevent: begins a turn, unless one has begun. */
void loop_awake(struct loop *loop);
/* Ends the turn: all ready events were processed. */
void loop_turn_over(struct loop *loop);
/* Run for one slice each, and continue in the next turn. */
void loop_run_posts(struct loop *loop);
void loop_run_jobs(struct loop *loop);
