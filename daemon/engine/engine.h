/*
 * The engine: one thread that polls the submission rings of the sessions and the drivers, runs
 * plans in the daemon seat, and sleeps when there is nothing to do. Plans and sessions are handed
 * to it by engine_call(); afterwards they are the engine's until a detach hands them back.
 *
 * A walk: session_poll() takes an entry from a submission ring -> plan_start() -> chain_start()
 * (drivers/chain.c) -> the driver's put_post(); chain_run() and the driver's progress() move it on;
 * plan_complete() writes the completion.
 */
#pragma once

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/loop.h"
#include "drivers/chain.h"
#include "drivers/driver.h"
#include "proto/segment.h"

struct engine;
struct engine_session;
struct loop;

struct engine_config {
    uint64_t spin_ns;
    uint64_t yield_ns;
    bool pin;
    cpu_set_t cpus;
};

/* All on the loop's thread. */
struct engine_events {
    /* A client broke the rules of its rings: why is static. */
    void (*session_broken)(void *context, uint64_t session, const char *why);
    /* As in drivers/driver.h; before peer_down(), and no start is taken in between. */
    void (*puts_lost)(void *context, struct driver_peer *peer, uint64_t flow, uint32_t count);
    /* A driver has lost a peer. */
    void (*peer_down)(void *context, struct driver_peer *peer, int error);
    void *context;
};

int engine_new(struct loop *loop, const struct engine_config *config,
               const struct engine_events *events, struct engine **ret_engine);
/* Opens a driver; before engine_run(). detail: of the driver's caps. */
int engine_add_driver(struct engine *engine, const struct driver_ops *ops,
                      const struct driver_config *config);
/* Starts the thread. */
int engine_run(struct engine *engine);
/* From the loop's thread: how long it looks for work before it sleeps, from now on. */
void engine_tune(struct engine *engine, uint64_t spin_ns, uint64_t yield_ns);
/* Stops the thread and closes the drivers; every session has been detached. NULL is fine; returns
 * NULL. */
struct engine *engine_free(struct engine *engine);

/* NULL when it was not added. */
struct driver *engine_driver(const struct engine *engine, enum rail rail);
const struct driver_caps *engine_driver_caps(const struct engine *engine, enum rail rail);
/* 0, or why the driver is broken. */
int engine_driver_error(const struct engine *engine, enum rail rail);

/* From the loop's thread: work(context) on the engine's thread, then, unless NULL, done(context) on
 * the loop's. In the order of the calls. Cannot fail: a call that finds no memory waits for some.
 */
void engine_call(struct engine *engine, void (*work)(struct engine *engine, void *context),
                 void (*done)(void *context), void *context);

/* ---- sessions ---- */

struct engine_session_args {
    uint64_t id;
    struct session_segment *segment;
    struct notify_segment *notify;
    int wake_fd; /* the eventfd that the client writes; nobody reads it */
};
int engine_session_new(struct engine *engine, const struct engine_session_args *args,
                       struct engine_session **ret_session);
/* All its plans have been detached, or are being: when the last has gone, the session is freed and
 * done(context) runs on the loop's thread. Its segments and eventfd are then no longer used here.
 */
void engine_session_detach(struct engine_session *session, void (*done)(void *context),
                           void *context);

/* From the loop's thread: its client waits for what it has started, and then goes. Starts wait for
 * no notifications any more: one that has to fails with this error. */
void engine_session_hurry(struct engine_session *session, int error);

/* ---- landings ---- */

/* What has landed, and the notification that it raises here: its address is the token of every
 * landing the daemon makes. */
struct engine_landing {
    struct notify_line *line; /* NULL: nobody is notified */
    struct notify_segment *segment;
    struct engine_session *session; /* whose memory it is that it bounces to, else whose
                                       notification; outlives it. NULL: neither */
    uint32_t bounce;                /* id (proto/segment.h); 0: it lands where it belongs */
    bool dropped; /* something has landed that its process, which has gone, did not copy; the loop
                     reads it once it is quiet */

    /* the engine's own */
    uint64_t waiting;   /* landings that the process was not told of yet */
    uint32_t under_way; /* entries in the ring */
    struct engine_landing *next, *previous;
    struct loop *loop;
    void (*quiet)(void *context);
    void *quiet_context;
    struct loop_post quiet_post;
};
/* On the engine's thread: nothing lands there any more. done(context) on the loop's thread once
 * what has landed is where it belongs. */
void engine_landing_end(struct engine *engine, struct engine_landing *landing,
                        void (*done)(void *context), void *context);

/* From the loop's thread: done(context) there once what has landed so far for the session is where
 * it belongs, or will never be: then landing->dropped. The landing is zero, but for its session, which outlives it. */
void engine_settle(struct engine *engine, struct engine_landing *landing,
                   void (*done)(void *context), void *context);

/* ---- bounces: memory that a process has attached ---- */

/* What a process copies to its bounce memory before it is put: a call of a chain (drivers/chain.h),
 * with engine_fetch_post(). Its session outlives it. */
struct engine_fetch {
    struct engine_session *session;
    uint32_t bounce; /* id; 0: none */
    /* the engine's own */
    struct driver_op *op; /* while it is under way */
    struct engine_fetch *next;
};
int engine_fetch_post(void *fetch, struct driver_op *op);

