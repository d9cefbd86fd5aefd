#include <stdio.h>
#include <string.h>

#include "tools/tcactl/doc.h"
#include "tools/tcactl/list.h"
#include "tools/tcactl/render.h"
#include "tools/tcactl/units.h"

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

static void add_state(struct table *table, const json_t *plan, const char *path)
{
    char text[64];
    (void)path;
    state_of(plan, text, sizeof(text));
    table_add_state(table, text);
}

/* The target nodes: "1 2 5", only the first few of many. */
static void add_nodes(struct table *table, const json_t *plan, const char *path)
{
    enum { SHOWN_MAX = 4 };
    size_t count = doc_count(plan, path);
    char text[96];
    int at = 0;

    for (size_t i = 0; i < count && i < SHOWN_MAX; i++)
        at += snprintf(text + at, sizeof(text) - (size_t)at, "%s%lld", i ? " " : "",
                       json_integer_value(doc_at(plan, path, i)));
    if (count > SHOWN_MAX)
        snprintf(text + at, sizeof(text) - (size_t)at, " +%zu", count - SHOWN_MAX);
    table_add(table, "%s", count ? text : "-");
}

void render_plans(const json_t *doc, const struct screen *screen)
{
    static const struct column columns[] = {
        {"ID", "id"},
        {">PID", "pid", cell_integer},
        {"NAME", "name"},
        {"STATE", "state", add_state},
        {"RAIL", "rail"},
        {"?SEAT", "seat"},
        {"TO", "nodes", add_nodes},
        {">BYTES", "bytes", cell_bytes},
        {">STARTS", "starts", cell_count},
        {">MEDIAN", "median_ns", cell_time},
        {"?>P99", "p99_ns", cell_time},
        {">ERRORS", "errors", cell_integer},
        {0},
    };
    list_show(doc, "plans", columns, screen, 0, "no plans");
}

static void end_of_put(const json_t *end, const struct screen *screen)
{
    if (doc_get(end, "node"))
        fprintf(screen->to, "node %lld ", doc_integer(end, "node"));
    screen_print(screen, "region %lld at %lld, %s", doc_integer(end, "region"),
                 doc_integer(end, "offset"), doc_text(end, "layout"));
}

static void copy_modes(const json_t *copy, const struct screen *screen)
{
    if (doc_count(copy, "methods") == 0)
        return;
    screen_print(screen, "\n         copy mode %s", doc_text(doc_at(copy, "methods", 0), ""));
    if (doc_count(copy, "methods") > 1)
        screen_print(screen, " up to %lld ns of distance, else %s",
                     doc_integer(copy, "first_up_to_ns"), doc_text(doc_at(copy, "methods", 1), ""));
}

