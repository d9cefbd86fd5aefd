#include <stdlib.h>
#include <string.h>

#include "tools/common/must.h"
#include "tools/tcactl/doc.h"
#include "tools/tcactl/render.h"
#include "tools/tcactl/units.h"

/* Nodes grouped by sub-cluster, in the order of the document. */
struct forest {
    const json_t *doc;
    const char **names; /* of sub-clusters */
    size_t count;
};

static void forest_init(struct forest *forest, const json_t *doc)
{
    size_t nodes = doc_count(doc, "nodes");

    *forest = (struct forest){.doc = doc, .names = must(calloc(nodes + 1, sizeof(char *)))};
    for (size_t i = 0; i < nodes; i++) {
        const char *name = doc_text(doc_at(doc, "nodes", i), "subcluster");
        size_t k = 0;
        while (k < forest->count && strcmp(forest->names[k], name) != 0)
            k++;
        if (k == forest->count)
            forest->names[forest->count++] = name;
    }
}

static void forest_deinit(struct forest *forest)
{
    free(forest->names);
}

/* The next node of a sub-cluster at or after `from`; the number of nodes if there is none. */
static size_t forest_next(const struct forest *forest, size_t subcluster, size_t from)
{
    size_t nodes = doc_count(forest->doc, "nodes");

    while (from < nodes && strcmp(doc_text(doc_at(forest->doc, "nodes", from), "subcluster"),
                                  forest->names[subcluster]) != 0)
        from++;
    return from;
}

static void branch(const struct screen *screen, bool last)
{
    if (screen->utf8)
        fputs(last ? "\xe2\x94\x94\xe2\x94\x80 " : "\xe2\x94\x9c\xe2\x94\x80 ", screen->to);
    else
        fputs(last ? "`- " : "|- ", screen->to);
}

static void trunk(const struct screen *screen, bool last)
{
    fputs(last ? "   " : screen->utf8 ? "\xe2\x94\x82  " : "|  ", screen->to);
}

/* The rails from this daemon's node to another. */
static void links(const struct forest *forest, long long id, const struct screen *screen)
{
    long long self = doc_integer(forest->doc, "self");

    for (size_t i = 0; i < doc_count(forest->doc, "links"); i++) {
        const json_t *link = doc_at(forest->doc, "links", i);
        long long from = doc_integer(link, "from"), to = doc_integer(link, "to");
        if (!(from == self && to == id) && !(to == self && from == id))
            continue;
        screen_print(screen, ", %s ", doc_text(link, "rail"));
        screen_state(screen, doc_text(link, "state"));
    }
}

/* Boards and cables of a network without switches. */
static void fabric(const json_t *doc, const struct screen *screen)
{
    size_t cables = doc_count(doc, "cables"), faults = doc_count(doc, "faults");

    screen_print(screen, "%s: %s, boards", doc_text(doc, "rail"), doc_text(doc, "shape"));
    for (size_t i = 0; i < doc_count(doc, "boards"); i++) {
        const json_t *board = doc_at(doc, "boards", i);
        fprintf(screen->to, "%s %lld ", i ? "," : "", doc_integer(board, "node"));
        screen_state(screen, doc_text(board, "state"));
    }
    fputc('\n', screen->to);
    for (size_t i = 0; i < cables; i++) {
        const json_t *cable = doc_at(doc, "cables", i);
        branch(screen, i + 1 == cables + faults);
        screen_print(screen, "%lld %s - %lld %s ", doc_integer(cable, "from"),
                     doc_text(cable, "from_port"), doc_integer(cable, "to"),
                     doc_text(cable, "to_port"));
        screen_state(screen, doc_text(cable, "state"));
        fputc('\n', screen->to);
    }
    for (size_t i = 0; i < faults; i++) {
        const json_t *fault = doc_at(doc, "faults", i);
        branch(screen, i + 1 == faults);
        screen_print(screen, "this node's board: %s, %lld time%s\n", doc_text(fault, "text"),
                     doc_integer(fault, "count"), units_plural(doc_integer(fault, "count")));
    }
}

static void counted(const json_t *doc, const char *key, const char *what,
                    const struct screen *screen)
{
    fprintf(screen->to, "%lld %s%s, ", doc_integer(doc, key), what,
            units_plural(doc_integer(doc, key)));
}

static void machine(const json_t *doc, const struct screen *screen)
{
    const json_t *machine = doc_get(doc, "machine");
    size_t devices = doc_count(machine, "devices");

    if (!machine)
        return;
    fputs("this machine: ", screen->to);
    counted(machine, "packages", "package", screen);
    counted(machine, "cores", "core", screen);
    counted(machine, "processors", "processor", screen);
    counted(machine, "numa_nodes", "NUMA node", screen);
    fprintf(screen->to, "%s\n", units_bytes(doc_number(machine, "memory_bytes")).text);
    for (size_t i = 0; i < devices; i++) {
        const json_t *device = doc_at(machine, "devices", i);
        branch(screen, i + 1 == devices);
        screen_print(screen, "%s, %s", doc_text(device, "name"), doc_text(device, "type"));
        if (doc_is_number(device, "numa_node") && doc_integer(device, "numa_node") >= 0)
            fprintf(screen->to, ", NUMA node %lld", doc_integer(device, "numa_node"));
        fputc('\n', screen->to);
    }
}

