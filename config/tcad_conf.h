/*
 * The daemon's configuration: tcad.conf, the -o overrides of the command line, defaults, and the
 * cluster file.
 *
 *   [section]
 *   key = value     # comment
 *
 * keys.c has the table of all keys, but for those of sections [rail NAME] (conf_rails.h);
 * tcad.conf(5) documents them. A loaded configuration is complete
 * and has been checked: its user needs no further checks and no defaults.
 */
#pragma once

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "config/address.h"
#include "config/conf_rails.h"
#include "config/errors.h"

struct cluster;
struct config_key;

enum conf_security { CONF_SECURITY_TLS, CONF_SECURITY_PLAIN };
enum conf_huge_pages { CONF_HUGE_PAGES_OFF, CONF_HUGE_PAGES_TRY, CONF_HUGE_PAGES_REQUIRE };
enum conf_rails {
    CONF_RAIL_SHM = 1 << 0,
    CONF_RAIL_OFI = 1 << 1,
    CONF_RAIL_PEACH2 = 1 << 2,
    CONF_RAIL_TCP = 1 << 3,
    CONF_RAIL_HCA = 1 << 4,
};
enum { ENGINES_MAX = 16 };
enum conf_calibration { CONF_CALIBRATION_OFF, CONF_CALIBRATION_AUTO };
enum conf_log_level { CONF_LOG_ERROR, CONF_LOG_WARNING, CONF_LOG_INFO, CONF_LOG_DEBUG };
enum conf_log_target { CONF_LOG_AUTO, CONF_LOG_STDERR, CONF_LOG_JOURNAL };

/* Strings and paths are owned by the configuration; NULL: none. Paths are absolute. Addresses with
 * an empty host: none. Enumerations and sets of them are uint32_t, so that the table can reach
 * them. */
struct tcad_conf {
    struct {
        uint32_t id;
        char *name;         /* never NULL */
        char *cluster_file; /* NULL: this node is alone */
        char *runtime_dir;  /* never NULL; may not exist yet */
        char *state_dir;    /* likewise */
    } node;
    struct {
        char *socket; /* never NULL; fits a sockaddr_un */
        uint32_t socket_mode;
        uint32_t is_private;          /* bool: users see only their own objects */
        struct config_address listen; /* for other daemons; none: alone */
        uint32_t security;            /* enum conf_security */
        char *key_file; /* of the cluster key; never NULL when TLS is needed. Read it through
                           config_secret_read() */
        uint64_t heartbeat_interval_ns;
        uint64_t heartbeat_timeout_ns;
        uint64_t request_timeout_ns;
    } control;
    struct {
        uint64_t base; /* of the address range reserved in every session's process */
        uint64_t reserved_bytes;
        uint64_t region_bytes;             /* of all of this node */
        uint64_t region_bytes_per_user;    /* at most that */
        uint64_t region_bytes_per_session; /* at most that */
        uint32_t huge_pages;               /* enum conf_huge_pages */
    } memory;
    struct {
        uint32_t sessions;
        uint32_t sessions_per_user;
        uint32_t regions_per_session;
        uint32_t plans_per_session;
        uint32_t steps_per_session;
        uint32_t pairs_per_session;
        uint32_t groups_per_user;
        uint32_t published_per_group;
        uint64_t plan_bytes_per_session;
        uint64_t bytes_per_user; /* in the daemon, without the memory of regions */
        uint64_t bytes;          /* of all users */
    } limits;
    uint64_t key_mark; /* tells two contents of key_file apart; 0: it was not read */
    struct {
        uint32_t threads; /* at most ENGINES_MAX */
        uint64_t spin_ns;
        uint64_t yield_ns;
        cpu_set_t cpus; /* to pin the engine threads to; empty: anywhere */
    } engine;
    struct {
        uint32_t enable;          /* set of enum conf_rails */
        char *ofi_provider;       /* NULL: libfabric's first choice */
        char *ofi_address;        /* NULL: any */
        uint32_t ofi_port;        /* 0: any free port */
        uint32_t ofi_unprotected; /* bool: allow providers without authentication */
        char *tcp_address;        /* NULL: any */
        uint32_t tcp_port;        /* 0: any free port */
        uint32_t tcp_security;    /* enum conf_security */
        uint32_t tcp_kernel_tls;  /* 0: never; else if it can be had */
        char *peach2_board;       /* control socket; never NULL */
        uint32_t peach2_rings;    /* rings of the sub-cluster; 0: chosen by its size */
        uint64_t peach2_window;   /* bytes */
        uint32_t calibration;     /* enum conf_calibration */
        char *calibration_file;   /* never NULL; may not exist yet */
        uint64_t segment_bytes;
        uint64_t stripe_bytes;    /* 0: never */
        uint64_t return_after_ns; /* 0: never */
    } rails;
    struct {
        char *device;    /* "loop", "auto" or the name of an RDMA device; NULL: none */
        uint32_t direct; /* bool: queues are handed over where the device allows it */
    } dcfa;
    struct {
        struct config_address listen; /* none: off */
    } metrics;
    struct {
        uint32_t level;  /* enum conf_log_level */
        uint32_t target; /* enum conf_log_target */
    } log;

