/* Renders the replies of verbs that change something, the configuration, and the environment. */
#include <stdlib.h>
#include <string.h>

#include "tools/tcactl/doc.h"
#include "tools/tcactl/list.h"
#include "tools/tcactl/render.h"
#include "tools/tcactl/units.h"

static void add_key(struct table *table, const json_t *entry, const char *path)
{
    table_add(table, "%s.%s", doc_text(entry, "section"), doc_text(entry, path));
}

/* A value of any type. */
static void add_value(struct table *table, const json_t *entry, const char *path)
{
    const json_t *value = doc_get(entry, path);
    char *text = value && !json_is_null(value) && !json_is_string(value)
                     ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT)
                     : NULL;
    const char *shown = text ? text : json_string_value(value);

    table_add(table, "%s", shown && *shown ? shown : "none");
    free(text);
}

static void add_reloadable(struct table *table, const json_t *entry, const char *path)
{
    table_add(table, "%s", doc_true(entry, path) ? "reload" : "restart");
}

void render_config(const json_t *doc, const struct screen *screen)
{
    static const struct column columns[] = {
        {"KEY", "key", add_key},
        {"VALUE", "value", add_value},
        {"ORIGIN", "origin"},
        {"APPLIED BY", "reloadable", add_reloadable},
        {"DEFAULT", "default", add_value},
        {0},
    };
    screen_print(screen, "file %s\n", doc_text(doc, "file"));
    screen_print(screen, "cluster file %s\n", doc_text(doc, "cluster_file"));
    list_show(doc, "values", columns, screen, 0, "no values");
}

static void names(const json_t *doc, const char *path, const char *what,
                  const struct screen *screen)
{
    if (doc_count(doc, path) == 0)
        return;
    char *text = doc_join(doc, path);
    screen_print(screen, "%s: %s\n", what, text);
    free(text);
}

void render_reload(const json_t *doc, const struct screen *screen)
{
    for (size_t i = 0; i < doc_count(doc, "errors"); i++) {
        const json_t *error = doc_at(doc, "errors", i);
        if (doc_integer(error, "line") > 0)
            screen_paint(screen, COLOR_BAD, "%s:%lld", doc_text(error, "file"),
                         doc_integer(error, "line"));
        else
            screen_paint(screen, COLOR_BAD, "%s", doc_text(error, "file"));
        screen_print(screen, ": %s\n", doc_text(error, "text"));
    }
    if (doc_count(doc, "errors") > 0) {
        screen_print(screen, "nothing was applied: correct the errors and reload again\n");
        return;
    }
    names(doc, "applied", "applied", screen);
    for (size_t i = 0; i < doc_count(doc, "not_applied"); i++) {
        const json_t *entry = doc_at(doc, "not_applied", i);
        screen_print(screen, "not applied: %s, %s\n", doc_text(entry, "key"),
                     doc_text(entry, "why"));
    }
    names(doc, "cluster.added", "nodes added", screen);
    names(doc, "cluster.removed", "nodes removed", screen);
    names(doc, "cluster.moved", "nodes moved", screen);
    if (doc_count(doc, "applied") + doc_count(doc, "not_applied") +
            doc_count(doc, "cluster.added") + doc_count(doc, "cluster.removed") +
            doc_count(doc, "cluster.moved") ==
        0)
        screen_print(screen, "nothing has changed\n");
}

static void add_latency(struct table *table, const json_t *rail, const char *path)
{
    const bool valid = doc_true(rail, "valid");
    table_add(table, "%s", valid ? units_ns(doc_number(rail, path)).text : "not measured");
}

static void add_hop(struct table *table, const json_t *rail, const char *path)
{
    table_add(table, "%s", units_time(doc_true(rail, "valid") ? doc_number(rail, path) : 0).text);
}

static void add_block(struct table *table, const json_t *rail, const char *path)
{
    table_add(table, "%s", doc_true(rail, "valid") ? units_ns(doc_number(rail, path)).text : "-");
}

static void add_rate(struct table *table, const json_t *rail, const char *path)
{
    const double gb_per_s = doc_number(rail, path);

    if (!doc_true(rail, "valid"))
        table_add(table, "-");
    else if (gb_per_s >= 0.1)
        table_add(table, "%.2f GB/s", gb_per_s);
    else
        table_add(table, "%.2f MB/s", 1e3 * gb_per_s);
}