void render_topology(const json_t *doc, const struct screen *screen)
{
    struct forest forest;
    size_t nodes = doc_count(doc, "nodes");

    forest_init(&forest, doc);
    screen_print(screen, "cluster %s: %zu node%s, seen from node %lld\n", doc_text(doc, "cluster"),
                 nodes, units_plural((long long)nodes), doc_integer(doc, "self"));
    for (size_t s = 0; s < forest.count; s++) {
        bool last = s + 1 == forest.count;
        branch(screen, last);
        screen_print(screen, "sub-cluster %s\n", forest.names[s]);
        for (size_t i = forest_next(&forest, s, 0), next; i < nodes; i = next) {
            const json_t *node = doc_at(doc, "nodes", i);
            next = forest_next(&forest, s, i + 1);
            trunk(screen, last);
            branch(screen, next == nodes);
            screen_print(screen, "%lld %s ", doc_integer(node, "id"), doc_text(node, "name"));
            screen_state(screen, doc_text(node, "state"));
            links(&forest, doc_integer(node, "id"), screen);
            fputc('\n', screen->to);
        }
    }
    for (size_t i = 0; i < doc_count(doc, "fabrics"); i++)
        fabric(doc_at(doc, "fabrics", i), screen);
    machine(doc, screen);
    forest_deinit(&forest);
}

static void dot_string(const struct screen *screen, const char *text)
{
    fputc('"', screen->to);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', screen->to);
        fputc((unsigned char)*text < 0x20 ? '?' : *text, screen->to);
    }
    fputc('"', screen->to);
}

static const char *dot_color(const char *state)
{
    switch (screen_color_of(state)) {
    case COLOR_GOOD:
        return "#2e7d32";
    case COLOR_WARN:
        return "#b26a00";
    case COLOR_BAD:
        return "#c62828";
    default:
        return "#757575";
    }
}

/* Cables as thick lines; nodes are marked if their board is cut off. */
static void dot_fabric(const json_t *doc, const struct screen *screen)
{
    for (size_t i = 0; i < doc_count(doc, "boards"); i++) {
        const json_t *board = doc_at(doc, "boards", i);
        const char *state = doc_text(board, "state");
        if (strcmp(state, "up") == 0)
            continue;
        fprintf(screen->to, "    n%lld [xlabel=", doc_integer(board, "node"));
        dot_string(screen, doc_text(doc, "rail"));
        fprintf(screen->to, ", fontcolor=\"%s\", style=\"rounded,dashed\"];\n", dot_color(state));
    }
    for (size_t i = 0; i < doc_count(doc, "cables"); i++) {
        const json_t *cable = doc_at(doc, "cables", i);
        const char *state = doc_text(cable, "state");
        fprintf(screen->to, "    n%lld -- n%lld [taillabel=", doc_integer(cable, "from"),
                doc_integer(cable, "to"));
        dot_string(screen, doc_text(cable, "from_port"));
        fputs(", headlabel=", screen->to);
        dot_string(screen, doc_text(cable, "to_port"));
        fprintf(screen->to, ", color=\"%s\", penwidth=3, style=%s];\n", dot_color(state),
                strcmp(state, "in") == 0 ? "solid" : "dotted");
    }
}

void render_topology_dot(const json_t *doc, const struct screen *screen)
{
    struct forest forest;
    size_t nodes = doc_count(doc, "nodes");

    forest_init(&forest, doc);
    fputs("graph ", screen->to);
    dot_string(screen, doc_text(doc, "cluster"));
    fputs(" {\n    layout=fdp; overlap=false; splines=true; fontname=\"sans-serif\";\n"
          "    node [shape=box, style=\"rounded,filled\", fillcolor=white, "
          "fontname=\"sans-serif\"];\n"
          "    edge [fontname=\"sans-serif\", fontsize=10];\n",
          screen->to);
    for (size_t s = 0; s < forest.count; s++) {
        fprintf(screen->to, "    subgraph cluster_%zu {\n        label=", s);
        dot_string(screen, forest.names[s]);
        fputs(";\n        style=\"rounded,filled\"; color=\"#eceff1\";\n", screen->to);
        for (size_t i = forest_next(&forest, s, 0); i < nodes; i = forest_next(&forest, s, i + 1)) {
            const json_t *node = doc_at(doc, "nodes", i);
            const char *state = doc_text(node, "state");
            fprintf(screen->to, "        n%lld [label=", doc_integer(node, "id"));
            dot_string(screen, doc_text(node, "name"));
            fprintf(screen->to, ", color=\"%s\", penwidth=%d, tooltip=", dot_color(state),
                    doc_integer(node, "id") == doc_integer(doc, "self") ? 3 : 1);
            dot_string(screen, state);
            fputs("];\n", screen->to);
        }
        fputs("    }\n", screen->to);
    }
    for (size_t i = 0; i < doc_count(doc, "links"); i++) {
        const json_t *link = doc_at(doc, "links", i);
        const char *state = doc_text(link, "state");
        fprintf(screen->to, "    n%lld -- n%lld [label=", doc_integer(link, "from"),
                doc_integer(link, "to"));
        dot_string(screen, doc_text(link, "rail"));
        fprintf(screen->to, ", color=\"%s\", style=%s];\n", dot_color(state),
                strcmp(state, "up") == 0 ? "solid" : "dashed");
    }
    for (size_t i = 0; i < doc_count(doc, "fabrics"); i++)
        dot_fabric(doc_at(doc, "fabrics", i), screen);
    fputs("}\n", screen->to);
    forest_deinit(&forest);
}