/* From the loop's thread, once, before its first fetch or landing with a bounce. -ENOMEM. */
int engine_bounces_new(struct engine_session *session);
/* From the loop's thread: its process has gone. Fetches fail (-EOWNERDEAD), what lands is dropped.
 */
void engine_bounces_end(struct engine_session *session);

/* ---- plans ---- */

struct engine_histogram { /* of durations: 4 buckets an octave */
    _Atomic uint32_t at[160];
};
void engine_histogram_add(struct engine_histogram *histogram, uint64_t value);
/* The value below which this share (0 .. 1) of the samples lies, 0 when there are none. */
uint64_t engine_histogram_quantile(const struct engine_histogram *histogram, double share);

/* Filled in by daemon/plan, then attached. Plain numbers below `counters` may be read from the
 * loop's thread. */
/* What happens to a start that the client asks for. */
enum engine_plan_state {
    ENGINE_PLAN_OPEN,    /* it is taken */
    ENGINE_PLAN_RESTING, /* one runs; pauses when that is done: engine_plan_rest() */
    ENGINE_PLAN_PAUSED,  /* it is held until engine_plan_resume() */
    ENGINE_PLAN_BROKEN,  /* it fails with `error` */
    ENGINE_PLAN_LEAVING, /* it is refused: the plan is being detached */
    ENGINE_PLAN_STATES,
};
bool engine_plan_legal(enum engine_plan_state from, enum engine_plan_state to);

struct engine_plan {
    uint32_t id;
    uint32_t channel;
    enum rail rail; /* for receipts */
    uint64_t bytes; /* of one start, daemon-seat chains only */
    uint32_t descriptors;
    uint32_t chain_count;
    struct chain **chains; /* the daemon-seat chains; owned */

    /* counters */
    _Atomic uint64_t starts;
    _Atomic uint64_t errors;
    _Atomic uint64_t running_since_ns; /* 0: no start is under way */
    struct engine_histogram durations; /* taken to done, ns */

    /* the engine's own */
    struct engine_session *session;
    /* While a start runs: in session->running, or in session->waiting when only notifications can
     * move it. */
    struct engine_plan_list *list;
    struct engine_plan *next, *previous;
    uint64_t number;     /* of the start, in its session */
    uint64_t unfinished; /* bit per chain */
    uint64_t holding;    /* likewise: those that keep later starts on the channel waiting */
    int status;
    uint32_t fault; /* driver_op.fault of what failed first */
    enum engine_plan_state state;
    int error;                 /* BROKEN, LEAVING */
    bool held;                 /* a start waits in `entry` while the plan is paused */
    struct submit_entry entry; /* of the start that runs or is held */
    uint64_t taken_ns;
    /* Posted to the loop once nothing is in flight. Either belongs to one order: */
    void (*quiet)(void *context); /* to pause, break or detach it */
    void *quiet_context;
    struct loop_post quiet_post;
    void (*rested)(
        void *context); /* to let it rest; also posted when another order ends that one */
    void *rested_context;
    struct loop_post rested_post;
};

/* For the wait steps of its chains (drivers/chain.h), with the plan: starts that wait for the same
 * notifications get them in the order in which they were started. */
bool engine_plan_may_take(void *plan, const struct chain_step *step);

/* On the engine's thread (from within engine_call): the plan can be started from now on. */
void engine_plan_attach(struct engine_session *session, struct engine_plan *plan);
/* From the loop's thread: no more starts; done(context) on the loop's thread once nothing of it is
 * in flight and the engine has forgotten it. */
void engine_plan_detach(struct engine_session *session, struct engine_plan *plan,
                        void (*done)(void *context), void *context);
/* From the loop's thread: starts fail with this from now on, and so does a running one of which a
 * step is still ahead that needs what is gone (chain_lose()); done(context) on the loop's thread
 * once nothing of it is in flight: its chains will not be touched any more. Not while a detach or
 * another break is under way. */
void engine_plan_break(struct engine_session *session, struct engine_plan *plan, int error,
                       void (*done)(void *context), void *context);
/* From the loop's thread, after a break whose done() was not called yet: something else is gone. */
void engine_plan_lose(struct engine_session *session, struct engine_plan *plan, int error);

/* From the loop's thread: a start that runs posts no more (chain_cancel()), those that come wait;
 * done(context) on the loop's thread once nothing of it is in flight: its chains are the loop's
 * until engine_plan_resume(). Not while another such order is under way. */
void engine_plan_pause(struct engine_session *session, struct engine_plan *plan, int error,
                       void (*done)(void *context), void *context);
/* The same without hurry: as soon as no start runs, those that come wait, and done(context) runs on
 * the loop's thread. Any other order ends this one: done() is called then, too (before that one's),
 * and nothing waits for it. */
void engine_plan_rest(struct engine_session *session, struct engine_plan *plan,
                      void (*done)(void *context), void *context);
/* On the engine's thread. */
void engine_plan_resume(struct engine_plan *plan);

/* ---- displays ---- */

struct engine_stats {
    uint64_t starts, completions, errors, bytes, sleeps;
    bool asleep;
};
void engine_stats(const struct engine *engine, struct engine_stats *ret_stats);
