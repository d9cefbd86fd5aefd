/*
 * An engine: one thread that polls submission rings of sessions and drivers, runs plans in the
 * daemon's seat, and sleeps when idle. engine_call() passes plans and sessions to it; the engine
 * owns them until they are detached.
 *
 * A daemon has one engine or several. The first has the instances of the drivers, so that what
 * other nodes put here arrives in its thread; the others have branches of these (drivers/driver.h).
 * A session belongs to one engine, which runs all its plans: no start involves another engine.
 *
 * A start: engine_session_poll() takes an entry from a submission ring -> engine_plan_start() ->
 * chain_start() (drivers/chain.c) -> the driver's put_post(); chain_run() and the driver's
 * progress() advance it; then the completion is written to the session's ring.
 */
#pragma once

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/heap.h"
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
    bool several; /* engines_introduce() is called */
};

#define FLOW_ANY UINT64_MAX

/* Called on the loop's thread. */
struct engine_events {
    /* A client has violated the protocol of its rings; why is static. */
    void (*session_broken)(void *context, uint64_t session, const char *why);
    /* As in drivers/driver.h; precedes peer_down(), and no start is taken in between. FLOW_ANY:
     * memory ran out for the details, any flow to the peer may have lost puts. */
    void (*puts_lost)(void *context, struct engine *engine, struct driver_peer *peer, uint64_t flow,
                      uint32_t count);
    /* A driver of the engine has lost a peer. */
    void (*peer_down)(void *context, struct engine *engine, struct driver_peer *peer, int error);
    /* As in drivers/driver.h. */
    void (*paired)(void *context, uint64_t pair, int fd, bool encrypts);
    void *context;
};

int engine_new(struct loop *loop, const struct engine_config *config,
               const struct engine_events *events, struct engine **ret_engine);
/* Opens the driver of a rail (an index below RAIL_SLOTS); before engine_run(). */
int engine_add_driver(struct engine *engine, unsigned rail, const struct driver_ops *ops,
                      const struct driver_config *config);
/* Opens a branch of each driver of the first engine, which is not running yet; before engine_run().
 * -EOPNOTSUPP: the driver of *ret_rail has no branches. */
int engine_add_branches(struct engine *engine, const struct engine *first, unsigned *ret_rail);
/* All engines of a daemon that has several, before engine_run(); the array is used until all are
 * stopped. */
void engines_introduce(struct engine *const *engines, unsigned count);
/* Starts the thread. */
int engine_run(struct engine *engine);
/* Loop's thread: sets how long it polls before it sleeps. -ENOMEM. */
int engine_tune(struct engine *engine, uint64_t spin_ns, uint64_t yield_ns);
/* Stops the thread, if it runs, and runs what it has posted. All sessions must be detached. Calls
 * then run in the loop's thread. */
void engine_stop(struct engine *engine);
/* The same, and closes the drivers: the branches of a daemon before what they are branches of. NULL
 * is a no-op. Returns NULL. */
struct engine *engine_free(struct engine *engine);

/* NULL if the rail has no driver. */
struct driver *engine_driver(const struct engine *engine, unsigned rail);
const struct driver_caps *engine_driver_caps(const struct engine *engine, unsigned rail);
/* 0, or the error with which the driver failed. */
int engine_driver_error(const struct engine *engine, unsigned rail);

/* A member of the object that the call is about, so that a call cannot fail. The engine's until
 * done() begins or, where done is NULL, work(); these may free it or use it again. */
struct engine_call {
    struct engine_call *next;
    void (*work)(struct engine *engine, void *context);
    bool (*step)(struct engine *engine, void *context); /* engine_job() */
    void (*done)(void *context);
    void *context;
    struct loop_post post;
};
/* Any thread but the engine's: runs work(context) on the engine's thread, then, unless NULL,
 * done(context) on the loop's thread, in the order of the calls. */
void engine_call(struct engine *engine, struct engine_call *call,
                 void (*work)(struct engine *engine, void *context), void (*done)(void *context),
                 void *context);
/* The same for long work in slices: step(context) works until engine_slice_over() and returns
 * whether there is more; it is then called again in the next round, after starts, drivers and other
 * calls. It always makes progress, and done() is not NULL. */
void engine_job(struct engine *engine, struct engine_call *call,
                bool (*step)(struct engine *engine, void *context), void (*done)(void *context),
                void *context);
/* The same for work that gives the engine nothing to do, and frees nothing that it knows: while the
 * engine yields or sleeps, the calling thread does it at once, without waking the engine. */
void engine_job_quiet(struct engine *engine, struct engine_call *call,
                      bool (*step)(struct engine *engine, void *context),
                      void (*done)(void *context), void *context);
/* For such work: there is something to do for the engine, after all. */
void engine_wake(struct engine *engine);
bool engine_slice_over(const struct engine *engine);

