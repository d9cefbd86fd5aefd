#include <stdio.h>
#include <string.h>

#include "tools/tcactl/doc.h"
#include "tools/tcactl/render.h"
#include "tools/tcactl/table.h"
#include "tools/tcactl/units.h"

static struct units_text time_or_dash(const json_t *doc, const char *path)
{
    return doc_number(doc, path) > 0 ? units_ns(doc_number(doc, path)) : (struct units_text){"-"};
}

static const char *const plan_titles[] = {"ID",    ">PID",    "NAME",   "STATE",   "RAIL",
                                          "?SEAT", "TO",      ">BYTES", ">STARTS", ">MEDIAN",
                                          "?>P99", ">ERRORS", NULL};

/* "running" for a ready plan with a running start; ret_text: with its duration, from 1 s on. */
static const char *state_of(const json_t *plan, char *ret_text, size_t text_bytes)
{
    const char *state = doc_text(plan, "state");
    double seconds = doc_number(plan, "running_s");

    if (strcmp(state, "ready") == 0 && doc_is_number(plan, "running_s"))
        state = "running";
    snprintf(ret_text, text_bytes, "%s", state);
    if (strcmp(state, "running") == 0 && seconds >= 1)
        snprintf(ret_text, text_bytes, "running for %s", units_age(seconds).text);
    return state;
}

/* The target nodes: "1 2 5", only the first few of many. */
static void add_nodes(struct table *table, const json_t *plan)
{
    enum { SHOWN_MAX = 4 };
    size_t count = doc_count(plan, "nodes");
    char text[96];
    int at = 0;

    for (size_t i = 0; i < count && i < SHOWN_MAX; i++)
        at += snprintf(text + at, sizeof text - (size_t)at, "%s%lld", i ? " " : "",
                       json_integer_value(doc_at(plan, "nodes", i)));
    if (count > SHOWN_MAX)
        snprintf(text + at, sizeof text - (size_t)at, " +%zu", count - SHOWN_MAX);
    table_add(table, "%s", count ? text : "-");
}

void render_plans(const json_t *doc, const struct screen *screen)
{
    struct table table;
    char state[64];

    table_init(&table, plan_titles);
    for (size_t i = 0; i < doc_count(doc, "plans"); i++) {
        const json_t *plan = doc_at(doc, "plans", i);
        table_add(&table, "%s", doc_text(plan, "id"));
        table_add(&table, "%lld", doc_integer(plan, "pid"));
        table_add(&table, "%s", doc_text(plan, "name"));
        state_of(plan, state, sizeof state);
        table_add_state(&table, state);
        table_add(&table, "%s", doc_text(plan, "rail"));
        table_add(&table, "%s", doc_text(plan, "seat"));
        add_nodes(&table, plan);
        table_add(&table, "%s", units_bytes(doc_number(plan, "bytes")).text);
        table_add(&table, "%s", units_count(doc_number(plan, "starts")).text);
        table_add(&table, "%s", time_or_dash(plan, "median_ns").text);
        table_add(&table, "%s", time_or_dash(plan, "p99_ns").text);
        table_add(&table, "%lld", doc_integer(plan, "errors"));
    }
    table_print(&table, screen, 0, "no plans");
    table_deinit(&table);
}

static void end_of_put(const json_t *end, const struct screen *screen)
{
    if (doc_get(end, "node"))
        fprintf(screen->to, "node %lld ", doc_integer(end, "node"));
    fprintf(screen->to, "region %lld at %lld, ", doc_integer(end, "region"),
            doc_integer(end, "offset"));
    screen_text(screen, doc_text(end, "layout"));
}

static void copy_mode(const json_t *copy, size_t index, const struct screen *screen)
{
    const char *name = json_string_value(json_array_get(doc_get(copy, "ways"), index));
    screen_text(screen, name ? name : "-");
}

static void copy_modes(const json_t *copy, const struct screen *screen)
{
    if (doc_count(copy, "ways") == 0)
        return;
    fputs("\n         copy mode ", screen->to);
    copy_mode(copy, 0, screen);
    if (doc_count(copy, "ways") > 1) {
        fprintf(screen->to, " up to %lld ns of distance, else ",
                doc_integer(copy, "first_up_to_ns"));
        copy_mode(copy, 1, screen);
    }
}

/* Modes that the first starts tried, each with its blocks of starts. */
static void tried_modes(const json_t *copy, const struct screen *screen)
{
    for (size_t i = 0; i < doc_count(copy, "tried"); i++) {
        const json_t *mode = doc_at(copy, "tried", i);
        const long long piece = doc_integer(mode, "piece_bytes");
        fputs(i ? "\n               " : "\n         tried ", screen->to);
        screen_text(screen, doc_text(mode, "mode"));
        if (piece > 0)
            fprintf(screen->to, " in pieces of %s", units_bytes((double)piece).text);
        if (doc_true(mode, "stream"))
            fputs(" past the caches", screen->to);
        fprintf(screen->to, ": %s from start to start, %lld block%s%s",
                units_ns(doc_number(mode, "ns")).text, doc_integer(mode, "blocks"),
                units_plural(doc_integer(mode, "blocks")),
                doc_true(mode, "chosen") ? ", chosen" : "");
    }
}

