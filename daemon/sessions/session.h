/* A session: one connected client process, and all it owns here. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/base/table.h"
#include "daemon/sessions/user.h"
#include "drivers/shm/ways.h"
#include "proto/segment.h"
#include "proto/tca.pb-c.h"

struct client; /* client.h */
struct loop_timer;
struct engine_session;
struct plan;
struct region;
struct tcad;

struct session_member {
    uint32_t node;
    uint64_t session;
    uint64_t incarnation;
    bool known;
};

struct session {
    struct tcad *tcad;
    struct session *next, **link; /* in tcad->sessions */
    struct table_entry entry;     /* in tcad->session_ids */
    uint64_t id;
    uint64_t since_ns;
    pid_t pid;
    uid_t uid;
    char name[NAME_MAX_BYTES];
    bool closing;                 /* its process has gone, or broke the protocol; being freed */
    bool announced;               /* and everybody was told */
    struct loop_timer *last_call; /* until then */
    bool leaving;                 /* its client closes it */
    struct client *client;        /* NULL once the connection is gone */

    /* shared with the client */
    struct session_segment *segment;
    int segment_fd;
    struct notify_segment *notify;
    uint32_t sources; /* ranks that notify has lines for */
    int notify_fd;
    int engine_fd;              /* eventfd that wakes the engine */
    struct way_costs way_costs; /* that it was told to choose by */

    /* group: name "" and size 1 when it has joined none; members[size], all known once joined */
    char group[NAME_MAX_BYTES];
    uint32_t rank;
    uint32_t size;
    bool joined;
    uint32_t root; /* node */
    struct session_member *members;
    uint32_t group_requests; /* that the group's root has not answered yet */

    struct region *regions; /* list, region->next_of_session */
    uint32_t region_count;
    bool alloc_waits;     /* region_wait.c */
    bool bounces;         /* the engine has been told that it has some */
    uint32_t last_bounce; /* id */
    uint64_t region_bytes;
    struct plan **plans; /* [PLANS_PER_SESSION_MAX], allocated with the first plan */
    struct plan *plan_list;
    uint32_t last_plan; /* id */
    uint32_t plan_count;
    uint64_t plan_bytes;
    uint64_t step_count;
    struct engine_session *engine; /* belongs to the engine's thread */
    struct charge charge;          /* of its segments, its place in a group, its lanes */
    struct table lanes;            /* to others of this node, by their ids (lane.c) */
    struct lane_record *lanes_to;  /* from others */
    uint32_t notified_by; /* bindings that raise its counters or bounce into its memory: its
                             segments stay until they have gone */
};

/* What the rooms above this one do when something happens to a session or to what it owns: plans,
 * bindings, lanes, groups. setup.c fills it in. */
struct session_hooks {
    uint64_t (*bytes)(uint32_t sources); /* of memory that they use for a session of that size */
    void (*joined)(struct session *session); /* all members of its group are known */
    void (*ending)(struct session *session); /* releases its plans: session_plan_gone() for each */
    void (*gone)(struct session *session);   /* tells everybody */
    void (*freed)(struct session *session);  /* frees what they keep in it */
    void (*region_gone)(struct region *region); /* fails the plans that use it */
};

/* Makes one for a client that said hello: answers it with Welcome, or fails. NULL: failed. */
struct session *session_new(struct tcad *tcad, struct client *client, uint32_t tag,
                            const Tca__Hello *hello);
/* Its process has gone, or broke the rules (why; NULL: it went). Everything it owned is let go, in
 * the order that the engine needs; the session is freed when all of that is done. */
void session_end(struct session *session, const char *why);
/* A SessionClose: it waits for what it has started, and goes then. */
void session_close_request(struct session *session, uint32_t tag);
void session_plan_gone(struct session *session);  /* a plan was freed */
void session_unnotified(struct session *session); /* a binding was freed */

/* By id: NULL when it is gone or going. Asynchronous work keeps ids, not pointers. */
struct session *session_find(struct tcad *tcad, uint64_t id);
/* Also one that is going. */
struct session *session_find_any(const struct tcad *tcad, uint64_t id);

/* Whether this user's sessions may hold so many descriptors more in the daemon: the others need some
 * too. If not, `text` says what there is, and what to do. */
bool session_user_may_have(const struct tcad *tcad, uid_t uid, unsigned fds_more, char *text,
                           size_t text_bytes);

/* A name that a client chose for people to read: cut to length, one line, UTF-8. */
void session_take_name(char ret_name[static NAME_MAX_BYTES], const char *name);

/* A memfd of zeroes whose size nobody can change: the descriptor, or negative errno. */
int session_segment_fd(const char *name, size_t bytes);

/* Answers to the client; nothing happens when the client has gone. */
void session_answer(struct session *session, uint32_t tag, const Tca__Message *answer,
                    const int *fds, size_t fd_count);
void session_fail(struct session *session, uint32_t tag, int error, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* An event that nobody asked for; the `events` word tells the client to look, and it is woken if it
 * sleeps. */
void session_event(struct session *session, const Tca__Event *event);
void session_event_fds(struct session *session, const Tca__Event *event, const int *fds,
                       size_t fd_count);
/* Whether its client reads what it is sent: nothing waits for it here. */
bool session_reads(const struct session *session);
uint32_t session_backlog(const struct session *session);

/* A rank of this session's group is gone: marks it in the notification segment, wakes the client,
 * breaks plans that put there or wait for it. state: SOURCE_DEAD or SOURCE_NODE_DOWN. */
void session_source_gone(struct session *session, uint32_t rank, enum source_state state);
