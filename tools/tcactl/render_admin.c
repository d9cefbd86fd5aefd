/* Renders the replies of verbs that change something, the configuration, and the environment. */
#include <stdlib.h>
#include <string.h>

#include "tools/tcactl/doc.h"
#include "tools/tcactl/render.h"
#include "tools/tcactl/table.h"
#include "tools/tcactl/units.h"

/* A value of any type as text; the caller frees it. */
static char *value_text(const json_t *value)
{
    if (json_is_string(value))
        return strdup(json_string_value(value));
    if (!value || json_is_null(value))
        return strdup("none");
    return json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
}

void render_config(const json_t *doc, const struct screen *screen)
{
    static const char *const titles[] = {"KEY", "VALUE", "ORIGIN", "APPLIED BY", "DEFAULT", NULL};
    struct table table;

    fputs("file ", screen->to);
    screen_text(screen, doc_text(doc, "file"));
    fputs(", cluster file ", screen->to);
    screen_text(screen, doc_text(doc, "cluster_file"));
    fputc('\n', screen->to);
    table_init(&table, titles);
    for (size_t i = 0; i < doc_count(doc, "values"); i++) {
        const json_t *entry = doc_at(doc, "values", i);
        char *value = value_text(doc_get(entry, "value"));
        char *initial = value_text(doc_get(entry, "default"));
        table_add(&table, "%s.%s", doc_text(entry, "section"), doc_text(entry, "key"));
        table_add(&table, "%s", value && *value ? value : "none");
        table_add(&table, "%s", doc_text(entry, "origin"));
        table_add(&table, "%s", doc_true(entry, "reloadable") ? "reload" : "restart");
        table_add(&table, "%s", initial && *initial ? initial : "none");
        free(value);
        free(initial);
    }
    table_print(&table, screen, 0, "no values");
    table_deinit(&table);
}

static void names(const json_t *doc, const char *path, const char *what,
                  const struct screen *screen)
{
    if (doc_count(doc, path) == 0)
        return;
    char *text = doc_join(doc, path);
    fprintf(screen->to, "%s: ", what);
    screen_text(screen, text);
    fputc('\n', screen->to);
    free(text);
}

void render_reload(const json_t *doc, const struct screen *screen)
{
    for (size_t i = 0; i < doc_count(doc, "errors"); i++) {
        const json_t *error = doc_at(doc, "errors", i);
        fputs(screen_begin(screen, COLOR_BAD), screen->to);
        screen_text(screen, doc_text(error, "file"));
        if (doc_integer(error, "line") > 0)
            fprintf(screen->to, ":%lld", doc_integer(error, "line"));
        fputs(screen_end(screen, COLOR_BAD), screen->to);
        fputs(": ", screen->to);
        screen_text(screen, doc_text(error, "text"));
        fputc('\n', screen->to);
    }
    if (doc_count(doc, "errors") > 0) {
        fputs("nothing was applied: correct the errors and reload again\n", screen->to);
        return;
    }
    names(doc, "applied", "applied", screen);
    for (size_t i = 0; i < doc_count(doc, "not_applied"); i++) {
        const json_t *entry = doc_at(doc, "not_applied", i);
        fputs("not applied: ", screen->to);
        screen_text(screen, doc_text(entry, "key"));
        fputs(", ", screen->to);
        screen_text(screen, doc_text(entry, "why"));
        fputc('\n', screen->to);
    }
    names(doc, "cluster.added", "nodes added", screen);
    names(doc, "cluster.removed", "nodes removed", screen);
    names(doc, "cluster.moved", "nodes moved", screen);
    if (doc_count(doc, "applied") + doc_count(doc, "not_applied") +
            doc_count(doc, "cluster.added") + doc_count(doc, "cluster.removed") +
            doc_count(doc, "cluster.moved") ==
        0)
        fputs("nothing has changed\n", screen->to);
}

static void add_rate(struct table *table, double gb_per_s)
{
    if (gb_per_s >= 0.1)
        table_add(table, "%.2f GB/s", gb_per_s);
    else
        table_add(table, "%.2f MB/s", 1e3 * gb_per_s);
}

