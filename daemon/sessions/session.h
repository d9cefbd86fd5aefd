/* A session: a connected client process and everything it owns in this daemon. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/base/table.h"
#include "daemon/sessions/lines.h"
#include "daemon/sessions/members.h"
#include "daemon/sessions/region_views.h"
#include "daemon/sessions/user.h"
#include "daemon/sessions/withdrawals.h"
#include "drivers/shm/copy_modes.h"
#include "proto/costs.h"
#include "proto/message.h"
#include "proto/segment.h"

struct client; /* client.h */
struct loop_timer;
struct engine_session;
struct pair;
struct plan;
struct region;
struct tcad;

struct session {
    struct tcad *tcad;
    struct session *next, **link; /* in tcad->sessions */
    struct table_entry entry;     /* in tcad->session_ids */
    uint64_t id;
    uint64_t since_ns;
    pid_t pid; /* here; 0: its PID namespace is not within tcad's */
    uid_t uid;
    char name[NAME_MAX_BYTES];
    bool closing;                 /* its process has ended or broken the protocol; being freed */
    bool announced;               /* hooks->gone() was called */
    struct loop_timer *last_call; /* limits the time until then */
    bool leaving;                 /* its client has requested SessionClose */
    struct client *client;        /* NULL: the connection has ended */

    /* shared with the client */
    struct session_segment *segment;
    int segment_fd;
    struct notify_segment *notify;
    struct lines lines; /* in `notify` */
    uint32_t sources;   /* ranks that may notify it */
    int notify_fd;
    int engine_fd; /* eventfd that wakes the engine */

    /* group: name "" and size 1 until it joins one */
    char group[NAME_MAX_BYTES];
    uint32_t rank;
    uint32_t size;
    bool joined;
    uint32_t root;            /* node */
    struct members *self;     /* the list of this session alone */
    struct members *members;  /* its group's; until it has joined, self */
    struct reach_costs costs; /* of all members' nodes; once joined */
    uint32_t group_requests;  /* pending at the group's root */

    struct region *regions; /* list, region->next_of_session */
    uint32_t region_count;
    bool alloc_waits; /* region_wait.c */
    bool imports;     /* region_import.c */
    struct withdrawals withdrawals;
    uint64_t region_bytes;
    struct plan **plans; /* [PLANS_PER_SESSION_MAX], allocated with the first plan */
    struct plan *plan_list;
    uint32_t last_plan;            /* id */
    struct plan *unreported_plans; /* broken ones that the client does not know of yet */
    bool telling_plans;
    struct client_wait unreported_wait;
    uint32_t released_plans; /* closing: ids below this were released, by: */
    struct loop_job release_job;
    uint32_t releasing,
        released; /* plans released together: under way, and gone but not answered */
    uint32_t plan_count;
    uint64_t plan_bytes;
    uint64_t step_count;
    struct engine_session *engine; /* belongs to the engine's thread */
    struct charge charge;          /* of its segments, its group membership, its lanes */
    struct region_views views;
    struct pair *pairs; /* of its process with others (daemon/bindings/pairs.h) */
    uint32_t pair_count;
    uint32_t pair_rails;          /* bit per rail whose device its process can use */
    bool located;                 /* `place` is known: */
    int place;                    /* where its process runs (daemon/rails/nearness.h) */
    struct table lanes;           /* to other sessions of this node, by their ids (lane.c) */
    struct lane_record *lanes_to; /* from other sessions */
    uint32_t notified_by; /* bindings that use its counters, which keep its segments, and others
                             that keep it */
};

/* Callbacks of the folders above this one (plans, bindings, lanes, groups). setup.c fills them
 * in. */
struct session_hooks {
    /* for the Welcome: the rails by index, from 1; how many */
    unsigned (*rails)(const struct tcad *tcad, Tca__Rail ret_rails[static RAILS_MAX]);
    const char *(*rail_name)(const struct tcad *tcad, unsigned rail);
    uint64_t (*bytes)(void);                 /* memory they need for a session */
    void (*joined)(struct session *session); /* all members of its group are known */
    void (*ending)(struct session *session); /* release its plans: session_plan_gone() for each */
    void (*gone)(struct session *session);   /* inform all others of its end */
    void (*freed)(struct session *session);  /* free their members of it */
    /* a session of another node, which is in a group with one of this node, has ended */
    void (*gone_there)(struct tcad *tcad, uint32_t node, uint64_t session, int error);
    void (*region_gone)(struct region *region, int error); /* fail the plans that use it */
};

