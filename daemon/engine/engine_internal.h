/* What the engine's own files share. */
#pragma once

#include <pthread.h>

#include "daemon/engine/engine.h"
#include "proto/ring.h"
#include "proto/wait.h"

/* In the order in which they came. */
struct engine_plan_list {
    struct engine_plan *first, *last;
};

/* A session as the engine's thread sees it. */
struct engine_session {
    struct engine *engine;
    struct engine_session *next;  /* in engine->active or engine->parked */
    struct engine_session **link; /* what points to us */
    uint64_t id;
    struct session_segment *segment;
    struct notify_segment *notify;
    int wake_fd;
    struct ring submit[CHANNELS];
    struct ring complete;
    struct engine_plan *on_channel[CHANNELS]; /* a start that has neither posted everything nor come
                                                 to a wait step: the channel waits for it */
    struct engine_plan_list running;          /* moved on in each round */
    struct engine_plan_list waiting;          /* some are looked at in each round, */
    struct engine_plan *look;                 /* this one next; NULL: the first */
    uint64_t starts;
    struct engine_plan **plans;     /* [PLANS_PER_SESSION_MAX], with the first plan */
    struct engine_bounces *bounces; /* NULL: it has none */
    uint32_t idle_rounds;
    bool armed;   /* the client is told to write wake_fd */
    bool parked;  /* in engine->parked: not looked at until it does */
    bool dormant; /* parked because it has been quiet while others were not */
    bool broken;  /* the client broke the rules: its rings are not looked at any more */
    bool detaching;
    void (*detached)(void *context);
    void *detached_context;
    const char *broken_why;
    struct loop_post broken_post, detached_post;
};

struct engine_call {
    struct engine_call *next;
    struct engine *engine;
    void (*work)(struct engine *engine, void *context);
    void (*done)(void *context);
    void *context;
    struct loop_post post;
};

struct engine_driver {
    struct driver *driver;
    struct driver_caps caps;
    int event_fd;
    uint32_t idle_rounds; /* since it last moved something */
    _Atomic int error;
};

struct engine {
    struct loop *loop;
    struct engine_config config;
    struct engine_events events;
    struct engine_driver drivers[RAIL_COUNT];

    pthread_t thread;
    bool running;
    int epoll_fd;
    int call_fd; /* eventfd: calls are there while the engine sleeps */

    pthread_mutex_t mutex; /* of the calls */
    struct engine_call *calls, **calls_last;
    _Atomic bool calls_pending;
    _Atomic bool stop;

    /* the thread's own */
    struct waiter waiter;
    struct engine_session *active; /* looked at in every round */
    struct engine_session *parked; /* armed, and nothing of theirs under way */
    uint32_t rounds;
    /* of peers, that the loop has yet to hear of: until its orders come, no start is taken, or
     * those that follow a start that failed for it would fail as well */
    uint32_t losses;

    _Atomic uint64_t starts, completions, errors, bytes, sleeps;
    _Atomic bool asleep;
};

/* engine_session.c: the engine's thread only. How much was done. */
unsigned engine_session_poll(struct engine_session *session);
/* Tells its client to ring; false when something came meanwhile (then it does not). */
bool engine_session_arm(struct engine_session *session);
void engine_session_wake(struct engine_session *session);
/* Finishes a detach when nothing is in flight any more; true when the session is gone. */
bool engine_session_detach_step(struct engine_session *session);

/* It has broken the rules: why is static. */
void engine_session_break(struct engine_session *session, const char *why);

/* engine_events.c */
struct driver_events engine_driver_events(struct engine *engine);

/* engine_bounce.c */
unsigned engine_bounces_poll(struct engine_session *session);
void engine_landed(struct engine_landing *landing);

/* engine_plan.c */
void engine_plan_start(struct engine_session *session, const struct submit_entry *entry);
/* Moves it on; true when its current start is complete: it is in no list then, and may be freed. */
bool engine_plan_run(struct engine_plan *plan);

/* engine_waiting.c */
/* If it waits for notifications: it is to be looked at for something else. */
void engine_plan_rouse(struct engine_plan *plan);
/* Whether only notifications can move it; whether those that one of its chains waits for are there.
 */
bool engine_plan_idle(const struct engine_plan *plan);
bool engine_plan_ready(const struct engine_plan *plan);
/* From whichever list to this one of its session; NULL: none. */
void engine_plan_list(struct engine_plan *plan, struct engine_plan_list *list);

static inline void engine_count(_Atomic uint64_t *counter, uint64_t value)
{
    /* one writer: no locked instruction needed */
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + value,
                          memory_order_relaxed);
}