/* Loop's and worker's thread: before a driver connects a peer, reserves the memory to report its
 * loss. -ENOMEM. After the disconnect, or when the connection failed, returns it. */
int engine_loss_reserve(struct engine *engine);
void engine_loss_return(struct engine *engine);

/* ---- sessions ---- */

struct engine_session_args {
    uint64_t id;
    struct session_segment *segment;
    struct notify_segment *notify;
    int wake_fd; /* eventfd that the client writes; never read */
};
int engine_session_new(struct engine *engine, const struct engine_session_args *args,
                       struct engine_session **ret_session);
struct engine *engine_of_session(const struct engine_session *session);
/* Loop's thread: those that are not detached yet. */
uint32_t engine_session_count(const struct engine *engine);
/* All plans of the session must be detached or being detached. When the last one is, frees the
 * session and runs done(context) on the loop's thread; the engine then no longer uses its segments
 * and eventfd. */
void engine_session_detach(struct engine_session *session, void (*done)(void *context),
                           void *context);

/* Loop's thread: the client is about to close the session. Starts that would wait for notifications
 * fail with this error. */
void engine_session_hurry(struct engine_session *session, int error);

/* ---- plans ---- */

struct engine_histogram { /* of durations: 4 buckets per octave */
    _Atomic uint32_t at[160];
};
void engine_histogram_add(struct engine_histogram *histogram, uint64_t value);
/* The value below which this share (0 to 1) of the samples lies; 0: no samples. */
uint64_t engine_histogram_quantile(const struct engine_histogram *histogram, double share);

/* Determines the handling of a start requested by the client. */
enum engine_plan_state {
    ENGINE_PLAN_OPEN,    /* accepted */
    ENGINE_PLAN_RESTING, /* a start is running; pauses when it is complete: engine_plan_rest() */
    ENGINE_PLAN_PAUSED,  /* held until engine_plan_resume() */
    ENGINE_PLAN_BROKEN,  /* fails with `error` */
    ENGINE_PLAN_LEAVING, /* refused: the plan is being detached */
    ENGINE_PLAN_STATES,
};
bool engine_plan_legal(enum engine_plan_state from, enum engine_plan_state to);

/* An order to a plan: engine_plan_break() and the like. */
struct engine_order {
    struct engine_call call;
    struct engine_session *session;
    struct engine_plan *plan;
    enum engine_verb {
        ENGINE_BREAK,
        ENGINE_LOSE,
        ENGINE_DETACH,
        ENGINE_PAUSE,
        ENGINE_REST,
    } verb;
    int error;
    void (*done)(void *context);
    void *context;
};

/* A put whose starts move parts: engine_parts.c. */
struct engine_part {
    struct driver *driver;
    struct driver_put *put; /* NULL: in the client's seat */
    uint64_t source_bytes, target_bytes;
    bool tied;               /* both layouts have gaps: the positions are equal */
    struct driver_part part; /* of the last start that was taken */
};

/* A chain that waits for notifications. */
struct engine_wait {
    struct heap_node node;
    struct engine_plan *plan;
    const struct notify_line *line; /* NULL: it does not wait */
};

/* A rail over which the plan puts to a node: engine_flow.c. */
struct engine_route {
    uint32_t node;
    struct driver *driver;
    struct driver_peer *peer;
    struct engine_path *path; /* private to the engine; NULL: not entered */
};

/* Filled in by daemon/plans, then attached. The loop's thread may read the counters. */
struct engine_plan {
    uint32_t id;
    uint32_t channel;
    unsigned rail; /* for receipts, like `encryption` */
    enum encryption encryption;
    uint64_t bytes; /* per start, daemon-seat chains only */
    uint32_t descriptors;
    uint32_t chain_count;
    struct chain **chains;         /* the daemon-seat chains: engine_plan_make_room() */
    struct engine_wait *waits;     /* of each of them */
    bool repeat;                   /* a start runs them again and again: engine_repeat.c */
    struct engine_part *parts;     /* owned */
    uint32_t part_count, parts_at; /* parts_at: of the first in session_segment.parts */
    uint64_t other_bytes;          /* per start, of puts that move all */
    /* Owned: engine_plan_enter(). None: its starts have no order with those on other rails. */
    struct engine_route *routes;
    uint32_t route_count;
    bool lands; /* a start holds its channel until all its data has arrived */

    /* counters */
    _Atomic uint64_t starts;
    _Atomic uint64_t rounds;
    _Atomic uint64_t errors;
    _Atomic uint64_t running_since_ns; /* 0: no start is running */
    struct engine_histogram durations; /* ns from taken to done */