/* Whether a session of the user would be refused now, but not once those that have ended, or are
 * about to, have gone. */
bool session_opens_soon(const struct tcad *tcad, uid_t uid);
/* Creates a session for a client's Hello, and replies with Welcome or Failure. NULL: it failed. */
struct session *session_new(struct tcad *tcad, struct client *client, uint32_t tag,
                            const Tca__Hello *hello);
/* The session's process has ended (why: NULL) or broken the protocol. Releases everything it owns
 * in the order that the engine requires; the session is freed when that is complete. */
void session_end(struct session *session, const char *why);
/* SessionClose: the client waits for its starts before it ends. */
void session_close_request(struct session *session, uint32_t tag);
void session_plan_gone(struct session *session);  /* a plan was freed */
void session_unnotified(struct session *session); /* a binding was freed */

/* Why its regions go: -ESTALE (it frees them), or -EOWNERDEAD or -EHOSTDOWN (its process or this
 * daemon ends). */
int session_end_error(const struct session *session);

/* NULL if it is closed or closing. Asynchronous work keeps ids, not pointers. */
struct session *session_find(struct tcad *tcad, uint64_t id);
/* Also finds a closing session. */
struct session *session_find_any(const struct tcad *tcad, uint64_t id);

/* The notification line of (rank, slot), which it is given if it has none. -EDQUOT, -ENOSPC or
 * -ENOMEM: text says of what there is not enough. */
int session_line(struct session *session, uint32_t rank, uint32_t slot, uint32_t *ret_line,
                 char *text, size_t text_bytes);

/* Copies a display name chosen by a client: truncated, one line, UTF-8. */
void session_take_name(char ret_name[static NAME_MAX_BYTES], const char *name);

/* Creates a zeroed memfd whose size is sealed: the descriptor or a negative errno. */
int session_segment_fd(const char *name, size_t bytes);

/* Send a reply to the client; no effect if the connection has ended. */
void session_answer(struct session *session, uint32_t tag, const Tca__Message *answer,
                    const int *fds, size_t fd_count);
/* The reply to a request that returns nothing. */
static inline void session_done(struct session *session, uint32_t tag)
{
    Tca__Done done = TCA__DONE__INIT;
    const Tca__Message message = MESSAGE_OF(DONE, done, &done);
    session_answer(session, tag, &message, NULL, 0);
}
void session_fail(struct session *session, uint32_t tag, int error, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Sends an event. The `events` word makes the client read the socket; wakes a sleeping client. */
void session_event(struct session *session, const Tca__Event *event);
/* The same, packed already (memfd, not owned), unless that is negative. */
void session_event_packed(struct session *session, const Tca__Event *event, int memfd,
                          size_t bytes);
void session_event_fds(struct session *session, const Tca__Event *event, const int *fds,
                       size_t fd_count);
/* Whether no messages are queued for the client; and their number. */
bool session_reads(const struct session *session);
uint32_t session_backlog(const struct session *session);
/* Before an event that can come by the thousand: true if so many messages are queued that it has to
 * wait. wait->drained() then runs as after client_await_drained(). */
bool session_must_wait(struct session *session, struct client_wait *wait);
/* Whether there can be no such events, because the client has read none of as many messages for a
 * second; text describes that. */
bool session_refuses(const struct session *session, char *text, size_t text_bytes);
/* If messages are queued, returns true, and waits until they are sent: client_await_drained(). */
bool session_await_reader(struct session *session, struct client_wait *wait);

/* A rank of this session's group has ended: marks it in the notification segment and sends the
 * client an event. state: SOURCE_DEAD or SOURCE_NODE_DOWN. */
void session_sources_gone(struct session *session, const uint32_t *ranks, size_t count,
                          enum source_state state);
