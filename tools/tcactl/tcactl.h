/* Shared by the verbs: the command line, the connection, exit codes. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/include/tca-admin.h"
#include "client/include/tca-coll.h"
#include "tools/tcactl/render.h"
#include "tools/tcactl/screen.h"

enum exit_code {
    EXIT_OK = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_NOT_RUNNING = 3,
    EXIT_PERMISSION = 4,
    EXIT_DEGRADED = 5,
    EXIT_TIMEOUT = 6,
};

enum { PINGS_MAX = 1000 }; /* as in daemon/control/ping.c */

/* Options that only some verbs accept. */
enum option_bit {
    OPTION_COUNT = 1 << 0,    /* -c, -n */
    OPTION_INTERVAL = 1 << 1, /* -i */
    OPTION_DOT = 1 << 2,
    OPTION_SVG = 1 << 3,
    OPTION_OPENMETRICS = 1 << 4,
    OPTION_CLUSTER = 1 << 5,
    OPTION_STRICT = 1 << 6,
    OPTION_PPN = 1 << 7,
    OPTION_RANKFILE = 1 << 8,
    OPTION_HOSTLIST = 1 << 9,
    OPTION_RANKS = 1 << 10,
    OPTION_SUBCLUSTER = 1 << 11,
    OPTION_ROOT = 1 << 12,
    OPTION_ALGORITHM = 1 << 13,
    OPTION_SEGMENT = 1 << 14,
    OPTION_STEPS = 1 << 15,
    OPTION_ALONE = 1 << 16,
    OPTION_WAIT = 1 << 17,
    OPTION_STATE = 1 << 18,
    OPTION_JOB = 1 << 19,
    OPTION_ALL = 1 << 20,
};

struct tcactl {
    const char *socket; /* NULL: the library's default */
    bool node_chosen;   /* by -N, which sets TCA_NODE */
    bool json;
    bool helps;         /* --help */
    int64_t timeout_ns; /* TCA_DEFAULT unless given */
    struct screen screen;

    unsigned given; /* set of option_bit */
    unsigned count;
    double interval_s, wait_s;
    unsigned per_node; /* --ppn */
    const char *svg, *cluster_file;
    const char *state, *job;              /* NULL: any */
    unsigned ranks, per_subcluster, root; /* of tcactl simulate */
    const char *algorithm, *segment;

    struct tca_admin *admin; /* NULL: not connected */
    const char *verb;        /* for messages */
};

struct verb {
    const char *name;
    const char *arguments; /* for help */
    const char *summary;
    int min_arguments, max_arguments;
    unsigned options;
    /* For most verbs: asks for the document with the verb's name and renders it. */
    render_function *render;
    /* For other verbs; the exit code. */
    int (*run)(struct tcactl *tcactl, int count, char **arguments);
};

extern const struct verb verbs[]; /* ends with a NULL name */

/* Sends a request, connecting first if necessary. 0 good, 1 degraded, or a negative errno without
 * an error message. */
int tcactl_ask(struct tcactl *tcactl, const char *verb, const char *argument, char **ret_text);
void tcactl_disconnect(struct tcactl *tcactl);
/* Prints the error to stderr and returns the exit code for it. */
int tcactl_failed(const struct tcactl *tcactl, int error);
/* Parses a document; NULL after an error message. */
json_t *tcactl_parse(const struct tcactl *tcactl, const char *text);
/* Prints a document as JSON: unchanged, or with line breaks on a terminal. */
void tcactl_print_json(const struct tcactl *tcactl, const char *text);
/* Prints tcactl's own document, as JSON or rendered, and releases it. Returns EXIT_OK. */
int tcactl_print(const struct tcactl *tcactl, json_t *doc, render_function *render);
/* An exit code for the contents of a document. */
typedef int judge_function(const struct tcactl *tcactl, const json_t *doc);
/* Sends a request, prints the reply, and returns the exit code; judge may be NULL. */
int tcactl_show(struct tcactl *tcactl, const char *verb, const char *argument,
                render_function *render, judge_function *judge);

int run_ready(struct tcactl *tcactl, int count, char **arguments);
int run_status(struct tcactl *tcactl, int count, char **arguments);
int run_topology(struct tcactl *tcactl, int count, char **arguments);
int run_plan(struct tcactl *tcactl, int count, char **arguments);
int run_stats(struct tcactl *tcactl, int count, char **arguments);
int run_watch(struct tcactl *tcactl, int count, char **arguments);
int run_ping(struct tcactl *tcactl, int count, char **arguments);
int run_nodes(struct tcactl *tcactl, int count, char **arguments);
int run_sessions(struct tcactl *tcactl, int count, char **arguments);
int run_why(struct tcactl *tcactl, int count, char **arguments);
int run_reload(struct tcactl *tcactl, int count, char **arguments);
int run_drain(struct tcactl *tcactl, int count, char **arguments);
int run_calibrate(struct tcactl *tcactl, int count, char **arguments);
int run_env(struct tcactl *tcactl, int count, char **arguments);
int run_place(struct tcactl *tcactl, int count, char **arguments);
int run_simulate(struct tcactl *tcactl, int count, char **arguments);
int run_wisdom(struct tcactl *tcactl, int count, char **arguments);
int run_config(struct tcactl *tcactl, int count, char **arguments);
/* "config check": checks the file, or, if it is NULL, the daemon's configuration. */
int run_check(struct tcactl *tcactl, const char *file);
