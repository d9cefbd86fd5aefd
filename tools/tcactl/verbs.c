#include <stdlib.h>
#include <string.h>

#include "tools/common/must.h"
#include "tools/tcactl/doc.h"
#include "tools/tcactl/tcactl.h"

enum { PINGS_MAX = 1000 }; /* as in daemon/control/ping.c */

const struct verb verbs[] = {
    {"status", "[--strict]", "the daemon, its cluster and its rails", .run = run_status,
     .options = OPTION_STRICT},
    {"nodes", "", "the nodes of the cluster, as this one sees them", .render = render_nodes},
    {"topology", "[--dot | --svg FILE]", "nodes, links and this machine", .run = run_topology,
     .options = OPTION_DOT | OPTION_SVG},
    {"sessions", "", "connected processes", .render = render_sessions},
    {"users", "", "what each user holds, of what limit", .render = render_users},
    {"regions", "", "memory they have registered", .render = render_regions},
    {"plans", "", "transfers they have planned", .render = render_plans},
    {"plan", "[explain] SESSION.PLAN", "one plan: its steps, and why it runs on that rail",
     .min_arguments = 1, .max_arguments = 2, .run = run_plan},
    {"stats", "[WORD | --openmetrics]", "counters and gauges, those with WORD in their name",
     .max_arguments = 1, .run = run_stats, .options = OPTION_OPENMETRICS},
    {"watch", "[-i SECONDS] [-n COUNT]", "status and rates, over and over", .run = run_watch,
     .options = OPTION_INTERVAL | OPTION_COUNT},
    {"ping", "NODE [-c COUNT]", "the time to another node's daemon and back", .min_arguments = 1,
     .max_arguments = 1, .run = run_ping, .options = OPTION_COUNT},
    {"reload", "", "read the configuration again", .run = run_reload},
    {"drain", "on|off", "refuse new sessions, or take them again", .min_arguments = 1,
     .max_arguments = 1, .run = run_drain},
    {"calibrate", "", "measure the rails again", .run = run_calibrate},
    {"env", "", "environment variables, and the socket in use", .run = run_env},
    {"config", "", "the configuration in force", .max_arguments = 2, .run = run_config,
     .options = OPTION_CLUSTER},
    {.name = "config check",
     .arguments = "[FILE] [--cluster FILE]",
     .summary = "whether a configuration is good: the daemon's, or a FILE"},
    {0},
};

int run_plan(struct tcactl *tcactl, int count, char **arguments)
{
    size_t n = strlen(arguments[0]);

    if (count == 2 && n > 0 && strncmp(arguments[0], "explain", n) == 0)
        return tcactl_show(tcactl, "plan", arguments[1], render_plan);
    if (count == 1 && strspn(arguments[0], "0123456789.") == n)
        return tcactl_show(tcactl, "plan", arguments[0], render_plan);
    fprintf(
        stderr,
        "tcactl: plan: give the plan as SESSION.PLAN, as in \"tcactl plan explain 3.0\"; \"tcactl "
        "plans\" lists them\n");
    return EXIT_USAGE;
}

/* A health check of this node: peers that are down count only when they are asked for. */
int run_status(struct tcactl *tcactl, int count, char **arguments)
{
    char *text = NULL;
    int r = tcactl_ask(tcactl, "status", NULL, &text);

    if (r < 0)
        return tcactl_failed(tcactl, r);
    json_t *doc = tcactl_parse(tcactl, text);
    int code = !doc ? EXIT_FAILED : r > 0 ? EXIT_DEGRADED : EXIT_OK;
    if (tcactl->json)
        tcactl_print_json(tcactl, text);
    else if (doc)
        render_status(doc, &tcactl->screen);
    if (code == EXIT_OK && tcactl->given & OPTION_STRICT && !doc_true(doc, "cluster.ready"))
        code = EXIT_DEGRADED;
    json_decref(doc);
    free(text);
    return code;
}