    struct conf_rail *rail_list; /* of [rails] first, then those with a section */
    size_t rail_count;

    /* owned, never NULL; without a cluster file, one with this node only */
    struct cluster *cluster;
    char *file; /* the file that was read; NULL: none, all defaults */
    struct tcad_conf_origins *origins;
};

/*
 * Loads and checks everything: the file, then the overrides ("section.key=value"; NULL at the end,
 * the list may be NULL), then defaults.
 *
 * path NULL: tcad.conf in $CONFIGURATION_DIRECTORY (set by systemd), else in /etc/tcad (system,
 * with any installation prefix: systemd looks nowhere else) or ~/.config/tcad; it need not exist.
 * system: use the defaults of the system's daemon instead of a user's own.
 *
 * 0, -ENOMEM, or -EINVAL with all errors in errors. Reads the environment (HOME, XDG_*,
 * *_DIRECTORY): no other thread may change it meanwhile.
 */
int tcad_conf_load(const char *path, bool system, const char *const *overrides,
                   struct tcad_conf **ret_conf, struct config_errors *errors);
struct tcad_conf *tcad_conf_free(struct tcad_conf *conf);

/* The name of the file that tcad_conf_load(NULL, ...) reads, from malloc; NULL: out of memory, or
 * no home directory. */
char *tcad_conf_default_path(bool system);

/* The message of a successful check, with the name of the file, from malloc; NULL: out of
 * memory. */
char *tcad_conf_good(const struct tcad_conf *conf, bool system);

/* Writes the configuration as a commented file that can be loaded again. */
void tcad_conf_write(const struct tcad_conf *conf, FILE *to);
/* The value of one key as text for the file, from malloc; NULL: out of memory. */
char *tcad_conf_value(const struct tcad_conf *conf, const struct config_key *key);

/* Stores the keys whose values differ in ret_keys, which has room for CONFIG_KEYS_MAX, in the order
 * of the table, and returns their number. Does not compare the clusters: see cluster_diff(). */
size_t tcad_conf_diff(const struct tcad_conf *before, const struct tcad_conf *after,
                      const struct config_key **ret_keys);

/* The origin of a value: "default", "file" or "command line". */
const char *tcad_conf_origin(const struct tcad_conf *conf, const struct config_key *key);

/* A reload: swaps the values of all reloadable keys, and the cluster, between running and next. The
 * caller frees next, whose cluster is now the former one. The cluster is not swapped if this node's
 * id or name differs. */
void tcad_conf_adopt(struct tcad_conf *running, struct tcad_conf *next);
