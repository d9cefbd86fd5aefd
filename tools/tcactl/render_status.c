#include <stdlib.h>
#include <string.h>

#include "tools/common/must.h"
#include "tools/tcactl/doc.h"
#include "tools/tcactl/render.h"
#include "tools/tcactl/units.h"

enum { LABEL_COLUMNS = 12 };

static void label(const struct screen *screen, const char *text)
{
    screen_paint(screen, COLOR_HEAD, "%-*s", LABEL_COLUMNS, text);
    fputc(' ', screen->to);
}

static void daemon_line(const json_t *doc, const struct screen *screen)
{
    label(screen, "tcad");
    screen_state(screen, doc_text(doc, "daemon.state"));
    screen_print(screen, ", started %s ago, node %lld (%s)\n",
                 units_age(doc_number(doc, "daemon.uptime_s")).text,
                 doc_integer(doc, "daemon.node"), doc_text(doc, "daemon.name"));
    label(screen, "");
    screen_print(screen, "version %s, pid %lld of %s\n", doc_text(doc, "daemon.version"),
                 doc_integer(doc, "daemon.pid"), doc_text(doc, "daemon.user"));
}

/* " (node2, node3, ...)": the names in the list, which may be truncated. */
static void names(const json_t *doc, const char *path, long long of, const struct screen *screen)
{
    long long count = (long long)doc_count(doc, path);

    for (long long i = 0; i < count; i++)
        screen_print(screen, "%s%s", i ? ", " : " (", doc_text(doc_at(doc, path, (size_t)i), ""));
    if (count)
        fputs(of > count ? ", ...)" : ")", screen->to);
}

static bool is_down(const json_t *doc, const char *name)
{
    for (size_t i = 0; i < doc_count(doc, "cluster.down_nodes"); i++)
        if (strcmp(doc_text(doc_at(doc, "cluster.down_nodes", i), ""), name) == 0)
            return true;
    return false;
}

/* ", no answer from (node4)": with --strict; those that are down have been named. */
static void silent_names(const json_t *doc, const struct screen *screen)
{
    const char *before = ", no answer from (";

    for (size_t i = 0; i < doc_count(doc, "cluster.silent_nodes"); i++) {
        const char *name = doc_text(doc_at(doc, "cluster.silent_nodes", i), "");
        if (is_down(doc, name))
            continue;
        screen_paint(screen, COLOR_BAD, "%s%s", before, name);
        before = ", ";
    }
    if (before[2] == '\0')
        screen_paint(screen, COLOR_BAD, ")");
}

static void cluster_line(const json_t *doc, const struct screen *screen)
{
    long long nodes = doc_integer(doc, "cluster.nodes");
    long long down = doc_integer(doc, "cluster.down");

    label(screen, "cluster");
    screen_state(screen, doc_true(doc, "cluster.ready") ? "ready" : "not ready");
    screen_print(screen, ", %s: %lld node%s, %lld connected, ", doc_text(doc, "cluster.name"),
                 nodes, units_plural(nodes), doc_integer(doc, "cluster.connected"));
    if (doc_integer(doc, "cluster.reconnecting") > 0)
        fprintf(screen->to, "%lld reconnecting, ", doc_integer(doc, "cluster.reconnecting"));
    if (doc_integer(doc, "cluster.unknown") > 0) /* neither up nor down */
        fprintf(screen->to, "%lld not contacted, ", doc_integer(doc, "cluster.unknown"));
    fprintf(screen->to, "%s%lld down", screen_begin(screen, down ? COLOR_BAD : COLOR_NONE), down);
    names(doc, "cluster.down_nodes", down, screen);
    fputs(screen_end(screen, down ? COLOR_BAD : COLOR_NONE), screen->to);
    silent_names(doc, screen);
    fputc('\n', screen->to);
    label(screen, "");
    fputs("security ", screen->to);
    screen_state(screen, doc_text(doc, "cluster.security"));
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
        screen_print(screen, "%s ", doc_text(rail, "rail"));
        screen_state(screen, doc_text(rail, "state"));
        if (detail && *detail)
            screen_print(screen, ", %s", detail);
        if (address && *address)
            screen_print(screen, ", at %s", address);
        if (doc_true(rail, "unprotected")) {
            fputs(", ", screen->to);
            screen_paint(screen, COLOR_BAD, "unprotected");
        }
        if (doc_count(rail, "cut_off")) {
            fprintf(screen->to, ", %scut off", screen_begin(screen, COLOR_BAD));
            names(rail, "cut_off", 0, screen);
            fputs(screen_end(screen, COLOR_BAD), screen->to);
        }
        fputc('\n', screen->to);
    }
}

