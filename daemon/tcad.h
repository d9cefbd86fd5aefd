/* State shared by all parts of the daemon. Loop's thread only. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "config/cluster.h"
#include "config/tcad_conf.h"
#include "daemon/base/loop.h"
#include "daemon/base/table.h"
#include "daemon/sessions/user.h"
#include "daemon/sessions/uses.h"
#include "drivers/cost.h"
#include "drivers/driver.h"

struct addresses;
struct engine;
struct flights;
struct groups;
struct peers;
struct plan;
struct server;
struct session;
struct session_hooks;
struct worker;
struct metrics;
struct regions;
struct bindings;
struct releases;
struct pair_hooks;
struct pairs;
struct links;
struct rails;
struct offload;

/* Totals of released plans, so that counters do not decrease when sessions end. */
struct rail_total {
    uint64_t starts, bytes;
};

/* See exposure.h. */
struct exposure {
    struct loop_timer *timer;    /* NULL: nothing is monitored */
    bool shut;                   /* out of descriptors: rails accept no new connections */
    uint64_t forged[RAIL_SLOTS]; /* number already logged */
    /* of abandoned connections (abandoned.h): in the last look, in the last two, and logged */
    uint64_t seen[RAIL_SLOTS], leaked[RAIL_SLOTS], leaks_logged[RAIL_SLOTS];
    int spare[256]; /* descriptors reserved for clients */
    unsigned spare_count;
};

/* Plans that wait for a better route (plan_watch.c). */
struct plans_watched {
    struct plan *first; /* not looked at yet in this round */
    struct plan *next;  /* in the next one */
    struct loop_job job;
    struct loop_timer *timer; /* checks whether they can; runs while there are any */
};

struct tcad {
    struct tcad_conf *conf;
    struct cluster *cluster;      /* conf->cluster; without a cluster file, only this node */
    const char *conf_path;        /* NULL: the default */
    const char *const *overrides; /* from the command line; the last one is NULL */
    bool is_system;               /* the machine's daemon, not a user's */
    uint32_t node;
    uint64_t incarnation; /* random, never 0 */
    uint64_t since_ns;
    bool draining;
    bool shutting_down;
    struct loop_timer *shut_down_timer;

    struct loop *loop;
    struct worker *worker;
    struct worker *dialler;              /* for what waits for other nodes; its lanes are nodes */
    struct worker *closer;               /* sessions/closer.h */
    struct worker *names;                /* looks up names of nodes (base/lookup.h) and users */
    struct worker *calibrator;           /* NULL: no calibration was started */
    struct engine *engine;               /* the first: it has the rails */
    struct engine *engines[ENGINES_MAX]; /* all, the first first */
    unsigned engine_count;
    char user_name[64];    /* of the daemon's user; the number, until it has been looked up */
    struct addresses *own; /* of control.listen; NULL: not looked up, as there are no other nodes */
    struct peers *peers;
    struct groups *groups;
    struct flights *flights;
    struct server *server;
    struct metrics *metrics;
    struct regions *regions;
    struct bindings *bindings;
    struct releases *releases;
    struct pairs *pairs;
    struct links *links;
    struct rails *rails;
    struct offload *offload;

    const struct session_hooks *session_hooks;
    const struct pair_hooks *pair_hooks;
    struct session *sessions;
    struct table session_ids;
    struct users users;
    struct uses plan_uses; /* subjects used by this node's plans */
    uint32_t session_count;
    uint64_t descriptors_limit; /* at the start */
    uint64_t own_descriptors;   /* that rails and connections to other nodes need (descriptors.h) */
    uint64_t next_session;
    uint64_t last_plan; /* serial number */
    uint64_t next_region;
    uint64_t last_mark; /* see link.mark */

    struct cost_table costs;
    bool calibrated;
    struct rail_total past[RAIL_SLOTS][SEAT_COUNT];
    struct exposure exposure;
    uint64_t rebound;   /* number of moves of plans from a failed rail to another */
    uint64_t returned;  /* number of moves back */
    uint64_t tried;     /* number of moves that clients asked for, which tried rails */
    uint64_t risen;     /* number of plans that got the pairs for which they waited */
    uint64_t inherited; /* number of commits that took over the bindings of a released plan */
    struct plans_watched plans_watched;
    struct waiting_alloc *allocs; /* region_wait.c */
    struct loop_timer *allocs_timer;
};

/* setup.c: creates the parts in order, and frees them. text describes an error. */
int tcad_init(struct tcad *tcad, int listen_fd, char *text, size_t text_bytes);
void tcad_deinit(struct tcad *tcad);
/* Ends all sessions and stops the loop when the last one is gone, or after a second. */
void tcad_shut_down(struct tcad *tcad);

int tcad_log_level(const struct tcad_conf *conf);
const char *tcad_log_target(const struct tcad_conf *conf);
