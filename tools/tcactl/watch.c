#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "tools/common/must.h"
#include "tools/tcactl/tcactl.h"

static volatile sig_atomic_t stopped;

static void stop(int number)
{
    stopped = 1;
}

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Takes one sample; the result as of tcactl_ask(). */
static int look(struct tcactl *tcactl, json_t **ret_doc)
{
    static const char *const parts[] = {"status", "sessions", "stats"};
    json_t *doc = must(json_object());
    int degraded = 0;

    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
        char *text = NULL;
        int r = tcactl_ask(tcactl, parts[i], NULL, &text);
        json_t *part = r < 0 ? NULL : json_loads(text, 0, NULL);
        free(text);
        if (!part) {
            json_decref(doc);
            return r < 0 ? r : -EPROTO;
        }
        degraded |= r;
        json_object_set_new(doc, parts[i], part);
    }
    *ret_doc = doc;
    return degraded;
}

static void show(struct tcactl *tcactl, const json_t *before, const json_t *now, double seconds)
{
    struct screen *screen = &tcactl->screen;
    char stamp[32];
    time_t t = time(NULL);

    if (tcactl->json) {
        char *text = must(json_dumps(now, JSON_COMPACT));
        fprintf(screen->to, "%s\n", text);
        free(text);
    } else if (isatty(fileno(screen->to))) {
        fputs("\033[H\033[J", screen->to);
        render_watch(before, now, seconds, screen);
    } else {
        strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S%z", localtime(&t));
        render_watch_lines(before, now, seconds, stamp, screen);
    }
    fflush(screen->to);
}

/* Sleeps until the moment; false: Ctrl-C, or the reader has closed the pipe. */
static bool sleep_until(const struct tcactl *tcactl, double moment_s)
{
    /* Reports a pipe without a reader as an error; a terminal or file never. */
    struct pollfd reader = {.fd = fileno(tcactl->screen.to)};

    for (double left = moment_s - now_s(); left > 0; left = moment_s - now_s()) {
        int r = poll(&reader, 1, (int)(1e3 * left) + 1);
        if (stopped || r > 0)
            return false;
    }
    return !stopped;
}

int run_watch(struct tcactl *tcactl, int count, char **arguments)
{
    double interval_s = tcactl->given & OPTION_INTERVAL ? tcactl->interval_s : 2;
    unsigned times = tcactl->given & OPTION_COUNT ? tcactl->count : 0;
    double before_s = 0, next_s = now_s();
    json_t *before = NULL;
    int code = EXIT_OK;

    sigaction(SIGINT, &(struct sigaction){.sa_handler = stop}, NULL);
    sigaction(SIGTERM, &(struct sigaction){.sa_handler = stop}, NULL);
    for (unsigned i = 0; !stopped && (times == 0 || i < times); i++) {
        json_t *doc = NULL;
        if (i > 0 && !sleep_until(tcactl, next_s += interval_s))
            break;
        int r = look(tcactl, &doc);
        double at_s = now_s();
        if (stopped) { /* the request was interrupted, which is not a failure */
            json_decref(doc);
            break;
        }
        if (r < 0) {
            /* The next round connects again, to show the daemon's return. */
            code = tcactl_failed(tcactl, r);
            tcactl_disconnect(tcactl);
        } else {
            show(tcactl, before, doc, at_s - before_s);
            code = r > 0 ? EXIT_DEGRADED : EXIT_OK;
        }
        json_decref(before);
        before = doc;
        before_s = at_s;
        if (at_s > next_s + interval_s)
            next_s = at_s; /* too slow: does not catch up */
    }
    json_decref(before);
    return stopped && times == 0 ? EXIT_OK : code;
}