void render_calibrate(const json_t *doc, const struct screen *screen)
{
    static const struct column columns[] = {
        {"RAIL", "rail"},
        {"SEAT", "seat"},
        {">LATENCY", "latency_ns", add_latency},
        {">PER HOP", "hop_ns", add_hop},
        {">PER BLOCK", "block_ns", add_block},
        {">SMALL", "small_gb_per_s", add_rate},
        {">LARGE", "large_gb_per_s", add_rate},
        {0},
    };
    list_show(doc, "rails", columns, screen, 0, "no rails");
    screen_print(screen, "stored in %s\n", doc_text(doc, "path"));
    if (doc_true(doc, "disturbed")) {
        screen_print(screen,
                     "the machine was busy (load %.1f per processor, times spread %.1f-fold):\n",
                     doc_number(doc, "load"), doc_number(doc, "spread"));
        screen_print(screen, "repeat this when it is quiet\n");
    }
}

void render_drain(const json_t *doc, const struct screen *screen)
{
    long long sessions = doc_integer(doc, "sessions");

    if (strcmp(doc_text(doc, "state"), "draining") == 0)
        screen_print(screen, "draining: new sessions are refused; %lld open\n", sessions);
    else
        screen_print(screen, "ready for new sessions; %lld open\n", sessions);
}

void render_check(const json_t *doc, const struct screen *screen)
{
    for (size_t i = 0; i < doc_count(doc, "messages"); i++) {
        const char *line = json_string_value(doc_at(doc, "messages", i));
        screen_print(screen, "%s\n", line ? line : "-");
    }
}

static void add_setting(struct table *table, const json_t *variable, const char *path)
{
    const char *value = json_string_value(doc_get(variable, path));
    table_add(table, "%s", value ? value : "(not set)");
}

void render_env(const json_t *doc, const struct screen *screen)
{
    static const struct column columns[] = {
        {"VARIABLE", "name"},
        {"VALUE", "value", add_setting},
        {"DEFAULT", "default"},
        {"MEANING", "meaning"},
        {0},
    };
    list_show(doc, "variables", columns, screen, 0, "no variables");
    size_t i;
    const json_t *unknown;
    json_array_foreach(doc_get(doc, "unknown"), i, unknown)
    {
        const char *similar = json_string_value(doc_get(unknown, "similar"));
        screen_print(screen, "there is no variable %s%s%s%s\n", doc_text(unknown, "name"),
                     similar ? ": did you mean " : "", similar ? similar : "", similar ? "?" : "");
    }
    screen_print(screen, "socket in use: %s (%s)\n", doc_text(doc, "socket"), doc_text(doc, "why"));
}

/* A rail, a seat, or a copy mode as TCA_COPY has it, and its variant. */
static void add_choice(struct table *table, const json_t *entry, const char *path)
{
    const long long piece = doc_integer(entry, "piece_bytes");
    const char *mode = doc_text(entry, path), *rail = json_string_value(doc_get(entry, "rail"));
    const char *seat = json_string_value(doc_get(entry, "seat"));
    if (seat)
        table_add(table, "%s's seat, rail %s", seat, rail);
    else if (rail)
        table_add(table, "rail %s", rail);
    else if (piece > 0)
        table_add(table, "%s, pieces of %s", mode, units_bytes((double)piece).text);
    else
        table_add(table, "%s%s", mode, doc_true(entry, "stream") ? ", past the caches" : "");
}

static void add_interval(struct table *table, const json_t *entry, const char *path)
{
    table_add(table, "%s", units_ns(doc_number(entry, path)).text);
}

static void add_load(struct table *table, const json_t *entry, const char *path)
{
    table_add(table, "%.1f", doc_number(entry, path));
}

static void add_short_key(struct table *table, const json_t *entry, const char *path)
{
    table_add(table, "%.8s", doc_text(entry, path));
}

void render_wisdom(const json_t *doc, const struct screen *screen)
{
    static const struct column columns[] = {
        {">BYTES", "bytes", cell_bytes},         {">BLOCKS", "blocks", cell_integer},
        {">DISTANCE", "distance", cell_integer}, {"CHOICE", "mode", add_choice},
        {">INTERVAL", "ns", add_interval},       {">LOAD", "load", add_load, .sparse = true},
        {"KEY", "key", add_short_key},           {0},
    };
    list_show(doc, "entries", columns, screen, 0, "no wisdom");
    screen_print(screen, "stored in %s\n", doc_text(doc, "path"));
    if (doc_integer(doc, "disturbed") > 0)
        screen_print(screen,
                     "%lld found on a busy machine (LOAD per processor): tried again when it is "
                     "quiet\n",
                     doc_integer(doc, "disturbed"));
}
