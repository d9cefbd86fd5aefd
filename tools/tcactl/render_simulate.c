#include <stdlib.h>
#include <string.h>

#include "tools/common/must.h"
#include "tools/tcactl/doc.h"
#include "tools/tcactl/list.h"
#include "tools/tcactl/render.h"
#include "tools/tcactl/units.h"

static void summary(const json_t *doc, const struct screen *screen)
{
    const long long ranks = doc_integer(doc, "ranks"), nodes = doc_integer(doc, "nodes"),
                    subclusters = doc_integer(doc, "subclusters");

    fputs(doc_text(doc, "operation"), screen->to);
    if (doc_number(doc, "bytes") > 0)
        fprintf(screen->to, " of %s", units_bytes(doc_number(doc, "bytes")).text);
    fprintf(screen->to, ": %lld rank%s on %lld node%s in %lld sub-cluster%s\n", ranks,
            units_plural(ranks), nodes, units_plural(nodes), subclusters,
            units_plural(subclusters));
    fprintf(screen->to, "predicted: %s, by the algorithm %s\n",
            units_ns(doc_number(doc, "predicted_ns")).text, doc_text(doc, "algorithm"));
}

static void add_pieces(struct table *table, const json_t *algorithm, const char *path)
{
    const bool cut = doc_is_number(algorithm, path);
    table_add(table, "%s", cut ? units_bytes(doc_number(algorithm, path)).text : "-");
}

static void add_prediction(struct table *table, const json_t *algorithm, const char *path)
{
    table_add(table, "%s", units_ns(doc_number(algorithm, path)).text);
}

static void costs(const json_t *doc, const struct screen *screen)
{
    static const char *const titles[] = {"BETWEEN",    ">LATENCY", ">WORK", ">KIB, SHORT",
                                         ">KIB, LONG", "COSTS",    NULL};
    static const char *const links[][2] = {{"costs.node", "ranks of a node"},
                                           {"costs.subcluster", "nodes of a sub-cluster"},
                                           {"costs.cluster", "other nodes"}};
    struct table table;

    table_init(&table, titles);
    for (size_t i = 0; i < sizeof(links) / sizeof(*links); i++) {
        const json_t *link = doc_get(doc, links[i][0]);
        table_add(&table, "%s", links[i][1]);
        table_add(&table, "%s", units_ns(doc_number(link, "latency_ns")).text);
        table_add(&table, "%s", units_ns(doc_number(link, "overhead_ns")).text);
        table_add(&table, "%s", units_ns(doc_number(link, "small_kib_ns")).text);
        table_add(&table, "%s", units_ns(doc_number(link, "large_kib_ns")).text);
        table_add(&table, "%s", doc_true(link, "measured") ? "measured" : "typical");
    }
    fputc('\n', screen->to);
    table_print(&table, screen, 0, "no costs");
    table_deinit(&table);
}

static void algorithms(const json_t *doc, const struct screen *screen)
{
    static const struct column columns[] = {
        {"ALGORITHM", "name"},
        {">PREDICTED", "predicted_ns", add_prediction},
        {">PIECES", "segment_bytes", add_pieces},
        {"CHOSEN", "chosen", cell_chosen},
        {0},
    };
    fputc('\n', screen->to);
    list_show(doc, "algorithms", columns, screen, 0, "no algorithm");
}

static void links(const json_t *doc, const struct screen *screen)
{
    static const struct column columns[] = {
        {">FROM NODE", "from", cell_integer},
        {">TO NODE", "to", cell_integer},
        {">PUTS", "puts", cell_count},
        {">BYTES", "bytes", cell_bytes},
        {0},
    };
    fputc('\n', screen->to);
    list_show(doc, "links", columns, screen, 0, "no puts");
}

struct shown {
    const json_t *step;
    size_t index; /* in the document, where those of one chain are in order */
};

/* By begin, rank and order. */
static int compare(const void *a, const void *b)
{
    const struct shown *left = a, *right = b;
    const long long begins =
        doc_integer(left->step, "begin_ns") - doc_integer(right->step, "begin_ns");
    const long long ranks = doc_integer(left->step, "rank") - doc_integer(right->step, "rank");

    if (begins != 0 || ranks != 0)
        return begins < 0 || (begins == 0 && ranks < 0) ? -1 : 1;
    return left->index < right->index ? -1 : 1;
}

static void add_row(struct table *table, const json_t *step)
{
    const char *kind = doc_text(step, "kind");
    const bool moves = doc_integer(step, "bytes") > 0;
    const bool meets = strcmp(kind, "copy") != 0 && strcmp(kind, "reduce") != 0;

    table_add(table, "%s", units_ns(doc_number(step, "begin_ns")).text);
    table_add(table, "%s", units_ns(doc_number(step, "end_ns")).text);
    table_add(table, "%lld", doc_integer(step, "rank"));
    table_add(table, "%lld", doc_integer(step, "chain"));
    table_add(table, "%s", kind);
    if (meets)
        table_add(table, "%lld", doc_integer(step, "peer"));
    else
        table_add(table, "-");
    table_add(table, "%s", moves ? units_bytes(doc_number(step, "bytes")).text : "-");
}

static void steps(const json_t *doc, const struct screen *screen)
{
    static const char *const titles[] = {">BEGIN", ">END",  ">RANK",  ">CHAIN",
                                         "STEP",   ">PEER", ">BYTES", NULL};
    const size_t count = doc_count(doc, "steps");
    struct shown *sorted = must(calloc(count + 1, sizeof(*sorted)));
    struct table table;

    for (size_t i = 0; i < count; i++)
        sorted[i] = (struct shown){doc_at(doc, "steps", i), i};
    qsort(sorted, count, sizeof(*sorted), compare);
    table_init(&table, titles);
    for (size_t i = 0; i < count; i++)
        add_row(&table, sorted[i].step);
    fputc('\n', screen->to);
    table_print(&table, screen, 0, "no steps");
    table_deinit(&table);
    free(sorted);
}

void render_simulate(const json_t *doc, const struct screen *screen)
{
    summary(doc, screen);
    costs(doc, screen);
    algorithms(doc, screen);
    if (!json_is_null(doc_get(doc, "links")))
        links(doc, screen);
    if (doc_get(doc, "steps"))
        steps(doc, screen);
}
