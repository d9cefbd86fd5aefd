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

enum {
    ROOM_MIN = 24, /* with less room beside the other columns, wraps below the row */
    INDENT_MORE = 4,
    TEXT_MAX = 24, /* of words in a table that is too wide */
};

/* How a table is made to fit. */
struct fit {
    unsigned widths[TABLE_COLUMNS_MAX];
    bool hidden[TABLE_COLUMNS_MAX];
    bool folded[TABLE_COLUMNS_MAX]; /* begins another line of the row */
    /* Where the last column is wrapped; room 0: it is not, because it fits or contains numbers. */
    unsigned at, room;
    bool below;
};

static unsigned width_before_last(const struct table *table, unsigned indent, const struct fit *fit)
{
    for (size_t c = 0; c + 1 < table->columns; c++)
        indent += fit->hidden[c] ? 0 : fit->widths[c] + 2;
    return indent;
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

static void print_words(const struct screen *screen, const struct fit *fit, const char *text,
                        enum screen_color color, unsigned owed)
{
    if (fit->below && *text) {
        fputc('\n', screen->to);
        owed = fit->at;
    }
    while (*text) {
        size_t blanks, bytes = line_of(text, fit->room, &blanks);
        char *line = must(strndup(text, bytes));
        fprintf(screen->to, "%*s%s", (int)owed, "", screen_begin(screen, color));
        screen_text(screen, line);
        fputs(screen_end(screen, color), screen->to);
        free(line);
        text += bytes + blanks;
        if (*text)
            fputc('\n', screen->to);
        owed = fit->at;
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
                 struct fit *fit)
{
    const unsigned last = fit->widths[table->columns - 1];

    for (size_t c = table->columns; c-- > 0;)
        if (width_before_last(table, indent, fit) + last > screen->columns)
            fit->hidden[c] = table->spare[c];
}

/* Cuts words to TEXT_MAX columns, the last two of which are dots. */
static void shorten(struct table *table, struct fit *fit)
{
    for (size_t i = 0; i < table->count; i++) {
        const size_t c = i % table->columns;
        char *at = table->cells[i].text;
        if (c + 1 == table->columns || table->right[c] || width_of(at) <= TEXT_MAX)
            continue;
        for (unsigned kept = 0; kept < TEXT_MAX - 2; at++)
            kept += ((unsigned char)at[1] & 0xc0) != 0x80;
        strcpy(at, ".."); /* over at least three bytes */
    }
    find_widths(table, fit->widths);
}

/* Columns that are not wrapped begin another line where they do not fit. Returns where the last one
 * begins. */
static unsigned fold(const struct table *table, const struct screen *screen, unsigned indent,
                     struct fit *fit)
{
    unsigned at = indent;
    bool any = false;

    for (size_t c = 0; c < table->columns; c++) {
        if (fit->hidden[c])
            continue;
        const bool last = c + 1 == table->columns, wraps = last && !table->right[c];
        if (any && !wraps && at + fit->widths[c] > screen->columns) {
            fit->folded[c] = true;
            at = indent + INDENT_MORE;
        }
        if (last)
            return at;
        any = true;
        at += fit->widths[c] + 2;
    }
    return at;
}

/* May shorten cells. */
static struct fit fit_of(struct table *table, const struct screen *screen, unsigned indent)
{
    struct fit fit = {0};
    const size_t last = table->columns - 1;

    find_widths(table, fit.widths);
    if (screen->columns == 0)
        return fit;
    hide(table, screen, indent, &fit);
    const unsigned needed = table->right[last] ? fit.widths[last] : 0;
    if (width_before_last(table, indent, &fit) + needed > screen->columns)
        shorten(table, &fit);
    fit.at = fold(table, screen, indent, &fit);
    if (fit.at + fit.widths[last] <= screen->columns || table->right[last])
        return fit;
    if (fit.at + ROOM_MIN <= screen->columns) {
        fit.room = screen->columns - fit.at;
        return fit;
    }
    fit.below = true;
    fit.at = indent + INDENT_MORE;
    fit.room = screen->columns > fit.at + ROOM_MIN ? screen->columns - fit.at : ROOM_MIN;
    return fit;
}

void table_print(struct table *table, const struct screen *screen, unsigned indent,
                 const char *empty)
{
    unsigned owed = indent;

    if (table->count == 0) {
        fprintf(screen->to, "%*s%s\n", (int)indent, "", empty);
        return;
    }
    assert(table->count % table->columns == 0);
    const struct fit fit = fit_of(table, screen, indent);
    for (size_t i = 0; i < table->columns + table->count; i++) { /* titles first */
        size_t c = i % table->columns;
        struct table_cell cell = i < table->columns
                                     ? (struct table_cell){(char *)table->titles[c], COLOR_HEAD}
                                     : table->cells[i - table->columns];
        bool last = c + 1 == table->columns;
        if (fit.folded[c]) {
            fputc('\n', screen->to);
            owed = indent + INDENT_MORE;
        }
        if (last && fit.room)
            print_words(screen, &fit, cell.text, cell.color, owed);
        else if (!fit.hidden[c])
            print_cell(table, screen, c, cell.text, cell.color, fit.widths[c], &owed);
        if (last) {
            fputc('\n', screen->to);
            owed = indent;
        }
    }
}
