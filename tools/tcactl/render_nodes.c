#include <stdlib.h>
#include <string.h>

#include "tools/tcactl/doc.h"
#include "tools/tcactl/render.h"
#include "tools/tcactl/table.h"
#include "tools/tcactl/units.h"

static const char *const node_titles[] = {">ID",  "NAME",  "SUB-CLUSTER", "STATE", ">SINCE",
                                          ">RTT", "RAILS", "ADDRESS",     "NOTE",  NULL};

/* The last error, or why the connection was lost last and resumed. */
static void add_note(struct table *table, const json_t *node, const char *error)
{
    long long reconnects = doc_integer(node, "reconnects");

    if (*error || reconnects == 0)
        table_add(table, "%s", error);
    else
        table_add(table, "%lld reconnect%s, last: %s", reconnects, units_plural(reconnects),
                  doc_text(node, "last_reconnect"));
}

void render_nodes(const json_t *doc, const struct screen *screen)
{
    struct table table;

    table_init(&table, node_titles);
    for (size_t i = 0; i < doc_count(doc, "nodes"); i++) {
        const json_t *node = doc_at(doc, "nodes", i);
        const char *error = json_string_value(doc_get(node, "last_error"));
        char *rails = doc_join(node, "rails");

        table_add(&table, "%lld", doc_integer(node, "id"));
        table_add(&table, "%s", doc_text(node, "name"));
        table_add(&table, "%s", doc_text(node, "subcluster"));
        table_add_state(&table, doc_text(node, "state"));
        table_add(&table, "%s",
                  doc_is_number(node, "since_s") ? units_age(doc_number(node, "since_s")).text
                                                 : "-");
        /* The round-trip time of a node that is down is outdated. */
        bool measured =
            doc_number(node, "rtt_us") > 0 && strcmp(doc_text(node, "state"), "up") == 0;
        table_add(&table, "%s", measured ? units_ns(1e3 * doc_number(node, "rtt_us")).text : "-");
        table_add(&table, "%s", rails);
        table_add(&table, "%s", doc_text(node, "address"));
        add_note(&table, node, error ? error : "");
        free(rails);
    }
    table_print(&table, screen, 0, "no nodes");
    table_deinit(&table);
}

void render_ping(const json_t *doc, const struct screen *screen)
{
    long long count = doc_integer(doc, "count"), lost = doc_integer(doc, "lost");

    fprintf(screen->to, "node %lld (", doc_integer(doc, "node"));
    screen_text(screen, doc_text(doc, "name"));
    fprintf(screen->to, "): %lld of %lld answered", count - lost, count);
    if (count > lost)
        fprintf(screen->to, "; min %s, median %s, max %s",
                units_ns(1e3 * doc_number(doc, "rtt_us.min")).text,
                units_ns(1e3 * doc_number(doc, "rtt_us.median")).text,
                units_ns(1e3 * doc_number(doc, "rtt_us.max")).text);
    fputc('\n', screen->to);
}
