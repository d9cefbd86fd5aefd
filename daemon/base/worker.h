/* A thread for what may be slow (pinning memory, calibrating), so that the loop answers a ping
 * meanwhile. */
#pragma once

#include <stdbool.h>

struct loop;
struct worker;

int worker_new(struct loop *loop, struct worker **ret_worker);
/* Loop's thread: whether every job is done, its done() included. */
bool worker_idle(const struct worker *worker);
/* After loop_run(): waits for the job that runs, and runs what was posted to the loop, done() of what
 * has ended with it; of jobs not begun only dropped() is called. NULL is fine; returns NULL. */
struct worker *worker_free(struct worker *worker);

/* Runs work(context) on the worker's thread, then done(context) on the loop's. In the order of
 * submission. dropped(context) instead of both, on the loop's thread: the worker ends before, and
 * whatever the context holds is to be let go. -ENOMEM. */
int worker_submit(struct worker *worker, void (*work)(void *context), void (*done)(void *context),
                  void (*dropped)(void *context), void *context);
