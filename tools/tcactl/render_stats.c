#include <stdlib.h>
#include <string.h>

#include "tools/common/must.h"
#include "tools/tcactl/doc.h"
#include "tools/tcactl/render.h"
#include "tools/tcactl/table.h"
#include "tools/tcactl/units.h"

static char *labels_text(const json_t *labels)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = must(open_memstream(&text, &bytes));
    const char *between = "", *key;
    json_t *value;

    json_object_foreach((json_t *)labels, key, value)
    {
        if (json_is_string(value))
            fprintf(to, "%s%s=%s", between, key, json_string_value(value));
        else
            fprintf(to, "%s%s=%.0f", between, key, json_number_value(value));
        between = " ";
    }
    if (fclose(to) != 0)
        must(NULL);
    return text;
}

static struct units_text value_text(double value, const char *unit)
{
    if (strcmp(unit, "bytes") == 0)
        return units_bytes(value);
    if (strcmp(unit, "seconds") == 0)
        return value < 60 ? units_ns(1e9 * value) : units_age(value);
    if (strcmp(unit, "nanoseconds") == 0)
        return units_ns(value);
    return units_count(value);
}

bool stats_select(json_t *doc, const char *word)
{
    json_t *families = json_object_get(doc, "families");

    for (size_t i = json_array_size(families); i-- > 0;)
        if (!strstr(doc_text(json_array_get(families, i), "name"), word))
            json_array_remove(families, i);
    return json_array_size(families) > 0;
}

void render_stats(const json_t *doc, const struct screen *screen)
{
    static const char *const titles[] = {"NAME", "LABELS", ">VALUE", "MEANING", NULL};
    struct table table;

    table_init(&table, titles);
    for (size_t i = 0; i < doc_count(doc, "families"); i++) {
        const json_t *family = doc_at(doc, "families", i);
        const char *name = doc_text(family, "name");
        for (size_t k = 0; k < doc_count(family, "samples"); k++) {
            const json_t *sample = doc_at(family, "samples", k);
            char *labels = labels_text(doc_get(sample, "labels"));
            table_add(&table, "%s", name);
            table_add(&table, "%s", labels);
            table_add(&table, "%s",
                      value_text(doc_number(sample, "value"), doc_text(family, "unit")).text);
            table_add(&table, "%s", k == 0 ? doc_text(family, "help") : "");
            free(labels);
        }
    }
    table_print(&table, screen, 0,
                doc_count(doc, "families") > 0
                    ? "these statistics have no values now"
                    : "no statistics contain the word in their name: \"tcactl stats\" lists all");
    table_deinit(&table);
}
