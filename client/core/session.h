/* The session, struct tca, and its objects. */
#pragma once

#include "client/core/control.h"
#include "client/core/environment.h"
#include "client/core/identity.h"
#include "client/core/rails.h"
#include "client/core/standby.h"
#include "client/core/target.h"
#include "client/core/timeout.h"
#include "client/core/watch.h"
#include "drivers/driver.h"
#include "proto/costs.h"
#include "proto/member.h"
#include "proto/ring.h"
#include "proto/segment.h"
#include "proto/wait.h"

struct mapped_region;

/* Of the library: slots.h. */
struct slots {
    uint32_t used; /* numbers, from SLOT_LIBRARY_FIRST on */
    struct slots_range {
        uint32_t slot, count;
    } * returned;
    uint32_t returned_count, room;
};

struct tca {
    /* Read by every start and every test for a notification. */
    struct session_segment *segment;
    struct notify_segment *notify;
    uint32_t events_seen; /* segment->events when the socket was last read */
    uint32_t in_flight;   /* starts in the daemon's seat whose completions were not read, at most
                             COMPLETE_ENTRIES */
    uint64_t last_flush;  /* flush points in plans so far (client/plan/bind.c) */
    struct tca_plan *running; /* plans with client-seat chains in progress */
    struct pairs *pairs;    /* connections to processes of other nodes (client/plan/pair.h); NULL */
    _Atomic bool connected; /* there is or was one: a hint, for calls without its lock */
    uint32_t idle_moves,
        skipped;             /* how often nothing had come over them; waits that did not look */
    struct standby *standby; /* moves them on while the program computes, and has the lock of
                                `pairs`, `mapped_regions` and `targets`; NULL: not used */
    bool copying;            /* some of these can be advanced now */
    bool events_lost;        /* and with them data of notifications: the session is lost */
    bool ending;             /* plan->ending is set in some plan */
    uint32_t plans_in_doubt; /* with plan->doubt_end_ns */
    uint32_t plans_held;     /* with plan->hold_end_ns */
    uint32_t helpers;        /* session_expect_help() */
    uint32_t movers;         /* plans that may move between seats: client/plan/order.h */
    uint32_t engine_takes; /* plans whose waits may run in the daemon's seat, where the engine takes
                              notifications too */
    struct lane_in **lanes_in; /* by rank: lanes to this session; NULL: none */
    struct lane_in *lanes;     /* all of these */
    int engine_fd;             /* eventfd of the engine that serves this session */
    uint64_t limit_ns;         /* client/core/wait.h: a deadline; 0: none */
    struct slots slots;
    struct watches watches; /* of tca_notified_wait_any() */
    uint32_t sources;       /* ranks that may notify it */
    struct ring submit[CHANNELS];
    struct ring complete;
    struct waiter waiter;
    uint64_t polled_ns;   /* when a wait last read the socket */
    uint64_t failures;    /* starts and plans that have failed */
    uint64_t reviewed_ns; /* when a wait last called trials_review() */

    struct control control;
    struct settings settings;
    struct rail_list rails;
    struct identity identity;
    bool grouped;                       /* has joined a group at the daemon */
    bool polled;                        /* the program polls the socket: tca_event_fd() */
    const struct group_member *members; /* mapped, by rank */
    struct reach_costs costs;           /* of all ranks' nodes */
    uint64_t collectives;               /* completed collective calls of the group */
    struct tca_group *groups;           /* of some of its ranks */
    struct tca_msg *messengers;
    struct session_keeper *keeper; /* client/core/wait.h */

    uint64_t id;
    uint32_t node;
    char *node_name;

    /* Set by client/session.c: a region is freed that connections use (client/plan/pair.h). */
    void (*forget_region)(struct tca *session, struct mapped_region *region);
    struct driver *shm;        /* copies for plans in the client's seat */
    struct process *processes; /* that this one puts to, including itself */
    struct tca_region *regions;
    struct heap *heap;                    /* of tca_alloc(); NULL: not used yet */
    struct targets targets;               /* announced by tcad */
    struct mapped_region *mapped_regions; /* own and peers', as a list */
    struct near_view *near_views;         /* those that may have regions (client/memory/near.h) */
    struct mapped_region *regions_by_id;  /* the same, as a tree (client/memory/mapping.c) */
    struct mapped_region *unused_oldest, *unused_newest; /* peers', mapped and not in use */
    uint32_t unused_count;
    struct mapped_segment *mapped_segments;
    struct wisdom *wisdom;             /* NULL: not read yet */
    bool parts_taken[START_PARTS_MAX]; /* of segment->parts */
    struct tca_plan *plans;
    struct tca_plan *unlanded[SEAT_COUNT];     /* client/plan/order.h */
    const struct trial_effects *trial_effects; /* set by client/session.c */
    struct tca_plan
        *tries;        /* routes: whose turn it is (client/plan/trial_route.h); NULL: nobody's */
    uint64_t tries_ns; /* when that one was last started */
    struct tca_plan *plans_by_id[PLANS_PER_SESSION_MAX];
};

/* The time-out as sent to the daemon: TCA_FOREVER becomes a year. */
uint64_t session_wire_timeout(int64_t timeout_ns);

/* Sends a request with the session's time-out. */
int session_request(struct tca *session, const Tca__Message *request,
                    Tca__Message__BodyCase expected, struct reply *ret_reply);

/* The same with a descriptor, which must be open; -1: none. */
int session_request_fd(struct tca *session, const Tca__Message *request, int fd,
                       Tca__Message__BodyCase expected, struct reply *ret_reply);

/* Sends a request that contains its time-out. The daemon replies by then, with a more precise error
 * than this library could give; this library therefore waits a little longer. */
int session_request_timed(struct tca *session, const Tca__Message *request,
                          Tca__Message__BodyCase expected, int64_t timeout_ns,
                          struct reply *ret_reply);

/* The same until end_ns in two halves: control_ask() and control_take(). */
int session_ask(struct tca *session, const Tca__Message *request, uint64_t end_ns,
                struct control_asked *asked);
int session_reply(struct tca *session, struct control_asked *asked, const Tca__Message *request,
                  Tca__Message__BodyCase expected, uint64_t end_ns, struct reply *ret_reply);

/* Processes pending events. Returns session->control.lost. */
int session_drain(struct tca *session);

/* Loses the session: an event could not be processed for this reason, so that later notifications
 * might precede their data. */
void session_lose(struct tca *session, int error);

/* Joins the group of session->identity. */
int group_join(struct tca *session, int64_t timeout_ns);
void group_forget_members(struct tca *session);
