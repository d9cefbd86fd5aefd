#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/common/must.h"
#include "tools/tcactl/doc.h"
#include "tools/tcactl/tcactl.h"

const struct verb verbs[] = {
    {"status", "[--strict]", "the daemon, its cluster and its rails", .run = run_status,
     .options = OPTION_STRICT},
    {"ready", "[--alone] [--wait SECONDS]", "whether this node can work, for scripts",
     .run = run_ready, .options = OPTION_ALONE | OPTION_WAIT},
    {"nodes", "[HOSTLIST] [--state STATE]", "the nodes of the cluster, as seen from this one",
     .max_arguments = 1, .run = run_nodes, .options = OPTION_STATE},
    {"topology", "[--dot | --svg FILE]", "nodes, links and this machine", .run = run_topology,
     .options = OPTION_DOT | OPTION_SVG},
    {"sessions", "[--job JOB]", "connected processes", .run = run_sessions, .options = OPTION_JOB},
    {"users", "", "resources of each user, and their limits", .render = render_users},
    {"regions", "", "registered memory", .render = render_regions},
    {"offload", "", "offload processors and their queues", .render = render_offload},
    {"plans", "", "planned transfers", .render = render_plans},
    {"plan", "[explain] SESSION.PLAN", "one plan: its steps, and the choice of its rail",
     .min_arguments = 1, .max_arguments = 2, .run = run_plan},
    {"stats", "[WORD | --openmetrics]", "counters and gauges whose name contains WORD",
     .max_arguments = 1, .run = run_stats, .options = OPTION_OPENMETRICS},
    {"watch", "[-i SECONDS] [-n COUNT]", "status and rates, repeatedly", .run = run_watch,
     .options = OPTION_INTERVAL | OPTION_COUNT},
    {"ping", "NODE | --all [-c COUNT]", "the round-trip time to another node's daemon",
     .max_arguments = 1, .run = run_ping, .options = OPTION_COUNT | OPTION_ALL},
    {"why", "NODE", "why a node cannot be reached, and the remedy", .min_arguments = 1,
     .max_arguments = 1, .run = run_why},
    {"reload", "", "reload the configuration", .run = run_reload},
    {"drain", "on [--wait SECONDS] | off", "refuse new sessions, or accept them again",
     .min_arguments = 1, .max_arguments = 1, .run = run_drain, .options = OPTION_WAIT},
    {"calibrate", "", "measure the rails again", .run = run_calibrate},
    {"place", "GRID [ARRAY] [--ppn P]", "which rank of a process grid to run where",
     .min_arguments = 1, .max_arguments = 2, .run = run_place,
     .options = OPTION_PPN | OPTION_RANKFILE | OPTION_HOSTLIST},
    {"simulate", "OPERATION [BYTES] [--ranks N]", "what a collective operation does, and when",
     .min_arguments = 1, .max_arguments = 2, .run = run_simulate,
     .options = OPTION_RANKS | OPTION_PPN | OPTION_SUBCLUSTER | OPTION_ROOT | OPTION_ALGORITHM |
                OPTION_SEGMENT | OPTION_STEPS},
    {"env", "", "environment variables, and the socket in use", .run = run_env},
    {"wisdom", "[clear]", "what your plans have found by trial", .max_arguments = 1,
     .run = run_wisdom},
    {"config", "", "the effective configuration", .max_arguments = 2, .run = run_config,
     .options = OPTION_CLUSTER},
    {.name = "config check",
     .arguments = "[FILE] [--cluster FILE]",
     .summary = "check a configuration: the daemon's, or a FILE"},
    {0},
};

int run_plan(struct tcactl *tcactl, int count, char **arguments)
{
    size_t n = strlen(arguments[0]);

    if (count == 2 && n > 0 && strncmp(arguments[0], "explain", n) == 0)
        return tcactl_show(tcactl, "plan", arguments[1], render_plan, NULL);
    if (count == 1 && strspn(arguments[0], "0123456789.") == n)
        return tcactl_show(tcactl, "plan", arguments[0], render_plan, NULL);
    fprintf(stderr, "tcactl: plan: write SESSION.PLAN, as in \"tcactl plan explain 3.0\"; \"tcactl "
                    "plans\" lists the plans\n");
    return EXIT_USAGE;
}

