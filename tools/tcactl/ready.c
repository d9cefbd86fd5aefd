/* tcactl ready: whether programs can be started on this node, for scripts: an exit code and a
 * line. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/common/must.h"
#include "tools/tcactl/doc.h"
#include "tools/tcactl/tcactl.h"

enum { NAMES_MAX = 16 }; /* the line says how many more there are */

__attribute__((format(printf, 2, 3))) static void add(json_t *why, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    json_array_append_new(why, must(json_vsprintf(format, arguments)));
    va_end(arguments);
}

/* The nodes that have not answered, or, without asking, those that are known to be down. */
static void look_at_nodes(const json_t *status, json_t *why)
{
    const size_t count = doc_count(status, "cluster.silent_nodes");
    for (size_t i = 0; i < count && i < NAMES_MAX; i++) {
        const char *name = doc_text(doc_at(status, "cluster.silent_nodes", i), "");
        add(why, "no answer from %s (tcactl why %s)", name, name);
    }
    if (count > NAMES_MAX)
        add(why, "nor from %zu more", count - NAMES_MAX);
}

static void look_at(const json_t *status, json_t *why)
{
    if (strcmp(doc_text(status, "daemon.state"), "draining") == 0)
        add(why, "it is draining (tcactl drain off)");
    for (size_t i = 0; i < doc_count(status, "rails"); i++) {
        const json_t *rail = doc_at(status, "rails", i);
        if (strcmp(doc_text(rail, "state"), "down") == 0)
            add(why, "rail %s is down: %s", doc_text(rail, "rail"), doc_text(rail, "detail"));
    }
    if (strcmp(doc_text(status, "calibration.state"), "none") == 0)
        add(why, "its rails are not calibrated yet");
    look_at_nodes(status, why);
}

/* {"ready", "why": [text]} */
static json_t *ready_document(struct tcactl *tcactl)
{
    json_t *why = must(json_array());
    char *text = NULL;
    const int r =
        tcactl_ask(tcactl, "status", tcactl->given & OPTION_ALONE ? NULL : "strict", &text);
    json_t *status = r < 0 ? NULL : tcactl_parse(tcactl, text);

    if (r < 0) {
        add(why, "%s", *tca_error_text() ? tca_error_text() : tca_strerror(r));
        tcactl_disconnect(tcactl); /* the next attempt finds a daemon that was started meanwhile */
    } else if (!status) {
        add(why, "tcad's reply cannot be read");
    } else {
        look_at(status, why);
    }
    json_decref(status);
    free(text);
    const bool ready = json_array_size(why) == 0;
    return must(json_pack("{s:b, s:o}", "ready", ready, "why", why));
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int run_ready(struct tcactl *tcactl, int count, char **arguments)
{
    const double end_s = now_s() + tcactl->wait_s;
    const struct timespec pause = {.tv_nsec = 200 * 1000 * 1000};
    json_t *doc = ready_document(tcactl);

    while (!doc_true(doc, "ready") && now_s() < end_s) {
        nanosleep(&pause, NULL);
        json_decref(doc);
        doc = ready_document(tcactl);
    }
    const int code = doc_true(doc, "ready") ? EXIT_OK : EXIT_FAILED;
    tcactl_print(tcactl, doc, render_ready);
    return code;
}