/* A rail that currently does not lead to the node: a running start waits for it. */
static void broken_link(const json_t *step, long long node, const struct screen *screen)
{
    const char *state = json_string_value(doc_get(step, "link"));

    if (!state || strcmp(state, "up") == 0)
        return;
    fprintf(screen->to, "\n         %sthe rail to node %lld is ", screen_begin(screen, COLOR_BAD),
            node);
    screen_text(screen, state);
    fputs(screen_end(screen, COLOR_BAD), screen->to);
}

static void stripes(const json_t *step, const struct screen *screen)
{
    const size_t count = doc_count(step, "stripes");
    for (size_t i = 0; i < count; i++) {
        const json_t *stripe = doc_at(step, "stripes", i);
        fprintf(screen->to, "%s%s over ", i == 0 ? "         divided: " : ", ",
                units_bytes(doc_number(stripe, "bytes")).text);
        screen_text(screen, doc_text(stripe, "rail"));
    }
    if (count == 0)
        return;
    if (json_is_integer(doc_get(step, "division.predicted_ns")))
        fprintf(screen->to, "; predicted %s", time_or_dash(step, "division.predicted_ns").text);
    fputc('\n', screen->to);
}

/* The rails that were considered for shares of the put. */
static void division(const json_t *step, const struct screen *screen)
{
    static const char *const titles[] = {"RAIL", ">SHARE", ">PREDICTED", ">ALONE", "WHY", NULL};
    const size_t count = doc_count(step, "division.candidates");
    struct table table;

    if (count == 0)
        return;
    table_init(&table, titles);
    for (size_t i = 0; i < count; i++) {
        const json_t *share = doc_at(step, "division.candidates", i);
        const double bytes = doc_number(share, "bytes");
        table_add(&table, "%s", doc_text(share, "rail"));
        table_add(&table, "%s", bytes > 0 ? units_bytes(bytes).text : "-");
        table_add(&table, "%s", time_or_dash(share, "predicted_ns").text);
        table_add(&table, "%s", time_or_dash(share, "alone_ns").text);
        table_add(&table, "%s", json_string_value(doc_get(share, "why")));
    }
    table_print(&table, screen, 9, "");
    table_deinit(&table);
}

/* The connection over which the process itself puts to another node. */
static void pair(const json_t *pair, const struct screen *screen)
{
    if (!json_is_object(pair))
        return;
    fputs("\n         over a connection of the two processes", screen->to);
    if (doc_true(pair, "ended")) {
        fprintf(screen->to, ", %swhich has ended%s", screen_begin(screen, COLOR_BAD),
                screen_end(screen, COLOR_BAD));
        return;
    }
    fprintf(screen->to, " to session %lld of node %lld: rail ", doc_integer(pair, "session"),
            doc_integer(pair, "node"));
    screen_text(screen, doc_text(pair, "rail"));
    fputs(doc_true(pair, "encrypted") ? ", encrypted" : ", in clear", screen->to);
}

static void step(const json_t *step, const struct screen *screen)
{
    const char *kind = doc_text(step, "kind");

    screen_text(screen, kind);
    if (strcmp(kind, "put") == 0) {
        fprintf(screen->to, " %s", units_bytes(doc_number(step, "bytes")).text);
        fprintf(screen->to, " in %lld block%s, %lld descriptor%s%s\n", doc_integer(step, "blocks"),
                units_plural(doc_integer(step, "blocks")), doc_integer(step, "descriptors"),
                units_plural(doc_integer(step, "descriptors")),
                doc_true(step, "gathered") ? ", gathered and scattered" : "");
        if (json_is_object(doc_get(step, "reduce")))
            fprintf(screen->to, "         combined with the target: %s of %s\n",
                    doc_text(step, "reduce.operator"), doc_text(step, "reduce.type"));
        stripes(step, screen);
        division(step, screen);
        if (doc_true(step, "parts"))
            fputs("         at most: each start chooses the part that it moves\n", screen->to);
        fputs("         from ", screen->to);
        end_of_put(doc_get(step, "source"), screen);
        fputs("\n         to   ", screen->to);
        end_of_put(doc_get(step, "target"), screen);
        const json_t *notify = doc_get(step, "notify");
        if (json_is_object(notify))
            fprintf(screen->to, "\n         then notify rank %lld, slot %lld",
                    doc_integer(notify, "rank"), doc_integer(notify, "slot"));
        if (doc_true(step, "ordered"))
            fputs("\n         visible only after all earlier puts", screen->to);
        if (json_is_integer(doc_get(step, "after")))
            fprintf(screen->to, "\n         after step %lld, which uses some of the same bytes",
                    doc_integer(step, "after"));
        copy_modes(doc_get(step, "copy"), screen);
        tried_modes(doc_get(step, "copy"), screen);
        pair(doc_get(step, "pair"), screen);
        broken_link(step, doc_integer(step, "target.node"), screen);
    } else if (doc_get(step, "rank")) {
        fprintf(screen->to, " rank %lld, slot %lld", doc_integer(step, "rank"),
                doc_integer(step, "slot"));
        if (doc_get(step, "count"))
            fprintf(screen->to, ", count %lld", doc_integer(step, "count"));
        pair(doc_get(step, "pair"), screen);
        broken_link(step, doc_integer(step, "node"), screen);
    }
    if (doc_true(step, "flush"))
        fputs("\n         then waits until all puts so far are complete remotely", screen->to);
    fputc('\n', screen->to);
}