/* A health check of this node: other nodes count only with --strict, for which tcad asks all of
 * them. */
static int judge_status(const struct tcactl *tcactl, const json_t *doc)
{
    bool strict = tcactl->given & OPTION_STRICT;
    return strict && !doc_true(doc, "cluster.ready") ? EXIT_DEGRADED : EXIT_OK;
}

int run_status(struct tcactl *tcactl, int count, char **arguments)
{
    const bool strict = tcactl->given & OPTION_STRICT;
    if (strict &&
        tcactl->timeout_ns == TCA_DEFAULT) /* control.request_timeout, for a few nodes at a time */
        tcactl->timeout_ns = 120 * INT64_C(1000000000);
    return tcactl_show(tcactl, "status", strict ? "strict" : NULL, render_status, judge_status);
}

int run_stats(struct tcactl *tcactl, int count, char **arguments)
{
    char *text = NULL;
    bool metrics = tcactl->given & OPTION_OPENMETRICS;

    if (metrics && (tcactl->json || count > 0)) {
        fputs("tcactl: stats: --openmetrics shows all statistics in its own format: use it without "
              "--json and WORD\n",
              stderr);
        return EXIT_USAGE;
    }
    int r = tcactl_ask(tcactl, metrics ? "metrics" : "stats", NULL, &text);
    if (r < 0)
        return tcactl_failed(tcactl, r);
    int code = r > 0 ? EXIT_DEGRADED : EXIT_OK;
    json_t *doc = metrics ? NULL : tcactl_parse(tcactl, text);
    if (metrics)
        fputs(text, tcactl->screen.to);
    else if (!doc || (count > 0 && !stats_select(doc, arguments[0])))
        code = EXIT_FAILED;
    if (doc)
        tcactl_print(tcactl, doc, render_stats);
    free(text);
    return code;
}

/* Asks for a list, and drops the rows of which `keep` says so. */
static int show_rows(struct tcactl *tcactl, const char *verb, const char *argument,
                     bool (*keep)(const struct tcactl *tcactl, const json_t *row),
                     render_function *render)
{
    char *text = NULL;
    const int r = tcactl_ask(tcactl, verb, argument, &text);
    if (r < 0)
        return tcactl_failed(tcactl, r);
    json_t *doc = tcactl_parse(tcactl, text), *list = json_object_get(doc, verb);
    for (size_t i = json_array_size(list); i > 0; i--)
        if (!keep(tcactl, json_array_get(list, i - 1)))
            json_array_remove(list, i - 1);
    free(text);
    return doc ? tcactl_print(tcactl, doc, render) : EXIT_FAILED;
}

static bool has_state(const struct tcactl *tcactl, const json_t *node)
{
    return !tcactl->state || strcmp(doc_text(node, "state"), tcactl->state) == 0;
}

int run_nodes(struct tcactl *tcactl, int count, char **arguments)
{
    return show_rows(tcactl, "nodes", count > 0 ? arguments[0] : NULL, has_state, render_nodes);
}

/* The group is the job, a step of it ("17.0" of job 17), or either "@NODE". */
static bool is_of_job(const struct tcactl *tcactl, const json_t *session)
{
    const char *group = doc_text(session, "group");
    const size_t length = tcactl->job ? strlen(tcactl->job) : 0;
    return !tcactl->job || (strncmp(group, tcactl->job, length) == 0 &&
                            (group[length] == '\0' || strchr(".@", group[length])));
}

int run_sessions(struct tcactl *tcactl, int count, char **arguments)
{
    return show_rows(tcactl, "sessions", NULL, is_of_job, render_sessions);
}

static int judge_ping(const struct tcactl *tcactl, const json_t *doc)
{
    return doc_integer(doc, "lost") < doc_integer(doc, "count") ? EXIT_OK : EXIT_FAILED;
}

