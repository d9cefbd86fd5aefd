#include <stdlib.h>

#include "tools/common/must.h"
#include "tools/tcactl/doc.h"
#include "tools/tcactl/render.h"
#include "tools/tcactl/table.h"

static const char *const place_titles[] = {">NODE", "NAME", "SUB-CLUSTER", "RANKS", NULL};

static bool is_first_of_node(const json_t *doc, size_t index)
{
    return doc_integer(doc_at(doc, "ranks", index), "slot") == 0;
}

/* "0-2 4 6-7" */
static char *ranks_of(const json_t *doc, long long node)
{
    char *text = NULL;
    size_t bytes = 0, count = doc_count(doc, "ranks");
    FILE *out = must(open_memstream(&text, &bytes));

    for (size_t i = 0; i < count; i++) {
        size_t last = i;
        if (doc_integer(doc_at(doc, "ranks", i), "node") != node)
            continue;
        while (last + 1 < count && doc_integer(doc_at(doc, "ranks", last + 1), "node") == node)
            last++;
        fprintf(out, "%s%zu", bytes || ftell(out) ? " " : "", i);
        if (last > i)
            fprintf(out, "-%zu", last);
        i = last;
    }
    fclose(out);
    return must(text);
}

static void print_shares(const json_t *doc, const struct screen *screen)
{
    fprintf(screen->to,
            "halo data between nodes: %.0f %% (ranks in order: %.0f %%);\n"
            "          between sub-clusters: %.0f %% (%.0f %%)\n",
            100 * doc_number(doc, "share.between_nodes"),
            100 * doc_number(doc, "share_in_order.between_nodes"),
            100 * doc_number(doc, "share.between_subclusters"),
            100 * doc_number(doc, "share_in_order.between_subclusters"));
}

void render_place(const json_t *doc, const struct screen *screen)
{
    struct table table;

    table_init(&table, place_titles);
    for (size_t i = 0; i < doc_count(doc, "ranks"); i++) {
        const json_t *rank = doc_at(doc, "ranks", i);
        if (!is_first_of_node(doc, i))
            continue;
        char *ranks = ranks_of(doc, doc_integer(rank, "node"));
        table_add(&table, "%lld", doc_integer(rank, "node"));
        table_add(&table, "%s", doc_text(rank, "name"));
        table_add(&table, "%s", doc_text(rank, "subcluster"));
        table_add(&table, "%s", ranks);
        free(ranks);
    }
    table_print(&table, screen, 0, "no ranks");
    table_deinit(&table);
    print_shares(doc, screen);
}

void render_rankfile(const json_t *doc, const struct screen *screen)
{
    for (size_t i = 0; i < doc_count(doc, "ranks"); i++) {
        const json_t *rank = doc_at(doc, "ranks", i);
        screen_print(screen, "rank %lld=%s slot=%lld\n", doc_integer(rank, "rank"),
                     doc_text(rank, "name"), doc_integer(rank, "slot"));
    }
}

void render_hostlist(const json_t *doc, const struct screen *screen)
{
    for (size_t i = 0; i < doc_count(doc, "ranks"); i++)
        screen_print(screen, "%s%s", i ? "," : "", doc_text(doc_at(doc, "ranks", i), "name"));
    fputc('\n', screen->to);
}
