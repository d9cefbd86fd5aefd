/* The daemon: what its parts share. Everything here belongs to the loop's thread. */
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

struct engine;
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
struct links;

/* What plans that are gone have done, so that counters do not fall when sessions end. */
struct rail_total {
    uint64_t starts, bytes;
};

/* See exposure.h. */
struct exposure {
    enum rail refused; /* RAIL_NONE: none */
    char why[96];
    char remedy[320];
    struct loop_timer *timer; /* NULL: nothing is watched */
    bool shut;                /* for want of descriptors nobody new may connect to a rail */
    uint64_t forged;          /* that were logged */
    int spare[256];           /* descriptors that are kept for clients */
    unsigned spare_count;
};

/* Plans that would go back to rails that they have lost (plan_return.c). */
struct plans_away {
    struct plan *first, *last;
    uint32_t count;
    uint32_t left; /* still to be looked at, in this look */
    struct loop_job job;
    struct loop_timer *timer; /* looks whether they can; runs while there are any */
};

struct tcad {
    struct tcad_conf *conf;
    struct cluster *cluster; /* conf->cluster: without a cluster file, one with this node only */
    const char *conf_path;   /* NULL: the default one */
    const char *const *overrides; /* of the command line, NULL at the end */
    bool is_system;               /* the machine's daemon, not a user's own */
    uint32_t node;
    uint64_t incarnation; /* random, never 0 */
    uint64_t since_ns;
    bool draining;
    bool shutting_down;
    struct loop_timer *shut_down_timer;

    struct loop *loop;
    struct worker *worker;
    struct worker *calibrator; /* NULL: nothing was measured yet */
    struct engine *engine;
    struct peers *peers;
    struct groups *groups;
    struct server *server;
    struct metrics *metrics;
    struct regions *regions;
    struct bindings *bindings;
    struct links *links;

    const struct session_hooks *session_hooks;
    struct session *sessions;
    struct table session_ids;
    struct users users;
    struct uses plan_uses; /* what the plans here need */
    uint32_t session_count;
    uint64_t next_session;
    uint64_t next_region;
    uint64_t last_mark; /* of links */

    struct cost_table costs;
    bool calibrated;
    struct rail_total past[RAIL_COUNT][SEAT_COUNT];
    struct exposure exposure;
    uint64_t rebound;  /* plans, so far: they lost a rail and have moved to another */
    uint64_t returned; /* and back */
    struct plans_away plans_away;
    struct waiting_alloc *allocs; /* region_wait.c */
    struct loop_timer *allocs_timer;
};

/* setup.c: makes the parts, in order, and lets them go again. text: what went wrong. */
int tcad_init(struct tcad *tcad, int listen_fd, char *text, size_t text_bytes);
void tcad_deinit(struct tcad *tcad);
/* Asks every session to end, and stops the loop when the last has; or after a second. */
void tcad_shut_down(struct tcad *tcad);

struct driver_config tcad_driver_config(const struct tcad *tcad);
int tcad_log_level(const struct tcad_conf *conf);
const char *tcad_log_target(const struct tcad_conf *conf);