static void engine_line(const json_t *engine, const struct screen *screen)
{
    static const char *const names[] = {"sessions", "starts", "errors", "sleeps"};
    screen_state(screen, doc_text(engine, "state"));
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const double count = doc_number(engine, names[i]);
        fprintf(screen->to, ", %s %.*s", units_count(count).text,
                (int)strlen(names[i]) - (count == 1), names[i]);
    }
    fputc('\n', screen->to);
}

static void engine_lines(const json_t *doc, const struct screen *screen)
{
    const size_t count = doc_count(doc, "engines");
    for (size_t i = 0; i < count; i++) {
        label(screen, i > 0 ? "" : count > 1 ? "engines" : "engine");
        engine_line(doc_at(doc, "engines", i), screen);
    }
}

/* The daemon's warnings, below everything else. */
static void warning_lines(const json_t *doc, const struct screen *screen)
{
    for (size_t i = 0; i < doc_count(doc, "warnings"); i++) {
        screen_paint(screen, COLOR_BAD, "warning:");
        screen_print(screen, " %s\n", doc_text(doc_at(doc, "warnings", i), ""));
    }
}

static void lines(const json_t *doc, const struct screen *screen)
{
    const char *path = json_string_value(doc_get(doc, "calibration.path"));

    daemon_line(doc, screen);
    cluster_line(doc, screen);
    label(screen, "sessions");
    fprintf(screen->to, "%lld, %lld region%s (%s of %s), %lld plan%s\n",
            doc_integer(doc, "sessions"), doc_integer(doc, "regions.count"),
            units_plural(doc_integer(doc, "regions.count")),
            units_bytes(doc_number(doc, "regions.bytes")).text,
            units_bytes(doc_number(doc, "regions.bytes_max")).text, doc_integer(doc, "plans"),
            units_plural(doc_integer(doc, "plans")));
    label(screen, "groups");
    fprintf(screen->to, "%lld coordinated here\n", doc_integer(doc, "groups"));
    if (doc_number(doc, "regions.bytes_quarantined") > 0) {
        label(screen, "quarantined");
        fprintf(screen->to, "%s of freed regions, until no peer can write there\n",
                units_bytes(doc_number(doc, "regions.bytes_quarantined")).text);
    }
    engine_lines(doc, screen);
    rail_lines(doc, screen);
    label(screen, "calibration");
    screen_state(screen, doc_text(doc, "calibration.state"));
    if (path && *path)
        screen_print(screen, ", %s", path);
    fputc('\n', screen->to);
    if (doc_true(doc, "calibration.disturbed")) {
        label(screen, "");
        screen_paint(screen, COLOR_WARN, "on a busy machine (load %.1f per processor)",
                     doc_number(doc, "calibration.load"));
        screen_print(screen, ": repeat tcactl calibrate\n");
    }
    label(screen, "socket");
    screen_print(screen, "%s\n", doc_text(doc, "daemon.socket"));
    warning_lines(doc, screen);
}

void render_ready(const json_t *doc, const struct screen *screen)
{
    const size_t count = doc_count(doc, "why");
    screen_state(screen, doc_true(doc, "ready") ? "ready" : "not ready");
    for (size_t i = 0; i < count; i++)
        screen_print(screen, "%s%s", i == 0 ? ": " : "; ", doc_text(doc_at(doc, "why", i), ""));
    fputc('\n', screen->to);
}

void render_status(const json_t *doc, const struct screen *screen)
{
    struct screen page = *screen;
    char *text = NULL;
    size_t bytes;

    page.to = must(open_memstream(&text, &bytes));
    lines(doc, &page);
    fclose(page.to);
    screen_fold(screen, text, LABEL_COLUMNS + 1);
    free(text);
}
