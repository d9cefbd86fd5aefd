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
        table->spare[table->columns] = title[0] == '?';
        title += title[0] == '?';
        table->right[table->columns] = title[0] == '>';
        table->titles[table->columns] = title + (title[0] == '>');
    }
    assert(!table->spare[table->columns - 1]);
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

/* The columns that screen_text() uses. */
static unsigned width_of(const char *text)
{
    unsigned width = 0;

    for (const unsigned char *p = (const unsigned char *)text; *p; p++)
        width += (*p & 0xc0) != 0x80;
    return width;
}

/* Writes blanks only before text, so that no line ends with blanks. */
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

/* Where the last column is wrapped if the table is wider than the terminal; room 0: it is not,
 * because it fits or contains numbers. */
struct wrap {
    unsigned at, room;
    bool below;
};

enum {
    ROOM_MIN = 24, /* with less room beside the other columns, wraps below the row */
    BELOW_INDENT = 4,
};

/* hidden: columns that are omitted. */
static unsigned width_before_last(const struct table *table, unsigned indent,
                                  const unsigned *widths, const bool *hidden)
{
    for (size_t c = 0; c + 1 < table->columns; c++)
        indent += hidden[c] ? 0 : widths[c] + 2;
    return indent;
}

static struct wrap wrap_of(const struct table *table, const struct screen *screen, unsigned indent,
                           const unsigned *widths, const bool *hidden)
{
    size_t last = table->columns - 1;
    unsigned at = width_before_last(table, indent, widths, hidden);

    if (screen->columns == 0 || at + widths[last] <= screen->columns || table->right[last])
        return (struct wrap){0};
    if (at + ROOM_MIN <= screen->columns)
        return (struct wrap){.at = at, .room = screen->columns - at};
    at = indent + BELOW_INDENT;
    return (struct wrap){
        .at = at,
        .room = screen->columns > at + ROOM_MIN ? screen->columns - at : ROOM_MIN,
        .below = true,
    };
}

/* The bytes of the words that fit, at least one, and of the blanks that follow. */
static size_t line_of(const char *text, unsigned room, size_t *ret_blanks)
{
    size_t end = 0, at = 0;
    unsigned width = 0;

    for (; text[at]; at++) {
        if (text[at] == ' ' && (width <= room || end == 0))
            end = at;
        width += ((unsigned char)text[at] & 0xc0) != 0x80;
    }
    if (width <= room || end == 0)
        end = at;
    *ret_blanks = strspn(text + end, " ");
    return end;
}

static void print_words(const struct screen *screen, const struct wrap *wrap, const char *text,
                        enum screen_color color, unsigned owed)
{
    if (wrap->below && *text) {
        fputc('\n', screen->to);
        owed = wrap->at;
    }
    while (*text) {
        size_t blanks, bytes = line_of(text, wrap->room, &blanks);
        char *line = must(strndup(text, bytes));
        fprintf(screen->to, "%*s%s", (int)owed, "", screen_begin(screen, color));
        screen_text(screen, line);
        fputs(screen_end(screen, color), screen->to);
        free(line);
        text += bytes + blanks;
        if (*text)
            fputc('\n', screen->to);
        owed = wrap->at;
    }
}

static void find_widths(const struct table *table, unsigned *ret_widths)
{
    for (size_t c = 0; c < table->columns; c++)
        ret_widths[c] = width_of(table->titles[c]);
    for (size_t i = 0; i < table->count; i++) {
        unsigned width = width_of(table->cells[i].text);
        if (width > ret_widths[i % table->columns])
            ret_widths[i % table->columns] = width;
    }
}

static void hide(const struct table *table, const struct screen *screen, unsigned indent,
                 const unsigned *widths, bool *ret_hidden)
{
    const unsigned last = widths[table->columns - 1];

    memset(ret_hidden, 0, table->columns * sizeof *ret_hidden);
    for (size_t c = table->columns; c-- > 0 && screen->columns > 0;)
        if (width_before_last(table, indent, widths, ret_hidden) + last > screen->columns)
            ret_hidden[c] = table->spare[c];
}

void table_print(const struct table *table, const struct screen *screen, unsigned indent,
                 const char *empty)
{
    unsigned widths[TABLE_COLUMNS_MAX], owed = indent;
    bool hidden[TABLE_COLUMNS_MAX];

    if (table->count == 0) {
        fprintf(screen->to, "%*s%s\n", (int)indent, "", empty);
        return;
    }
    assert(table->count % table->columns == 0);
    find_widths(table, widths);
    hide(table, screen, indent, widths, hidden);
    const struct wrap wrap = wrap_of(table, screen, indent, widths, hidden);
    for (size_t i = 0; i < table->columns + table->count; i++) { /* titles first */
        size_t c = i % table->columns;
        struct table_cell cell = i < table->columns
                                     ? (struct table_cell){(char *)table->titles[c], COLOR_HEAD}
                                     : table->cells[i - table->columns];
        bool last = c + 1 == table->columns;
        if (last && wrap.room)
            print_words(screen, &wrap, cell.text, cell.color, owed);
        else if (!hidden[c])
            print_cell(table, screen, c, cell.text, cell.color, widths[c], &owed);
        if (last) {
            fputc('\n', screen->to);
            owed = indent;
        }
    }
}