void render_calibrate(const json_t *doc, const struct screen *screen)
{
    static const char *const titles[] = {"RAIL",       "SEAT",   ">LATENCY", ">PER HOP",
                                         ">PER BLOCK", ">SMALL", ">LARGE",   NULL};
    struct table table;

    table_init(&table, titles);
    for (size_t i = 0; i < doc_count(doc, "rails"); i++) {
        const json_t *rail = doc_at(doc, "rails", i);
        bool valid = doc_true(rail, "valid");
        table_add(&table, "%s", doc_text(rail, "rail"));
        table_add(&table, "%s", doc_text(rail, "seat"));
        table_add(&table, "%s",
                  valid ? units_ns(doc_number(rail, "latency_ns")).text : "not measured");
        const double hop_ns = valid ? doc_number(rail, "hop_ns") : 0;
        table_add(&table, "%s", hop_ns > 0 ? units_ns(hop_ns).text : "-");
        table_add(&table, "%s", valid ? units_ns(doc_number(rail, "block_ns")).text : "-");
        if (valid) {
            add_rate(&table, doc_number(rail, "small_gb_per_s"));
            add_rate(&table, doc_number(rail, "large_gb_per_s"));
        } else {
            table_add(&table, "-");
            table_add(&table, "-");
        }
    }
    table_print(&table, screen, 0, "no rails");
    fputs("stored in ", screen->to);
    screen_text(screen, doc_text(doc, "path"));
    fputc('\n', screen->to);
    table_deinit(&table);
}

void render_drain(const json_t *doc, const struct screen *screen)
{
    long long sessions = doc_integer(doc, "sessions");

    if (strcmp(doc_text(doc, "state"), "draining") == 0)
        fprintf(screen->to, "draining: new sessions are refused; %lld open\n", sessions);
    else
        fprintf(screen->to, "ready for new sessions; %lld open\n", sessions);
}

void render_check(const json_t *doc, const struct screen *screen)
{
    for (size_t i = 0; i < doc_count(doc, "messages"); i++) {
        const char *line = json_string_value(doc_at(doc, "messages", i));
        screen_text(screen, line ? line : "-");
        fputc('\n', screen->to);
    }
}

void render_env(const json_t *doc, const struct screen *screen)
{
    static const char *const titles[] = {"VARIABLE", "VALUE", "DEFAULT", "MEANING", NULL};
    struct table table;

    table_init(&table, titles);
    for (size_t i = 0; i < doc_count(doc, "variables"); i++) {
        const json_t *variable = doc_at(doc, "variables", i);
        const char *value = json_string_value(doc_get(variable, "value"));
        table_add(&table, "%s", doc_text(variable, "name"));
        table_add(&table, "%s", value ? value : "(not set)");
        table_add(&table, "%s", doc_text(variable, "default"));
        table_add(&table, "%s", doc_text(variable, "meaning"));
    }
    table_print(&table, screen, 0, "no variables");
    table_deinit(&table);
    fputs("socket in use: ", screen->to);
    screen_text(screen, doc_text(doc, "socket"));
    fputs(" (", screen->to);
    screen_text(screen, doc_text(doc, "why"));
    fputs(")\n", screen->to);
}

/* As TCA_COPY has it, and its variant. */
static void add_mode(struct table *table, const json_t *entry)
{
    const long long piece = doc_integer(entry, "piece_bytes");
    const char *mode = doc_text(entry, "mode");
    if (piece > 0)
        table_add(table, "%s, pieces of %s", mode, units_bytes((double)piece).text);
    else
        table_add(table, "%s%s", mode, doc_true(entry, "stream") ? ", past the caches" : "");
}

void render_wisdom(const json_t *doc, const struct screen *screen)
{
    static const char *const titles[] = {">BYTES",    ">BLOCKS", ">DISTANCE", "COPY MODE",
                                         ">INTERVAL", "KEY",     NULL};
    struct table table;

    table_init(&table, titles);
    for (size_t i = 0; i < doc_count(doc, "entries"); i++) {
        const json_t *entry = doc_at(doc, "entries", i);
        table_add(&table, "%s", units_bytes(doc_number(entry, "bytes")).text);
        table_add(&table, "%lld", doc_integer(entry, "blocks"));
        table_add(&table, "%lld", doc_integer(entry, "distance"));
        add_mode(&table, entry);
        table_add(&table, "%s", units_ns(doc_number(entry, "ns")).text);
        table_add(&table, "%.8s", doc_text(entry, "key"));
    }
    table_print(&table, screen, 0, "no wisdom");
    fputs("stored in ", screen->to);
    screen_text(screen, doc_text(doc, "path"));
    fputc('\n', screen->to);
    table_deinit(&table);
}
