/* The collective operation that a plan carries out, and how its algorithm was chosen. */
#include <string.h>

#include "tools/tcactl/doc.h"
#include "tools/tcactl/list.h"
#include "tools/tcactl/render.h"
#include "tools/tcactl/units.h"

static void add_pieces(struct table *table, const json_t *candidate, const char *path)
{
    const bool cut = doc_is_number(candidate, path);
    table_add(table, "%s", cut ? units_bytes(doc_number(candidate, path)).text : "-");
}

static void summary(const json_t *doc, const struct screen *screen)
{
    const char *operation = doc_text(doc, "operation");
    const long long ranks = doc_integer(doc, "ranks");

    screen_print(screen, "%s", operation);
    if (doc_number(doc, "bytes") > 0)
        fprintf(screen->to, " of %s", units_bytes(doc_number(doc, "bytes")).text);
    if (strcmp(operation, "broadcast") == 0 || strcmp(operation, "reduce") == 0)
        fprintf(screen->to, ", root %lld", doc_integer(doc, "root"));
    fprintf(screen->to, ", among %lld rank%s", ranks, units_plural(ranks));
    screen_print(screen, ": algorithm %s", doc_text(doc, "algorithm"));
    if (doc_is_number(doc, "segment_bytes"))
        fprintf(screen->to, " in pieces of %s", units_bytes(doc_number(doc, "segment_bytes")).text);
    fprintf(screen->to, "%s\n",
            doc_true(doc, "requested")         ? ", requested by the program"
            : doc_count(doc, "candidates") > 0 ? ", by predicted cost:"
                                               : "");
}

/* The command that shows the schedules of all ranks, if ranks fill nodes in order. */
static void all_ranks(const json_t *doc, const struct screen *screen)
{
    if (!doc_is_number(doc, "per_node"))
        return;
    screen_print(screen, "    all ranks: tcactl simulate %s", doc_text(doc, "operation"));
    if (doc_number(doc, "bytes") > 0)
        fprintf(screen->to, " %lld", doc_integer(doc, "bytes"));
    fprintf(screen->to, " --ranks %lld --ppn %lld", doc_integer(doc, "ranks"),
            doc_integer(doc, "per_node"));
    if (doc_is_number(doc, "per_subcluster"))
        fprintf(screen->to, " --subcluster %lld", doc_integer(doc, "per_subcluster"));
    if (doc_integer(doc, "root") > 0)
        fprintf(screen->to, " --root %lld", doc_integer(doc, "root"));
    screen_print(screen, " --algorithm %s", doc_text(doc, "algorithm"));
    if (doc_is_number(doc, "segment_bytes"))
        fprintf(screen->to, " --segment %lld", doc_integer(doc, "segment_bytes"));
    fputs(" --steps\n", screen->to);
}

void render_collective(const json_t *doc, const struct screen *screen)
{
    static const struct column columns[] = {
        {"ALGORITHM", "algorithm"},
        {">PREDICTED", "predicted_ns", cell_time},
        {">PIECES", "segment_bytes", add_pieces},
        {"CHOSEN", "chosen", cell_chosen},
        {0},
    };

    if (!json_is_object(doc))
        return;
    summary(doc, screen);
    if (doc_count(doc, "candidates") > 0)
        list_show(doc, "candidates", columns, screen, 4, "");
    all_ranks(doc, screen);
}
