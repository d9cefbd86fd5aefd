/*
 * Threads for slow work (pinning memory, compiling, closing, look-ups), so that the loop remains
 * responsive.
 *
 * Each job is in a lane, for example that of the user for whom it is done. The jobs of a lane run
 * one at a time, in the order of submission. Lanes take turns, and run at the same time on as many
 * threads as the worker may have: the long work of one user delays no other. Threads begin when
 * lanes wait for one.
 *
 * What keeps a processor busy, what waits for other machines, and what may never end are different
 * workers, so that none of them waits for another.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct loop;
struct worker;

/* Lanes of the worker of tcad, besides those of users, whose key is their uid. */
#define WORKER_LINKS   (UINT64_C(1) << 32)
#define WORKER_OFFLOAD (UINT64_C(2) << 32) /* processors share a device */
#define WORKER_TRIM    (UINT64_C(3) << 32)
#define WORKER_MACHINE (UINT64_C(4) << 32)

/* As many threads as lanes: a job that never ends holds up nothing but its lane. */
#define WORKER_THREAD_PER_LANE UINT_MAX

/* name: of its threads, at most 15 bytes. threads: how many of them at most. */
int worker_new(struct loop *loop, const char *name, unsigned threads, struct worker **ret_worker);
/* Loop's thread: whether all jobs are complete, including their done(). */
bool worker_idle(const struct worker *worker);
/* After loop_run(): waits for the running jobs and runs all calls posted to the loop, including
 * done() of completed jobs. Jobs that have not begun get dropped(). NULL is a no-op. Returns
 * NULL. */
struct worker *worker_free(struct worker *worker);
/* The same, without waiting for the running jobs: those may go on until the process ends. They, and
 * those of their lanes, get dropped() on a thread of the worker, which must only free the context.
 * Loop's thread. */
struct worker *worker_leave(struct worker *worker);

/* Loop's thread. Runs work(context) on a thread of the worker, then done(context) on the loop's
 * thread; both in the order of submission to this lane. If the worker ends first, calls
 * dropped(context) on the loop's thread instead of both, which frees the context. -ENOMEM. */
int worker_submit(struct worker *worker, uint64_t lane, void (*work)(void *context),
                  void (*done)(void *context), void (*dropped)(void *context), void *context);
/* How many jobs of this lane have not ended. Any thread. */
unsigned worker_jobs(struct worker *worker, uint64_t lane);