int run_ping(struct tcactl *tcactl, int count, char **arguments)
{
    char *argument = NULL;
    unsigned times = tcactl->given & OPTION_COUNT ? tcactl->count : 5;

    if (times > PINGS_MAX) {
        fprintf(stderr, "tcactl: ping: -c %u: write a count from 1 to %d\n", times, PINGS_MAX);
        return EXIT_USAGE;
    }
    if ((count == 0) != ((tcactl->given & OPTION_ALL) != 0)) {
        fputs("tcactl: ping: write one NODE, or --all\n", stderr);
        return EXIT_USAGE;
    }
    if (asprintf(&argument, "%s %u", count == 0 ? "*" : arguments[0], times) < 0)
        argument = must(NULL);
    int code = count == 0 ? tcactl_show(tcactl, "ping", argument, render_pings, NULL)
                          : tcactl_show(tcactl, "ping", argument, render_ping, judge_ping);
    free(argument);
    return code;
}

static int judge_why(const struct tcactl *tcactl, const json_t *doc)
{
    return strcmp(doc_text(doc, "state"), "up") == 0 ? EXIT_OK : EXIT_FAILED;
}

int run_why(struct tcactl *tcactl, int count, char **arguments)
{
    return tcactl_show(tcactl, "why", arguments[0], render_why, judge_why);
}

static int judge_reload(const struct tcactl *tcactl, const json_t *doc)
{
    return doc_count(doc, "errors") == 0 ? EXIT_OK : EXIT_FAILED;
}

int run_reload(struct tcactl *tcactl, int count, char **arguments)
{
    return tcactl_show(tcactl, "reload", NULL, render_reload, judge_reload);
}

/* Until no session is left, or the time has passed: then 5. */
static int wait_until_empty(struct tcactl *tcactl)
{
    const struct timespec pause = {.tv_nsec = 200 * 1000 * 1000};
    for (double left_s = tcactl->wait_s;; left_s -= 0.2) {
        char *text = NULL;
        const int r = tcactl_ask(tcactl, "status", NULL, &text);
        json_t *status = r < 0 ? NULL : tcactl_parse(tcactl, text);
        free(text);
        if (!status)
            return r < 0 ? tcactl_failed(tcactl, r) : EXIT_FAILED;
        const long long sessions = doc_integer(status, "sessions");
        json_t *doc = must(json_pack("{s:s, s:I}", "state", doc_text(status, "daemon.state"),
                                     "sessions", (json_int_t)sessions));
        json_decref(status);
        if (sessions == 0 || left_s <= 0) {
            tcactl_print(tcactl, doc, render_drain);
            return sessions == 0 ? EXIT_OK : EXIT_DEGRADED;
        }
        json_decref(doc);
        nanosleep(&pause, NULL);
    }
}

int run_drain(struct tcactl *tcactl, int count, char **arguments)
{
    if (strcmp(arguments[0], "on") != 0 && strcmp(arguments[0], "off") != 0) {
        fprintf(stderr, "tcactl: drain: \"%s\" is neither on nor off\n", arguments[0]);
        return EXIT_USAGE;
    }
    if (!(tcactl->given & OPTION_WAIT))
        return tcactl_show(tcactl, "drain", arguments[0], render_drain, NULL);
    char *text = NULL;
    const int r = tcactl_ask(tcactl, "drain", arguments[0], &text);
    free(text);
    return r < 0 ? tcactl_failed(tcactl, r) : wait_until_empty(tcactl);
}

int run_calibrate(struct tcactl *tcactl, int count, char **arguments)
{
    /* Calibration moves gigabytes over every rail and takes longer than other requests. */
    if (tcactl->timeout_ns == TCA_DEFAULT)
        tcactl->timeout_ns = 120 * INT64_C(1000000000);
    return tcactl_show(tcactl, "calibrate", NULL, render_calibrate, NULL);
}

int run_config(struct tcactl *tcactl, int count, char **arguments)
{
    size_t n = count > 0 ? strlen(arguments[0]) : 0;

    if (n > 0 && strncmp(arguments[0], "check", n) == 0)
        return run_check(tcactl, count == 2 ? arguments[1] : NULL);
    if (count > 0 || tcactl->given & OPTION_CLUSTER) {
        fputs("tcactl: config: use \"tcactl config\" or \"tcactl config check [FILE] [--cluster "
              "FILE]\"\n",
              stderr);
        return EXIT_USAGE;
    }
    return tcactl_show(tcactl, "config", NULL, render_config, NULL);
}
