/* Shared by the engine's files. */
#pragma once

#include <pthread.h>

#include "daemon/base/heap.h"
#include "daemon/base/table.h"
#include "daemon/engine/engine.h"
#include "proto/ring.h"
#include "proto/wait.h"

/* In order of insertion. */
struct engine_plan_list {
    struct engine_plan *first, *last;
};

/* A notification line of the session. */
struct engine_line {
    struct heap waits; /* struct engine_wait, by the number of the start */
    bool watched;      /* notify_watch() */
};

/* A session as the engine's thread sees it. */
struct engine_session {
    struct engine *engine;
    struct engine_session *next;  /* in engine->active or engine->parked */
    struct engine_session **link; /* the pointer to this session */
    uint64_t id;
    struct session_segment *segment;
    struct notify_segment *notify;
    int wake_fd;
    struct ring submit[CHANNELS];
    struct ring complete;
    struct engine_plan *on_channel[CHANNELS]; /* a start that has neither posted everything nor
                                                 reached a wait step: blocks the channel */
    struct engine_plan_list running;          /* advanced in each round, */
    struct engine_plan *turn;                 /* this one next */
    struct engine_plan_list waiting;          /* until a line is marked */
    bool ready;                /* one that runs can go on, and has not been advanced since */
    struct engine_line *lines; /* [line_room]: those that plans can wait for */
    uint32_t line_room;
    uint32_t word;      /* of the marks that were taken last */
    struct table flows; /* engine_flow.c: by node and channel */
    uint32_t split;     /* of these: over several rails */
    bool held;          /* a start may wait for the data of earlier ones on other rails */
    uint64_t starts;
    struct engine_plan **plans; /* [PLANS_PER_SESSION_MAX], allocated with the first plan */
    uint32_t idle_rounds;
    bool armed;   /* the client writes wake_fd after a submission */
    bool parked;  /* in engine->parked: not polled until wake_fd is written */
    bool dormant; /* parked because it was idle while others were not */
    bool broken;  /* the client has violated the protocol: its rings are not polled any more */
    bool detaching;
    void (*detached)(void *context);
    void *detached_context;
    const char *broken_why;
    struct loop_post broken_post, detached_post;
    struct engine_call attach_call, detach_call, hurry_call;
    int hurry; /* loop's thread: the error of engine_session_hurry(); 0: not called */
};

/* The loss of one driver's peer, on its way to the loop. */
struct engine_loss {
    struct engine_loss *next;
    struct engine *engine;
    struct driver_peer *peer;
    int error;
    bool unknown; /* puts_lost() with FLOW_ANY is posted */
    struct loop_post unknown_post, down_post;
    struct engine_call known_call;
};

struct engine_driver {
    struct driver *driver;
    struct driver_caps caps;
    int event_fd;
    uint32_t idle_rounds; /* since its last progress */
    _Atomic int error;
};

struct engine {
    struct loop *loop;
    struct engine_config config;
    struct engine_events events;
    struct engine_driver drivers[RAIL_SLOTS]; /* by rail */
    unsigned rails;                           /* no higher index has a driver */

    pthread_t thread;
    bool running;
    uint32_t session_count;    /* the loop's */
    struct engine *const *all; /* engines_introduce() */
    unsigned count;            /* of them */
    _Atomic bool awaits;       /* sleeps, or is about to, with starts that may wait */
    int epoll_fd;
    int call_fd; /* eventfd: wakes the engine for calls */

    /* Held by whoever runs the engine: the thread, except while it yields or sleeps; then, for a
     * moment, the caller of engine_job_quiet(). Protects drivers, plans and sessions. */
    pthread_mutex_t turn;
    pthread_mutex_t mutex; /* protects the calls and reserved losses */
    struct engine_call *calls, **calls_last;
    bool wakes;                      /* a call must wake the engine: it sleeps, or is about to */
    struct engine_loss *losses_free; /* reserved, not in use */
    uint32_t losses_surplus;         /* in use and to be freed afterwards */
    _Atomic bool calls_pending;
    _Atomic bool stop;

    struct waiter waiter; /* the thread's */
    /* under `turn` */
    struct engine_call *taken, **taken_last; /* from `calls`, in order */
    uint64_t slice_end_ns;
    struct engine_session *active; /* polled in every round */
    struct engine_session *parked; /* armed, with nothing in flight */
    uint32_t rounds;
    uint64_t looked_ns; /* when wake-ups of parked sessions were checked for last */
    /* Peer losses that the loop has not handled yet. Until it has, no start is taken, because
     * starts after one that failed for this reason would fail, too. */
    uint32_t losses;
    struct engine_loss *losing; /* of the peer that is being lost: before its peer_down() */

    _Atomic uint64_t starts, completions, errors, bytes, sleeps, slices, longest_ns;
    _Atomic bool asleep;
};

/* engine_session.c: the engine's thread only. Returns the amount of work done. */
unsigned engine_session_poll(struct engine_session *session);
/* Takes the starts that were submitted before, unless earlier ones hold up their channel. */
void engine_session_take_all(struct engine_session *session);
/* Makes the client write wake_fd after a submission. False: there is work, so it is not armed. */
bool engine_session_arm(struct engine_session *session);
void engine_session_wake(struct engine_session *session);
/* Completes a detach when nothing is in flight. True: the session was freed. */
bool engine_session_detach_step(struct engine_session *session);

