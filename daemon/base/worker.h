/* A thread for slow work (pinning memory, calibration), so that the loop remains responsive. */
#pragma once

#include <stdbool.h>

struct loop;
struct worker;

int worker_new(struct loop *loop, struct worker **ret_worker);
/* Loop's thread: whether all jobs are complete, including their done(). */
bool worker_idle(const struct worker *worker);
/* After loop_run(): waits for the running job and runs all calls posted to the loop, including
 * done() of completed jobs. Jobs that have not begun get dropped(). NULL is a no-op. Returns
 * NULL. */
struct worker *worker_free(struct worker *worker);

/* Runs work(context) on the worker's thread, then done(context) on the loop's thread, in the order
 * of submission. If the worker ends first, calls dropped(context) on the loop's thread instead of
 * both, which frees the context. -ENOMEM. */
int worker_submit(struct worker *worker, void (*work)(void *context), void (*done)(void *context),
                  void (*dropped)(void *context), void *context);
