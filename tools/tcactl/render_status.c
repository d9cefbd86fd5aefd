#include <string.h>

#include "tools/tcactl/doc.h"
#include "tools/tcactl/render.h"
#include "tools/tcactl/units.h"

static void label(const struct screen *screen, const char *text)
{
    fprintf(screen->to, "%s%-12s%s ", screen_begin(screen, COLOR_HEAD), text,
            screen_end(screen, COLOR_HEAD));
}

static void state(const struct screen *screen, const char *word)
{
    enum screen_color color = screen_color_of(word);

    fputs(screen_begin(screen, color), screen->to);
    screen_text(screen, word);
    fputs(screen_end(screen, color), screen->to);
}

static void daemon_line(const json_t *doc, const struct screen *screen)
{
    label(screen, "tcad");
    state(screen, doc_text(doc, "daemon.state"));
    fprintf(screen->to, ", started %s ago, node %lld (",
            units_age(doc_number(doc, "daemon.uptime_s")).text, doc_integer(doc, "daemon.node"));
    screen_text(screen, doc_text(doc, "daemon.name"));
    fputs(")\n", screen->to);
    label(screen, "");
    fputs("version ", screen->to);
    screen_text(screen, doc_text(doc, "daemon.version"));
    fprintf(screen->to, ", pid %lld of ", doc_integer(doc, "daemon.pid"));
    screen_text(screen, doc_text(doc, "daemon.user"));
    fputc('\n', screen->to);
}

/* " (node2, node3, ...)": the names in the list, which may be truncated. */
static void names(const json_t *doc, const char *path, long long of, const struct screen *screen)
{
    long long count = (long long)doc_count(doc, path);

    for (long long i = 0; i < count; i++) {
        fputs(i ? ", " : " (", screen->to);
        screen_text(screen, doc_text(doc_at(doc, path, (size_t)i), ""));
    }
    if (count)
        fputs(of > count ? ", ...)" : ")", screen->to);
}

static void cluster_line(const json_t *doc, const struct screen *screen)
{
    long long nodes = doc_integer(doc, "cluster.nodes");
    long long down = doc_integer(doc, "cluster.down");

    label(screen, "cluster");
    state(screen, doc_true(doc, "cluster.ready") ? "ready" : "not ready");
    fputs(", ", screen->to);
    screen_text(screen, doc_text(doc, "cluster.name"));
    fprintf(screen->to, ": %lld node%s, %lld connected, ", nodes, units_plural(nodes),
            doc_integer(doc, "cluster.connected"));
    if (doc_integer(doc, "cluster.reconnecting") > 0)
        fprintf(screen->to, "%lld reconnecting, ", doc_integer(doc, "cluster.reconnecting"));
    if (doc_integer(doc, "cluster.unknown") > 0) /* neither up nor down */
        fprintf(screen->to, "%lld not contacted, ", doc_integer(doc, "cluster.unknown"));
    fprintf(screen->to, "%s%lld down", screen_begin(screen, down ? COLOR_BAD : COLOR_NONE), down);
    names(doc, "cluster.down_nodes", down, screen);
    fputs(screen_end(screen, down ? COLOR_BAD : COLOR_NONE), screen->to);
    fputc('\n', screen->to);
    label(screen, "");
    fputs("security ", screen->to);
    state(screen, doc_text(doc, "cluster.security"));
    fputc('\n', screen->to);
}

static void rail_lines(const json_t *doc, const struct screen *screen)
{
    size_t count = doc_count(doc, "rails");

    if (count == 0) {
        label(screen, "rails");
        fputs("none\n", screen->to);
    }
    for (size_t i = 0; i < count; i++) {
        const json_t *rail = doc_at(doc, "rails", i);
        const char *detail = json_string_value(doc_get(rail, "detail"));
        const char *address = json_string_value(doc_get(rail, "address"));
        label(screen, i == 0 ? "rails" : "");
        screen_text(screen, doc_text(rail, "rail"));
        fputc(' ', screen->to);
        state(screen, doc_text(rail, "state"));
        if (detail && *detail) {
            fputs(", ", screen->to);
            screen_text(screen, detail);
        }
        if (address && *address) {
            fputs(", at ", screen->to);
            screen_text(screen, address);
        }
        if (doc_true(rail, "unprotected"))
            fprintf(screen->to, ", %sunprotected%s", screen_begin(screen, COLOR_BAD),
                    screen_end(screen, COLOR_BAD));
        if (doc_count(rail, "cut_off")) {
            fprintf(screen->to, ", %scut off", screen_begin(screen, COLOR_BAD));
            names(rail, "cut_off", 0, screen);
            fputs(screen_end(screen, COLOR_BAD), screen->to);
        }
        fputc('\n', screen->to);
    }
}

static void engine_counts(const json_t *doc, const struct screen *screen)
{
    static const char *const names[] = {"starts", "completions", "errors", "sleeps"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[32];
        snprintf(path, sizeof path, "engine.%s", names[i]);
        const double count = doc_number(doc, path);
        fprintf(screen->to, ", %s %.*s", units_count(count).text,
                (int)strlen(names[i]) - (count == 1), names[i]);
    }
    fputc('\n', screen->to);
}

/* The daemon's warnings, below everything else. */
static void warning_lines(const json_t *doc, const struct screen *screen)
{
    for (size_t i = 0; i < doc_count(doc, "warnings"); i++) {
        fprintf(screen->to, "%swarning:%s", screen_begin(screen, COLOR_BAD),
                screen_end(screen, COLOR_BAD));
        screen_wrapped(screen, doc_text(doc_at(doc, "warnings", i), ""), strlen("warning:"));
    }
}

void render_status(const json_t *doc, const struct screen *screen)
{
    long long groups = doc_integer(doc, "groups");
    const char *path = json_string_value(doc_get(doc, "calibration.path"));

    daemon_line(doc, screen);
    cluster_line(doc, screen);
    label(screen, "sessions");
    fprintf(screen->to,
            "%lld, %lld region%s (%s of %s), %lld plan%s; %lld group%s coordinated here\n",
            doc_integer(doc, "sessions"), doc_integer(doc, "regions.count"),
            units_plural(doc_integer(doc, "regions.count")),
            units_bytes(doc_number(doc, "regions.bytes")).text,
            units_bytes(doc_number(doc, "regions.bytes_max")).text, doc_integer(doc, "plans"),
            units_plural(doc_integer(doc, "plans")), groups, units_plural(groups));
    if (doc_number(doc, "regions.bytes_quarantined") > 0) {
        label(screen, "quarantined");
        fprintf(screen->to, "%s of freed regions, until no peer can write there\n",
                units_bytes(doc_number(doc, "regions.bytes_quarantined")).text);
    }
    label(screen, "engine");
    state(screen, doc_text(doc, "engine.state"));
    engine_counts(doc, screen);
    rail_lines(doc, screen);
    label(screen, "calibration");
    state(screen, doc_text(doc, "calibration.state"));
    if (path && *path) {
        fputs(", ", screen->to);
        screen_text(screen, path);
    }
    fputc('\n', screen->to);
    label(screen, "socket");
    screen_text(screen, doc_text(doc, "daemon.socket"));
    fputc('\n', screen->to);
    warning_lines(doc, screen);
}