/* The client has violated the protocol; why is static. */
void engine_session_break(struct engine_session *session, const char *why);

/* engine_calls.c: runs calls of the loop for a slice. Returns whether there were any. */
bool engine_run_calls(struct engine *engine);
/* Before the engine sleeps: false if there are calls. Otherwise the next call wakes it, until
 * engine_awake(). */
bool engine_may_sleep(struct engine *engine);
void engine_awake(struct engine *engine);

/* engine_others.c */
void engine_set_awaits(struct engine *engine, bool awaits);
/* Whether others have to learn of an eventfd that this one watches. */
bool engine_others_await(const struct engine *engine);
void engine_wake_others(struct engine *engine);
/* The engine has raised a line of this segment, whose session is another one's, which sleeps. */
void engine_notified(struct engine *engine, struct notify_segment *segment);

/* engine_events.c */
struct driver_events engine_driver_events(struct engine *engine);
void engine_losses_free(struct engine *engine);

/* engine_repeat.c */
/* A round of a repeating plan is over. False: so is the start. */
bool engine_repeat_goes_on(struct engine_plan *plan);
/* No round follows: ends the chains that have not begun this one. */
void engine_repeat_cut(struct engine_plan *plan);
/* Takes the start back, to be held, unless a round has begun. */
bool engine_repeat_hold(struct engine_plan *plan);
/* Between two rounds: ends the start. */
void engine_repeat_fail(struct engine_plan *plan, int error);
/* SUBMIT_STOP */
void engine_repeat_stop(struct engine_session *session, const struct submit_entry *entry);

/* engine_plan.c */
static inline uint64_t engine_plan_all_chains(const struct engine_plan *plan)
{
    return plan->chain_count == 64 ? ~0ull : (1ull << plan->chain_count) - 1;
}
void engine_plan_set_state(struct engine_plan *plan, enum engine_plan_state state);
/* Completes an entry that cannot be started. */
void engine_plan_refuse(struct engine_session *session, const struct submit_entry *entry,
                        int error);
/* The start is over. */
void engine_plan_complete(struct engine_plan *plan);
void engine_plan_start(struct engine_session *session, const struct submit_entry *entry);

/* Whether a start that is submitted now will run, at once or when the plan is no longer paused. */
static inline bool engine_plan_takes_starts(const struct engine_plan *plan)
{
    return !plan->unfinished && !plan->held &&
           (plan->state == ENGINE_PLAN_OPEN || plan->state == ENGINE_PLAN_PAUSED);
}

/* Advances the plan. True: its start, or a round of it, is complete; it may be freed. */
bool engine_plan_run(struct engine_plan *plan);

/* Begins the starts that waited for the data of earlier ones, if that has arrived. */
void engine_plans_go_on(struct engine_session *session);

/* engine_flow.c */
/* Whether the start of this plan, the next one of its channel, must wait for the data of earlier
 * ones on other rails. Then it asks for that, and engine_plans_go_on() is called again. Otherwise
 * the start is to begin now. */
bool engine_flow_holds(struct engine_plan *plan);

/* engine_parts.c: SUBMIT_PARTS */
void engine_parts_start(struct engine_session *session, const struct submit_entry *entry);

/* engine_orders.c */
/* Completes a start that was held while its plan was paused, and which will not run. */
void engine_plan_complete_held(struct engine_plan *plan, int error);
/* No start is running any more: completes the orders that waited for that. */
void engine_plan_finish_orders(struct engine_plan *plan);
/* The plan whose start is to be ended, SUBMIT_STOP or SUBMIT_CANCEL; NULL: another start is its
 * last. */
struct engine_plan *engine_plan_of(struct engine_session *session,
                                   const struct submit_entry *entry);
/* SUBMIT_CANCEL */
void engine_plan_cancel(struct engine_session *session, const struct submit_entry *entry);

/* engine_waiting.c */
/* Moves a plan that waits for notifications back to session->running. */
void engine_plan_wake(struct engine_plan *plan);
/* Whether only notifications can advance the plan. */
bool engine_plan_idle(const struct engine_plan *plan);
/* After each call that advances a chain or ends its start: where it waits now; NULL: nowhere. Wakes
 * the next start that has waited where it waited before. */
void engine_plan_wait_at(struct engine_plan *plan, uint32_t chain, const struct notify_line *line);
/* chain_unstart() */
void engine_plan_unstart_chain(struct engine_plan *plan, uint32_t chain);
/* Wakes the starts that wait for marked lines; whether there are such lines. */
void engine_session_take_marks(struct engine_session *session);
bool engine_session_marked(const struct engine_session *session);
/* Moves the plan from its list to this list of its session; NULL: to none. */
void engine_plan_list(struct engine_plan *plan, struct engine_plan_list *list);

static inline void engine_count(_Atomic uint64_t *counter, uint64_t value)
{
    /* only one thread writes: needs no locked instruction */
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + value,
                          memory_order_relaxed);
}
