/*
 * Lays out a topology document as a picture: positions of nodes, texts of boxes, routes of cables.
 * All coordinates are whole pixels, which are written the same in every locale.
 *
 * Each sub-cluster is a panel. If its cables are known and form one ring, the nodes are placed
 * around a rectangle; if they form two rings with rungs, on a grid of two rows whose last column is
 * joined to the first around the outside; otherwise on a plain grid. Rails join this daemon's node
 * with every other node, so they are text in the box of that node, not lines.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "tools/tcactl/screen.h"

enum {
    PICTURE_LINE_COLUMNS = 22,
    PICTURE_LINES = 12,
    PICTURE_POINTS = 6,
    PICTURE_FOOTING_COLUMNS = 52, /* the longest of the two lines below the panels */

    PICTURE_FONT = 11, /* pixels; headings and names are larger */
    PICTURE_FONT_NAME = 13,
    PICTURE_FONT_TITLE = 16,
};

struct picture_point {
    int x, y;
};

struct picture_line {
    char text[4 * PICTURE_LINE_COLUMNS + 1];
    enum screen_color color;
};

enum picture_route {
    ROUTE_UNDRAWN,
    ROUTE_STRAIGHT, /* its ends are adjacent */
    ROUTE_CORNER,   /* along the row of one end, then the column of the other */
    ROUTE_OVER,     /* around the outside, above or below the row */
    ROUTE_UNDER,
};

struct picture_cable {
    const json_t *doc;
    struct picture_node *from, *to;
    enum picture_route route;
    unsigned count; /* of points; 0: not drawn */
    struct picture_point points[PICTURE_POINTS];
};

struct picture_node {
    const json_t *doc;
    long long id;
    size_t panel;
    unsigned column, row; /* in its panel */
    bool placed, cut_off;
    struct picture_line lines[PICTURE_LINES]; /* the name's come first */
    unsigned line_count, name_count;
    struct picture_cable *east, *south; /* whose cables leave on that side */
    struct picture_point at;            /* the upper left corner of the box */
};

enum { PICTURE_CAPTION_BYTES = 512 };

struct picture_panel {
    const char *name;
    char caption[PICTURE_CAPTION_BYTES];
    const json_t *fabric; /* NULL: its cables are unknown */
    unsigned nodes, columns, rows;
    bool cabled;      /* leaves room for cables between the boxes */
    unsigned undrawn; /* cables listed as text below the boxes */
    struct picture_point at;
    int width, height;
};

struct picture {
    const json_t *doc;
    char caption[PICTURE_CAPTION_BYTES];
    struct picture_node *nodes;
    struct picture_panel *panels;
    struct picture_cable *cables; /* of all fabrics */
    size_t node_count, panel_count, cable_count;
    int box_width, box_height;
    int width, height;
};

void picture_init(struct picture *picture, const json_t *doc);
void picture_deinit(struct picture *picture);

/* NULL: no such node. */
struct picture_node *picture_node(const struct picture *picture, long long id);

/* ---- picture_words.c */

/* Writes the texts of boxes and headings. */
void picture_say(struct picture *picture);
/* The maximum width in pixels of this many columns of text in any monospaced font. */
int picture_text_width(size_t columns, int font);
/* The columns of a text in a viewer, where a character beyond ASCII may take two. */
size_t picture_text_columns(const char *text);

/* ---- picture_cables.c */

/* Places the nodes of a panel according to its cables; false: the cables form no known shape, and
 * nothing was changed. */
bool picture_place_cabled(struct picture *picture, size_t panel);
/* Finds the points of all cables, after everything has been placed. */
void picture_route(struct picture *picture);
