#include "tools/tcactl/list.h"

#include <pwd.h>
#include <stdint.h>
#include <stdlib.h>

#include "tools/tcactl/doc.h"
#include "tools/tcactl/units.h"

static bool is_shown(const json_t *doc, const char *path, const struct column *column)
{
    for (size_t i = 0; column->sparse && i < doc_count(doc, path); i++)
        if (doc_number(doc_at(doc, path, i), column->path) > 0)
            return true;
    return !column->sparse;
}

void list_show(const json_t *doc, const char *path, const struct column *columns,
               const struct screen *screen, unsigned indent, const char *empty)
{
    const struct column *shown[TABLE_COLUMNS_MAX];
    const char *titles[TABLE_COLUMNS_MAX + 1];
    struct table table;
    size_t count = 0;

    for (; columns->title; columns++)
        if (is_shown(doc, path, columns)) {
            titles[count] = columns->title;
            shown[count++] = columns;
        }
    titles[count] = NULL;
    table_init(&table, titles);
    for (size_t i = 0; i < doc_count(doc, path); i++)
        for (size_t c = 0; c < count; c++) {
            const json_t *element = doc_at(doc, path, i);
            if (shown[c]->add)
                shown[c]->add(&table, element, shown[c]->path);
            else
                table_add(&table, "%s", doc_text(element, shown[c]->path));
        }
    table_print(&table, screen, indent, empty);
    table_deinit(&table);
}

void cell_integer(struct table *table, const json_t *element, const char *path)
{
    table_add(table, "%lld", doc_integer(element, path));
}

void cell_bytes(struct table *table, const json_t *element, const char *path)
{
    table_add(table, "%s", units_bytes(doc_number(element, path)).text);
}

void cell_count(struct table *table, const json_t *element, const char *path)
{
    table_add(table, "%s", units_count(doc_number(element, path)).text);
}

void cell_time(struct table *table, const json_t *element, const char *path)
{
    table_add(table, "%s", units_time(doc_number(element, path)).text);
}

void cell_age(struct table *table, const json_t *element, const char *path)
{
    const bool known = doc_is_number(element, path);
    table_add(table, "%s", known ? units_age(doc_number(element, path)).text : "-");
}

void cell_state(struct table *table, const json_t *element, const char *path)
{
    table_add_state(table, doc_text(element, path));
}

void cell_chosen(struct table *table, const json_t *element, const char *path)
{
    table_add_state(table, doc_true(element, path) ? "chosen" : "");
}

void cell_note(struct table *table, const json_t *element, const char *path)
{
    const char *text = json_string_value(doc_get(element, path));
    table_add(table, "%s", text ? text : "");
}

void cell_words(struct table *table, const json_t *element, const char *path)
{
    char *words = doc_join(element, path);
    table_add(table, "%s", words);
    free(words);
}

void cell_user(struct table *table, const json_t *element, const char *path)
{
    const long long uid = doc_integer(element, path);
    const struct passwd *user = uid >= 0 && uid < UINT32_MAX ? getpwuid((uid_t)uid) : NULL;

    if (user)
        table_add(table, "%s", user->pw_name);
    else
        table_add(table, "%lld", uid);
}

void cell_rank(struct table *table, const json_t *element, const char *path)
{
    table_add(table, "%lld/%lld", doc_integer(element, path), doc_integer(element, "size"));
}
