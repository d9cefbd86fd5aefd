/* Inside libtca: a session and what hangs on it. */
#pragma once

#include "client/core/control.h"
#include "client/core/environment.h"
#include "client/core/identity.h"
#include "drivers/driver.h"
#include "drivers/shm/ways.h"
#include "proto/ring.h"
#include "proto/segment.h"
#include "proto/wait.h"

struct member {
    uint32_t node;
    uint64_t session;
};

struct tca {
    /* Looked at by every start and every look at a notification. */
    struct session_segment *segment;
    struct notify_segment *notify;
    uint32_t events_seen; /* of segment->events: what is newer has not been read from the socket */
    uint32_t in_flight;   /* starts in the daemon seat that were not seen complete, at most
                             COMPLETE_ENTRIES */
    struct tca_plan *running; /* plans whose client-seat chains have not come to their end yet */
    bool copying;             /* for some of them there is something to do here, at once */
    bool deaf;   /* what notifications stand for cannot be had any more: the session is lost */
    bool ending; /* some plan's start is to be ended: plan->ending */
    uint32_t engine_takes; /* plans whose waits may run in the daemon seat: it takes notifications,
                              too */
    struct bounces *bounces;   /* NULL: none were asked for */
    struct lane_in **lanes_in; /* by rank: what it shares with us; NULL: nobody does */
    int engine_fd;             /* eventfd of the engine that serves this session */
    uint32_t heard;            /* the rank that tca_notified_wait_any() found last */
    uint32_t sources; /* ranks that `notify` has room for: our own copy, not the shared one */
    struct ring submit[CHANNELS];
    struct ring complete;
    struct waiter waiter;
    uint64_t polled_ns; /* when the socket was last looked at in a wait */

    struct control control;
    struct settings settings;
    struct way_costs way_costs; /* of this node */
    struct identity identity;
    bool grouped;           /* has joined a group at the daemon */
    struct member *members; /* by rank */
    uint64_t collectives;   /* how many of this group are over */

    uint64_t id;
    uint32_t node;
    char *node_name;
    size_t notify_bytes;

    struct driver *shm;        /* copies for plans in the client seat */
    struct process *processes; /* that this one puts to, itself among them */
    struct tca_region *regions;
    struct heap *heap;                    /* tca_alloc()'s; NULL: not used yet */
    struct mapped_region *mapped_regions; /* own and peers' */
    struct mapped_segment *mapped_segments;
    struct tca_plan *plans;
    struct tca_plan *plans_by_id[PLANS_PER_SESSION_MAX];
};

/* 0 and a timeout that is >= 0 or TCA_FOREVER; -EINVAL. */
int session_timeout(const struct tca *session, int64_t timeout_ns, int64_t *ret_timeout_ns);

/* As the wire has it, where forever is a very long time. */
uint64_t session_wire_timeout(int64_t timeout_ns);

/* Asks with the session's own time-out. */
int session_ask(struct tca *session, const Tca__Message *question, Tca__Message__BodyCase expected,
                struct answer *ret_answer);

/* Asks for something that may take its time at the daemon, which is told how long: it answers by
 * then, and with a better text than we could, so it is given a little longer here. */
int session_ask_patiently(struct tca *session, const Tca__Message *question,
                          Tca__Message__BodyCase expected, int64_t timeout_ns,
                          struct answer *ret_answer);

/* Reads the events that have come. Returns session->control.lost. */
int session_drain(struct tca *session);

/* What comes cannot be taken up, for that reason: notifications cannot be trusted any more. */
void session_lose(struct tca *session, int error);

/* Joins the group that session->identity names. */
int group_join(struct tca *session, int64_t timeout_ns);
