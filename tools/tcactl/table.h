/* Tables: columns as wide as they need to be, numbers to the right, a header, nothing else. Where the
 * terminal is too narrow, columns that one can do without are left out, the last of them first; then
 * words of the last column go on in further lines: below each other, or, when the others leave too
 * little beside them, all below the row. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "tools/tcactl/screen.h"

enum { TABLE_COLUMNS_MAX = 16 };

struct table_cell;

struct table {
    size_t columns;
    const char *titles[TABLE_COLUMNS_MAX];
    bool right[TABLE_COLUMNS_MAX];
    bool spare[TABLE_COLUMNS_MAX]; /* left out first */
    struct table_cell *cells;      /* row by row */
    size_t count, room;
};

/* titles: NULL at the end; one that begins with '>' stands over a column of numbers, one that begins
 * with '?' (then perhaps '>') over one that may be left out, not the last. They must outlive the
 * table. */
void table_init(struct table *table, const char *const *titles);
void table_deinit(struct table *table);

/* Fills the next cell: rows from the left, then downwards. */
void table_add(struct table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same for a word that says how something is; it gets the colour that it deserves. */
void table_add_state(struct table *table, const char *state);

/* Prints it, each line after `indent` spaces; for a table without rows only the text. */
void table_print(const struct table *table, const struct screen *screen, unsigned indent,
                 const char *empty);