/* Modes that the first starts tried, each with its blocks of starts. */
static void tried_modes(const json_t *copy, const struct screen *screen)
{
    for (size_t i = 0; i < doc_count(copy, "tried"); i++) {
        const json_t *mode = doc_at(copy, "tried", i);
        const long long piece = doc_integer(mode, "piece_bytes");
        screen_print(screen, "\n         %s%s", i ? "      " : "tried ", doc_text(mode, "mode"));
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
    fputs("\n         ", screen->to);
    screen_paint(screen, COLOR_BAD, "the rail to node %lld is %s", node, state);
}

static void stripes(const json_t *step, const struct screen *screen)
{
    const size_t count = doc_count(step, "stripes");
    for (size_t i = 0; i < count; i++) {
        const json_t *stripe = doc_at(step, "stripes", i);
        screen_print(screen, "%s%s over %s", i == 0 ? "         divided: " : ", ",
                     units_bytes(doc_number(stripe, "bytes")).text, doc_text(stripe, "rail"));
    }
    if (count == 0)
        return;
    if (json_is_integer(doc_get(step, "division.predicted_ns")))
        fprintf(screen->to, "; predicted %s",
                units_time(doc_number(step, "division.predicted_ns")).text);
    fputc('\n', screen->to);
}

static void add_share(struct table *table, const json_t *share, const char *path)
{
    const double bytes = doc_number(share, path);
    table_add(table, "%s", bytes > 0 ? units_bytes(bytes).text : "-");
}

/* The rails that were considered for shares of the put. */
static void division(const json_t *step, const struct screen *screen)
{
    static const struct column columns[] = {
        {"RAIL", "rail"},
        {">SHARE", "bytes", add_share},
        {">PREDICTED", "predicted_ns", cell_time},
        {">ALONE", "alone_ns", cell_time},
        {"WHY", "why", cell_note},
        {0},
    };
    if (doc_count(step, "division.candidates") > 0)
        list_show(step, "division.candidates", columns, screen, 9, "");
}

/* The connection over which the process itself puts to another node. */
static void pair(const json_t *pair, const struct screen *screen)
{
    if (!json_is_object(pair))
        return;
    fputs("\n         over a connection of the two processes", screen->to);
    if (doc_true(pair, "ended")) {
        fputs(", ", screen->to);
        screen_paint(screen, COLOR_BAD, "which has ended");
        return;
    }
    screen_print(screen, " to session %lld of node %lld: rail %s, %s", doc_integer(pair, "session"),
                 doc_integer(pair, "node"), doc_text(pair, "rail"),
                 doc_true(pair, "kernel_tls")  ? "encrypted by the kernel"
                 : doc_true(pair, "encrypted") ? "encrypted"
                                               : "in clear");
    screen_print(screen, "; up to %s in each", units_bytes(doc_number(pair, "bytes")).text);
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
    } else if (doc_get(step, "value")) {
        fprintf(screen->to, " %lld at offset %lld of region %lld", doc_integer(step, "value"),
                doc_integer(step, "offset"), doc_integer(step, "region"));
        if (doc_get(step, "node"))
            fprintf(screen->to, ", node %lld", doc_integer(step, "node"));
        pair(doc_get(step, "pair"), screen);
        broken_link(step, doc_integer(step, "node"), screen);
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

static void add_positive(struct table *table, const json_t *candidate, const char *path)
{
    const long long number = doc_integer(candidate, path);
    if (number > 0)
        table_add(table, "%lld", number);
    else
        table_add(table, "-");
}

static void candidates(const json_t *chain, const struct screen *screen)
{
    static const struct column columns[] = {
        {"RAIL", "rail"},
        {"SEAT", "seat"},
        {">PREDICTED", "predicted_ns", cell_time},
        {">BLOCKS", "blocks", add_positive},
        {">INTERVAL", "ns", cell_time},
        {">HOPS", "hops", add_positive},
        {"CHOSEN", "chosen", cell_chosen},
        {"WHY", "why", cell_note},
        {0},
    };
    list_show(chain, "candidates", columns, screen, 4, "no candidates: this chain moves no bytes");
}

static void plan_lines(const json_t *doc, const struct screen *screen)
{
    char text[64];
    const char *state = state_of(doc, text, sizeof(text));
    const char *error = json_string_value(doc_get(doc, "error"));

    screen_print(screen, "plan %s (%s), session %lld, channel %lld: ", doc_text(doc, "id"),
                 doc_text(doc, "name"), doc_integer(doc, "session"), doc_integer(doc, "channel"));
    screen_paint(screen, screen_color_of(state), "%s", text);
    fprintf(screen->to, ", %s per start%s, ", units_bytes(doc_number(doc, "bytes")).text,
            doc_true(doc, "parts") ? " at most" : "");
    fprintf(screen->to, "%s start%s", units_count(doc_number(doc, "starts")).text,
            units_plural((long long)doc_number(doc, "starts")));
    if (json_is_integer(json_object_get(doc, "rounds")))
        fprintf(screen->to, ", %s round%s", units_count(doc_number(doc, "rounds")).text,
                units_plural((long long)doc_number(doc, "rounds")));
    if (doc_true(doc, "parts"))
        fprintf(screen->to, ", %s moved", units_bytes(doc_number(doc, "moved_bytes")).text);
    if (doc_integer(doc, "errors")) {
        fputs(", ", screen->to);
        screen_paint(screen, COLOR_BAD, "%lld failed", doc_integer(doc, "errors"));
    }
    fputc('\n', screen->to);
    if (doc_number(doc, "median_ns") > 0) /* measured in the daemon seat only */
        screen_print(screen, "measured in the daemon seat: median %s, p99 %s\n",
                     units_ns(doc_number(doc, "median_ns")).text,
                     units_ns(doc_number(doc, "p99_ns")).text);
    if (error && *error)
        screen_print(screen, "error: %s\n", error);
}

void render_plan(const json_t *doc, const struct screen *screen)
{
    plan_lines(doc, screen);
    render_collective(doc_get(doc, "collective"), screen);
    for (size_t i = 0; i < doc_count(doc, "chains"); i++) {
        const json_t *chain = doc_at(doc, "chains", i);
        const char *rail = doc_text(chain, "rail"), *wanted = doc_text(chain, "wanted_rail"),
                   *seat = doc_text(chain, "seat"), *wanted_seat = doc_text(chain, "wanted_seat");
        screen_print(screen, "\nchain %lld: rail %s", doc_integer(chain, "index"), rail);
        if (json_object_get(chain, "wanted_rail") && strcmp(rail, wanted) != 0)
            screen_print(screen, " (away from %s)", wanted); /* and returns when it can */
        screen_print(screen, ", seat %s", seat);
        if (json_object_get(chain, "wanted_seat") && strcmp(seat, wanted_seat) != 0)
            screen_print(screen, " (below %s)", wanted_seat); /* and moves up when it can */
        screen_print(screen, "; predicted %s\n",
                     units_time(doc_number(chain, "predicted_ns")).text);
        for (size_t k = 0; k < doc_count(chain, "steps"); k++) {
            fprintf(screen->to, "  %3zu  ", k);
            step(doc_at(chain, "steps", k), screen);
        }
        candidates(chain, screen);
    }
}
