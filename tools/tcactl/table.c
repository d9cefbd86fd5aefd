#include "tools/tcactl/table.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/must.h"

struct table_cell {
    char *text;
    enum screen_color color;
};

void table_init(struct table *table, const char *const *titles)
{
    *table = (struct table){0};
    for (; titles[table->columns]; table->columns++) {
        const char *title = titles[table->columns];
        assert(table->columns < TABLE_COLUMNS_MAX);
        table->right[table->columns] = title[0] == '>';
        table->titles[table->columns] = title + (title[0] == '>');
    }
}

void table_deinit(struct table *table)
{
    for (size_t i = 0; i < table->count; i++)
        free(table->cells[i].text);
    free(table->cells);
    *table = (struct table){0};
}

static void add(struct table *table, char *text, enum screen_color color)
{
    if (table->count == table->room) {
        table->room = table->room ? 2 * table->room : 64;
        table->cells = must(realloc(table->cells, table->room * sizeof(*table->cells)));
    }
    table->cells[table->count++] = (struct table_cell){text, color};
}

void table_add(struct table *table, const char *format, ...)
{
    va_list arguments;
    char *text = NULL;

    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0)
        text = must(NULL);
    va_end(arguments);
    add(table, text, COLOR_NONE);
}

void table_add_state(struct table *table, const char *state)
{
    add(table, must(strdup(state)), screen_color_of(state));
}

/* Columns that screen_text() will use. */
static unsigned width_of(const char *text)
{
    unsigned width = 0;

    for (const unsigned char *p = (const unsigned char *)text; *p; p++)
        width += (*p & 0xc0) != 0x80;
    return width;
}

/* Blanks are owed until something follows them: no line ends with any. */
static void print_cell(const struct table *table, const struct screen *screen, size_t column,
                       const char *text, enum screen_color color, unsigned width, unsigned *owed)
{
    unsigned pad = width - width_of(text);

    if (*text) {
        if (table->right[column])
            *owed += pad;
        fprintf(screen->to, "%*s%s", (int)*owed, "", screen_begin(screen, color));
        screen_text(screen, text);
        fputs(screen_end(screen, color), screen->to);
        *owed = 2 + (table->right[column] ? 0 : pad);
    } else {
        *owed += width + 2;
    }
}

void table_print(const struct table *table, const struct screen *screen, unsigned indent,
                 const char *empty)
{
    unsigned widths[TABLE_COLUMNS_MAX];

    if (table->count == 0) {
        fprintf(screen->to, "%*s%s\n", (int)indent, "", empty);
        return;
    }
    assert(table->count % table->columns == 0);
    for (size_t c = 0; c < table->columns; c++)
        widths[c] = width_of(table->titles[c]);
    for (size_t i = 0; i < table->count; i++) {
        unsigned width = width_of(table->cells[i].text);
        if (width > widths[i % table->columns])
            widths[i % table->columns] = width;
    }

    unsigned owed = indent;
    for (size_t c = 0; c < table->columns; c++)
        print_cell(table, screen, c, table->titles[c], COLOR_HEAD, widths[c], &owed);
    fputc('\n', screen->to);
    for (size_t i = 0; i < table->count; i++) {
        size_t c = i % table->columns;
        if (c == 0)
            owed = indent;
        print_cell(table, screen, c, table->cells[i].text, table->cells[i].color, widths[c], &owed);
        if (c + 1 == table->columns)
            fputc('\n', screen->to);
    }
}