int run_stats(struct tcactl *tcactl, int count, char **arguments)
{
    char *text = NULL;
    bool metrics = tcactl->given & OPTION_OPENMETRICS;

    if (metrics && (tcactl->json || count > 0)) {
        fputs("tcactl: stats: --openmetrics is a format of its own and shows all: use it without "
              "--json "
              "and WORD\n",
              stderr);
        return EXIT_USAGE;
    }
    int r = tcactl_ask(tcactl, metrics ? "metrics" : "stats", NULL, &text);
    if (r < 0)
        return tcactl_failed(tcactl, r);
    int code = r > 0 ? EXIT_DEGRADED : EXIT_OK;
    if (metrics) {
        fputs(text, tcactl->screen.to);
    } else if (tcactl->json) {
        tcactl_print_json(tcactl, text);
    } else {
        json_t *doc = tcactl_parse(tcactl, text);
        if (doc)
            code = render_stats(doc, count > 0 ? arguments[0] : NULL, &tcactl->screen)
                       ? code
                       : EXIT_FAILED;
        else
            code = EXIT_FAILED;
        json_decref(doc);
    }
    free(text);
    return code;
}

/* Asks, and when the answer is there, lets `judge` find fault with it. */
static int show_and_judge(struct tcactl *tcactl, const char *verb, const char *argument,
                          render_function *render, bool (*judge)(const json_t *doc))
{
    char *text = NULL;
    int r = tcactl_ask(tcactl, verb, argument, &text);

    if (r < 0)
        return tcactl_failed(tcactl, r);
    int code = r > 0 ? EXIT_DEGRADED : EXIT_OK;
    json_t *doc = tcactl_parse(tcactl, text);
    if (tcactl->json)
        tcactl_print_json(tcactl, text);
    else if (doc)
        render(doc, &tcactl->screen);
    if (!doc || !judge(doc))
        code = EXIT_FAILED;
    json_decref(doc);
    free(text);
    return code;
}

static bool ping_answered(const json_t *doc)
{
    return doc_integer(doc, "lost") < doc_integer(doc, "count");
}

int run_ping(struct tcactl *tcactl, int count, char **arguments)
{
    char *argument = NULL;
    unsigned times = tcactl->given & OPTION_COUNT ? tcactl->count : 5;

    if (times > PINGS_MAX) {
        fprintf(stderr, "tcactl: ping: -c %u: give a count from 1 to %d\n", times, PINGS_MAX);
        return EXIT_USAGE;
    }
    if (asprintf(&argument, "%s %u", arguments[0], times) < 0)
        argument = must(NULL);
    int code = show_and_judge(tcactl, "ping", argument, render_ping, ping_answered);
    free(argument);
    return code;
}

static bool reload_without_errors(const json_t *doc)
{
    return doc_count(doc, "errors") == 0;
}

int run_reload(struct tcactl *tcactl, int count, char **arguments)
{
    return show_and_judge(tcactl, "reload", NULL, render_reload, reload_without_errors);
}

int run_drain(struct tcactl *tcactl, int count, char **arguments)
{
    if (strcmp(arguments[0], "on") != 0 && strcmp(arguments[0], "off") != 0) {
        fprintf(stderr, "tcactl: drain: \"%s\" is neither on nor off\n", arguments[0]);
        return EXIT_USAGE;
    }
    return tcactl_show(tcactl, "drain", arguments[0], render_drain);
}

int run_calibrate(struct tcactl *tcactl, int count, char **arguments)
{
    /* It moves gigabytes over every rail: the time-out of ordinary questions is too short. */
    if (tcactl->timeout_ns == TCA_DEFAULT)
        tcactl->timeout_ns = 120 * INT64_C(1000000000);
    return tcactl_show(tcactl, "calibrate", NULL, render_calibrate);
}

int run_config(struct tcactl *tcactl, int count, char **arguments)
{
    size_t n = count > 0 ? strlen(arguments[0]) : 0;

    if (n > 0 && strncmp(arguments[0], "check", n) == 0)
        return run_check(tcactl, count == 2 ? arguments[1] : NULL);
    if (count > 0 || tcactl->given & OPTION_CLUSTER) {
        fputs("tcactl: config: either \"tcactl config\" or \"tcactl config check [FILE] [--cluster "
              "FILE]\"\n",
              stderr);
        return EXIT_USAGE;
    }
    return tcactl_show(tcactl, "config", NULL, render_config);
}
