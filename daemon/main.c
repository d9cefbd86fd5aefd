/* tcad: the per-node communication daemon. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "daemon/base/notify.h"
#include "daemon/base/remedy.h"
#include "daemon/base/signals.h"
#include "daemon/control/reload.h"
#include "daemon/sessions/guard.h"
#include "daemon/tcad.h"

enum { OVERRIDES_MAX = 256 };

struct arguments {
    const char *config;
    const char *overrides[OVERRIDES_MAX + 1];
    size_t override_count;
    bool check, show;
};

static const char usage[] =
    "Usage: tcad [-c FILE] [-o SECTION.KEY=VALUE]... [--check | --show-config]\n"
    "The communication daemon of a node; see tcad(8).\n"
    "\n"
    "  -c, --config FILE               the configuration (tcad.conf in /etc/tcad, or,\n"
    "                                  for a user's own daemon, in ~/.config/tcad)\n"
    "  -o, --option SECTION.KEY=VALUE  override a value of the file; may be repeated\n"
    "      --check                     check configuration and cluster file, and exit\n"
    "      --show-config               print the effective configuration, and exit\n"
    "  -h, --help                      print this text\n"
    "  -V, --version                   print the version\n"
    "\n"
    "tcad runs in the foreground. SIGHUP reloads the configuration; SIGTERM and\n"
    "SIGINT end it.\n";

/* The exit status, or -1 to continue. */
static int parse(int argc, char **argv, struct arguments *arguments)
{
    static const struct option options[] = {
        {"config", required_argument, NULL, 'c'},
        {"option", required_argument, NULL, 'o'},
        {"check", no_argument, NULL, 'C'},
        {"show-config", no_argument, NULL, 'S'},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},
        {NULL, 0, NULL, 0},
    };
    int option;
    while ((option = getopt_long(argc, argv, "c:o:hV", options, NULL)) >= 0) {
        switch (option) {
        case 'c':
            arguments->config = optarg;
            break;
        case 'o':
            if (arguments->override_count == OVERRIDES_MAX) {
                fprintf(stderr, "tcad: more than %d options -o\n", OVERRIDES_MAX);
                return 2;
            }
            arguments->overrides[arguments->override_count++] = optarg;
            break;
        case 'C':
            arguments->check = true;
            break;
        case 'S':
            arguments->show = true;
            break;
        case 'h':
            fputs(usage, stdout);
            return 0;
        case 'V':
            puts("tcad " TCAD_VERSION);
            return 0;
        default: /* getopt_long() has reported the error */
            fputs("tcad --help lists the options\n", stderr);
            return 2;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "tcad: \"%s\": no arguments are expected\ntcad --help lists the options\n",
                argv[optind]);
        return 2;
    }
    return -1;
}

static void raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* ---- signals and the watchdog ---- */

static void on_terminate(void *context)
{
    notify_stopping();
    log_info(NULL, "ending");
    tcad_shut_down(context);
}

static void on_hangup(void *context)
{
    json_decref(reload(context));
}

static void on_watchdog(void *context)
{
    notify_watchdog();
}

struct handlers {
    struct loop_signal *terminate, *interrupt, *hangup;
    struct loop_timer *watchdog;
};

static int handle_signals(struct tcad *tcad, struct handlers *handlers)
{
    int r = loop_signal_new(tcad->loop, SIGTERM, on_terminate, tcad, &handlers->terminate);
    if (r == 0)
        r = loop_signal_new(tcad->loop, SIGINT, on_terminate, tcad, &handlers->interrupt);
    if (r == 0)
        r = loop_signal_new(tcad->loop, SIGHUP, on_hangup, tcad, &handlers->hangup);
    uint64_t interval = notify_watchdog_ns();
    if (r == 0 && interval) {
        r = loop_timer_new(tcad->loop, on_watchdog, tcad, &handlers->watchdog);
        if (r == 0)
            loop_timer_set(handlers->watchdog, interval, interval);
    }
    return r;
}

static void forget_signals(struct handlers *handlers)
{
    loop_signal_free(handlers->terminate);
    loop_signal_free(handlers->interrupt);
    loop_signal_free(handlers->hangup);
    loop_timer_free(handlers->watchdog);
}

/* Before libfabric reads it, at its first call. Its rxm keeps thousands of buffers for messages, by
 * default of 16 KiB each (70 MB in all); the messages of the ofi driver are short, longer data is
 * written to where it belongs. A value that the user has set is kept. */
static void limit_libfabric(void)
{
    setenv("FI_OFI_RXM_BUFFER_SIZE", "1024", 0);
}

static int serve(struct tcad *tcad)
{
    char text[1024] = "";
    struct handlers handlers = {0};
    int r = tcad_init(tcad, notify_listen_fd(), text, sizeof(text));
    if (r == 0)
        r = handle_signals(tcad, &handlers);
    signals_unblock();
    if (r < 0) {
        log_error(NULL, "cannot start: %s", text[0] ? text : remedy_text(r));
        return 1;
    }
    char fields[32];
    snprintf(fields, sizeof(fields), "TCAD_NODE=%u", tcad->node);
    log_info(fields, "node %u (%s) is ready at %s", tcad->node, tcad->conf->node.name,
             tcad->conf->control.socket);
    notify_ready("ready");
    r = loop_run(tcad->loop);
    if (r < 0)
        log_error(NULL, "the event loop has failed: %s", strerror(-r));
    signals_block(); /* whoever asks again gets the same end */
    forget_signals(&handlers);
    tcad_deinit(tcad);
    return r < 0;
}

int main(int argc, char **argv)
{
    struct arguments arguments = {0};
    struct config_errors errors = {0};
    /* The system unit runs tcad as user tcad, with a runtime directory in /run. */
    const char *runtime = getenv("RUNTIME_DIRECTORY");
    struct tcad tcad = {.is_system =
                            geteuid() == 0 || (runtime && strncmp(runtime, "/run/tcad", 9) == 0)};

    signals_take_back();
    int status = parse(argc, argv, &arguments);
    if (status >= 0)
        return status;
    if (arguments.check || arguments.show)
        signals_unblock(); /* they end by default */
    tcad.conf_path = arguments.config;
    tcad.overrides = arguments.overrides;
    int r =
        tcad_conf_load(arguments.config, tcad.is_system, arguments.overrides, &tcad.conf, &errors);
    if (r < 0) {
        config_errors_write(&errors, stderr);
        fprintf(stderr, "tcad: %s\n", r == -EINVAL ? "the configuration has errors" : strerror(-r));
        config_errors_deinit(&errors);
        return 1;
    }
    config_errors_deinit(&errors);
    if (arguments.show)
        tcad_conf_write(tcad.conf, stdout);
    if (arguments.check) {
        char *text = tcad_conf_good(tcad.conf, tcad.is_system);
        puts(text ? text : "good");
        free(text);
    }
    if (!arguments.check && !arguments.show) {
        limit_libfabric();
        signal(SIGPIPE, SIG_IGN);
        signal(SIGXFSZ, SIG_IGN); /* regions are files: beyond LimitFSIZE= the request fails */
        raise_descriptor_limit();
        if ((r = guard_install()) < 0)
            fprintf(stderr, "tcad: /proc/self/maps: %s\n", strerror(-r));
        log_init(tcad_log_level(tcad.conf), tcad_log_target(tcad.conf));
        status = serve(&tcad);
    }
    tcad_conf_free(tcad.conf);
    return status < 0 ? 0 : status;
}