static void candidates(const json_t *chain, const struct screen *screen)
{
    static const char *const titles[] = {"RAIL",   "SEAT", ">PREDICTED", ">HOPS",
                                         "CHOSEN", "WHY",  NULL};
    struct table table;

    table_init(&table, titles);
    for (size_t i = 0; i < doc_count(chain, "candidates"); i++) {
        const json_t *candidate = doc_at(chain, "candidates", i);
        const char *why = json_string_value(doc_get(candidate, "why"));
        table_add(&table, "%s", doc_text(candidate, "rail"));
        table_add(&table, "%s", doc_text(candidate, "seat"));
        table_add(&table, "%s", time_or_dash(candidate, "predicted_ns").text);
        const long long hops = doc_integer(candidate, "hops");
        if (hops > 0)
            table_add(&table, "%lld", hops);
        else
            table_add(&table, "-");
        table_add_state(&table, doc_true(candidate, "chosen") ? "chosen" : "");
        table_add(&table, "%s", why ? why : "");
    }
    table_print(&table, screen, 4, "no candidates: this chain moves no bytes");
    table_deinit(&table);
}

static void plan_lines(const json_t *doc, const struct screen *screen)
{
    char text[64];
    const char *state = state_of(doc, text, sizeof text);
    const char *error = json_string_value(doc_get(doc, "error"));

    fputs("plan ", screen->to);
    screen_text(screen, doc_text(doc, "id"));
    fputs(" (", screen->to);
    screen_text(screen, doc_text(doc, "name"));
    fprintf(screen->to, "), session %lld, channel %lld: %s", doc_integer(doc, "session"),
            doc_integer(doc, "channel"), screen_begin(screen, screen_color_of(state)));
    screen_text(screen, text);
    fputs(screen_end(screen, screen_color_of(state)), screen->to);
    fprintf(screen->to, ", %s per start%s, ", units_bytes(doc_number(doc, "bytes")).text,
            doc_true(doc, "parts") ? " at most" : "");
    fprintf(screen->to, "%s start%s", units_count(doc_number(doc, "starts")).text,
            units_plural((long long)doc_number(doc, "starts")));
    if (json_is_integer(json_object_get(doc, "rounds")))
        fprintf(screen->to, ", %s round%s", units_count(doc_number(doc, "rounds")).text,
                units_plural((long long)doc_number(doc, "rounds")));
    if (doc_true(doc, "parts"))
        fprintf(screen->to, ", %s moved", units_bytes(doc_number(doc, "moved_bytes")).text);
    if (doc_integer(doc, "errors"))
        fprintf(screen->to, ", %s%lld failed%s", screen_begin(screen, COLOR_BAD),
                doc_integer(doc, "errors"), screen_end(screen, COLOR_BAD));
    fputc('\n', screen->to);
    if (doc_number(doc, "median_ns") > 0) { /* measured in the daemon seat only */
        fprintf(screen->to, "measured in the daemon seat: median %s, ",
                units_ns(doc_number(doc, "median_ns")).text);
        fprintf(screen->to, "p99 %s\n", units_ns(doc_number(doc, "p99_ns")).text);
    }
    if (error && *error) {
        fputs("error: ", screen->to);
        screen_text(screen, error);
        fputc('\n', screen->to);
    }
}

/* It returns to that rail when it can. */
static void away_from(const json_t *chain, const struct screen *screen)
{
    const char *rail = doc_text(chain, "rail"), *wanted = doc_text(chain, "wanted_rail");
    if (!json_object_get(chain, "wanted_rail") || strcmp(rail, wanted) == 0)
        return;
    fputs(" (away from ", screen->to);
    screen_text(screen, wanted);
    fputc(')', screen->to);
}

void render_plan(const json_t *doc, const struct screen *screen)
{
    plan_lines(doc, screen);
    for (size_t i = 0; i < doc_count(doc, "chains"); i++) {
        const json_t *chain = doc_at(doc, "chains", i);
        fprintf(screen->to, "\nchain %lld: rail ", doc_integer(chain, "index"));
        screen_text(screen, doc_text(chain, "rail"));
        away_from(chain, screen);
        fputs(", seat ", screen->to);
        screen_text(screen, doc_text(chain, "seat"));
        fprintf(screen->to, "; predicted %s\n", time_or_dash(chain, "predicted_ns").text);
        for (size_t k = 0; k < doc_count(chain, "steps"); k++) {
            fprintf(screen->to, "  %3zu  ", k);
            step(doc_at(chain, "steps", k), screen);
        }
        candidates(chain, screen);
    }
}