    /* private to the engine */
    struct engine_session *session; /* while attached */
    /* While a start runs: session->running, or session->waiting when only notifications can advance
     * it. */
    struct engine_plan_list *list;
    struct engine_plan *next, *previous;
    uint64_t number;     /* of the start, in its session */
    uint64_t unfinished; /* bit per chain */
    uint64_t holding;    /* bit per chain: delays later starts on the channel */
    int status;
    uint32_t fault; /* driver_op.fault of the first failure */
    enum engine_plan_state state;
    int error;                 /* BROKEN, LEAVING */
    bool held;                 /* a start waits in `entry` while the plan is paused */
    bool again;                /* a repeating plan is between two rounds */
    bool stopping;             /* this round is its last */
    bool cut;                  /* which not all chains have begun */
    bool later;                /* it is not the first of its start */
    struct submit_entry entry; /* of the start that is running or held */
    uint64_t taken_ns;
    /* Posted to the loop when nothing is in flight: */
    void (*quiet)(void *context); /* done() of a pause, break or detach */
    void *quiet_context;
    struct loop_post quiet_post;
    void (*rested)(
        void *context); /* done() of a rest, also posted when another order ends that one */
    void *rested_context;
    struct loop_post rested_post;
    /* The loop's until the order is given: of a break, detach or pause, none of which is given
     * before done() of the last; of a rest; of a loss. */
    struct engine_order order, rest_order, lose_order;
    _Atomic bool losing; /* lose_order is given and not carried out yet */
};

/* Memory for this many chains, none of which is there; free(plan->chains) frees it. -ENOMEM. */
int engine_plan_make_room(struct engine_plan *plan, uint32_t chain_count);

/* Engine's thread, before a plan with a wait for this line is attached. -ENOMEM. */
int engine_session_reserve_line(struct engine_session *session, uint32_t line);

/* Callback of the wait steps of its chains (drivers/chain.h); plan is the struct engine_plan.
 * Starts that wait for the same notifications receive them in the order of the starts. */
bool engine_plan_may_take(void *plan, const struct chain_step *step);

/* Engine's thread (in engine_call()): makes the plan startable. */
void engine_plan_attach(struct engine_session *session, struct engine_plan *plan);
/* Engine's thread, before its first start and after each move: from now on, its starts keep their
 * order with others that put to the same nodes over other rails. -ENOMEM. */
int engine_plan_enter(struct engine_session *session, struct engine_plan *plan);
/* Engine's thread, when nothing of it runs and its data has arrived. Frees its routes, after which
 * its peers may be disconnected. False: something still asks one of these; call it again in a later
 * round. */
bool engine_plan_leave(struct engine_plan *plan);
/* Loop's thread: refuses further starts. Runs done(context) on the loop's thread when nothing of
 * the plan is in flight and the engine no longer refers to it. */
void engine_plan_detach(struct engine_session *session, struct engine_plan *plan, int error,
                        void (*done)(void *context), void *context);
/* Loop's thread: further starts fail with this error, and so does a running start with a remaining
 * step that needs the object that has ended (chain_lose()). Runs done(context) on the loop's thread
 * when nothing of the plan is in flight; the engine then no longer touches its chains. Not allowed
 * during a detach or another break. */
void engine_plan_break(struct engine_session *session, struct engine_plan *plan, int error,
                       void (*done)(void *context), void *context);
/* Loop's thread, after a break whose done() was not called yet: another object has ended. */
void engine_plan_lose(struct engine_session *session, struct engine_plan *plan, int error);

/* Loop's thread: stops a running start from posting more (chain_cancel()) and holds further starts.
 * Runs done(context) on the loop's thread when nothing of the plan is in flight; the loop then owns
 * its chains until engine_plan_resume(). Not allowed during another such order. */
void engine_plan_pause(struct engine_session *session, struct engine_plan *plan, int error,
                       void (*done)(void *context), void *context);
/* Loop's thread: pauses as soon as no start is running, without cancelling any, and then runs
 * done(context) on the loop's thread. Any other order ends this one; its done() is then called
 * before that of the other order. */
void engine_plan_rest(struct engine_session *session, struct engine_plan *plan,
                      void (*done)(void *context), void *context);
/* Engine's thread: ends a pause. */
void engine_plan_resume(struct engine_plan *plan);

/* Engine's thread, while nothing of the plan runs: its puts move the parts of the last start that
 * was taken; nothing before that. */
void engine_parts_apply(struct engine_plan *plan);

/* ---- displays ---- */

struct engine_stats {
    uint64_t starts, completions, errors, bytes, sleeps;
    uint64_t slices;     /* of engine_job() */
    uint64_t longest_ns; /* that calls took in one round */
    uint64_t sessions;   /* of engine_session_count() */
    bool asleep;
};
/* Loop's thread. */
void engine_stats(const struct engine *engine, struct engine_stats *ret_stats);
