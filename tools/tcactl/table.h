/* Tables with a header; column widths fit the contents, numbers are right-aligned. If the terminal
 * is too narrow, optional columns are omitted, the last one first; then the last column is wrapped,
 * in its column or, if that leaves too little room, below the row. If the others still do not fit,
 * words in them are shortened, and the columns that do not fit continue on another line. */
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
    bool spare[TABLE_COLUMNS_MAX]; /* optional columns */
    struct table_cell *cells;      /* row by row */
    size_t count, room;
};

/* titles: end with NULL and must outlive the table. '>' before a title marks a column of numbers,
 * '?' (before '>') an optional column, which cannot be the last. */
void table_init(struct table *table, const char *const *titles);
void table_deinit(struct table *table);

/* Fills the next cell, row by row. */
void table_add(struct table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same for a state, in its colour. */
void table_add_state(struct table *table, const char *state);

/* Prints the table, indented by `indent` spaces; without rows only the text `empty`. */
void table_print(struct table *table, const struct screen *screen, unsigned indent,
                 const char *empty);
