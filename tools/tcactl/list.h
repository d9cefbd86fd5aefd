/* Lists of a document as tables, with a row for each element. */
#pragma once

#include <jansson.h>

#include "tools/tcactl/table.h"

struct column {
    const char *title; /* as table_init() has it; NULL: the end */
    const char *path;  /* in the element */
    /* Adds the cell; NULL: as text. */
    void (*add)(struct table *table, const json_t *element, const char *path);
    bool sparse; /* only shown if an element has a number above 0 there */
};

/* empty: instead of a table without rows. */
void list_show(const json_t *doc, const char *path, const struct column *columns,
               const struct screen *screen, unsigned indent, const char *empty);

void cell_integer(struct table *table, const json_t *element, const char *path);
void cell_bytes(struct table *table, const json_t *element, const char *path);
void cell_count(struct table *table, const json_t *element, const char *path);
void cell_time(struct table *table, const json_t *element, const char *path);  /* ns; "-": 0 */
void cell_age(struct table *table, const json_t *element, const char *path);   /* s; "-": none */
void cell_state(struct table *table, const json_t *element, const char *path); /* in its colour */
void cell_chosen(struct table *table, const json_t *element, const char *path);
void cell_note(struct table *table, const json_t *element, const char *path);  /* text; "": none */
void cell_words(struct table *table, const json_t *element, const char *path); /* of an array */
void cell_user(struct table *table, const json_t *element, const char *path);  /* name, or uid */
void cell_rank(struct table *table, const json_t *element, const char *path);  /* "rank/size" */
