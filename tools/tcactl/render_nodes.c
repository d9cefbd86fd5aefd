#include <stdio.h>
#include <string.h>

#include "tools/tcactl/doc.h"
#include "tools/tcactl/list.h"
#include "tools/tcactl/render.h"
#include "tools/tcactl/units.h"

/* The round-trip time of a node that is down is outdated. */
static void add_rtt(struct table *table, const json_t *node, const char *path)
{
    const bool up = strcmp(doc_text(node, "state"), "up") == 0;
    table_add(table, "%s", units_time(up ? 1e3 * doc_number(node, path) : 0).text);
}

/* The last error, that it has another cluster file, or why the connection was lost last and
 * resumed. */
static void add_note(struct table *table, const json_t *node, const char *path)
{
    const char *error = json_string_value(doc_get(node, path));
    long long reconnects = doc_integer(node, "reconnects");

    if (!(error && *error) && strcmp(doc_text(node, "cluster_file"), "different") == 0)
        table_add(table, "its cluster file differs from this node's");
    else if ((error && *error) || reconnects == 0)
        table_add(table, "%s", error ? error : "");
    else
        table_add(table, "%lld reconnect%s, last: %s", reconnects, units_plural(reconnects),
                  doc_text(node, "last_reconnect"));
}

/* One word if all rails and seats have it in common. */
static void add_encryption(struct table *table, const json_t *node, const char *path)
{
    const size_t count = doc_count(node, path);
    char text[512] = "-";
    bool alike = true;
    int at = 0;

    for (size_t i = 1; i < count; i++)
        alike &= strcmp(doc_text(doc_at(node, path, i), "encryption"),
                        doc_text(doc_at(node, path, 0), "encryption")) == 0;
    if (count > 0 && alike)
        snprintf(text, sizeof(text), "%s", doc_text(doc_at(node, path, 0), "encryption"));
    for (size_t i = 0; i < count && !alike && at < (int)sizeof(text); i++) {
        const json_t *one = doc_at(node, path, i);
        at += snprintf(text + at, sizeof(text) - (size_t)at, "%s%s (%s) %s", i > 0 ? ", " : "",
                       doc_text(one, "rail"), doc_text(one, "seat"), doc_text(one, "encryption"));
    }
    table_add(table, "%s", text);
}

void render_nodes(const json_t *doc, const struct screen *screen)
{
    static const struct column columns[] = {
        {">ID", "id", cell_integer},
        {"NAME", "name"},
        {"SUB-CLUSTER", "subcluster"},
        {"STATE", "state", cell_state},
        {">SINCE", "since_s", cell_age},
        {">RTT", "rtt_us", add_rtt},
        {"RAILS", "rails", cell_words},
        {"ENCRYPTION", "encryption", add_encryption},
        {"ADDRESS", "address"},
        {"NOTE", "last_error", add_note},
        {0},
    };
    list_show(doc, "nodes", columns, screen, 0, "no nodes");
}

void render_ping(const json_t *doc, const struct screen *screen)
{
    long long count = doc_integer(doc, "count"), lost = doc_integer(doc, "lost");

    screen_print(screen, "node %lld (%s): %lld of %lld answered", doc_integer(doc, "node"),
                 doc_text(doc, "name"), count - lost, count);
    if (count > lost)
        screen_print(screen, "; min %s, median %s, max %s",
                     units_ns(1e3 * doc_number(doc, "rtt_us.min")).text,
                     units_ns(1e3 * doc_number(doc, "rtt_us.median")).text,
                     units_ns(1e3 * doc_number(doc, "rtt_us.max")).text);
    screen_print(screen, "\n");
}

static void add_rtt_of(struct table *table, const json_t *ping, const char *path)
{
    const bool known = doc_is_number(ping, path);
    table_add(table, "%s", known ? units_ns(1e3 * doc_number(ping, path)).text : "-");
}

void render_pings(const json_t *doc, const struct screen *screen)
{
    static const struct column columns[] = {
        {">ID", "node", cell_integer},
        {"NAME", "name"},
        {">SENT", "count", cell_integer},
        {">LOST", "lost", cell_integer},
        {"?>MIN", "rtt_us.min", add_rtt_of},
        {">MEDIAN", "rtt_us.median", add_rtt_of},
        {">MAX", "rtt_us.max", add_rtt_of},
        {"ERROR", "error", cell_note},
        {0},
    };
    list_show(doc, "pings", columns, screen, 0, "no other nodes");
}
