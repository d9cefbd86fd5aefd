/*
 * A topology document laid out as a picture: which node is where, what its box says, which way a
 * cable runs. In pixels, whole ones: their text is the same in every locale.
 *
 * Each sub-cluster is a panel. Where its cables are known and form one ring, the nodes stand around
 * a rectangle; where they form two rings with rungs, on a grid of two rows, whose last column is
 * joined to the first around the outside. Elsewhere they stand on a plain grid. Rails join this
 * daemon's node with every other one, so they are words in the box of that one, not lines.
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
    PICTURE_FOOTING_COLUMNS = 52, /* the most that is said below the panels, in each of two lines */

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

enum picture_way {
    WAY_UNDRAWN,
    WAY_STRAIGHT, /* its ends stand beside each other */
    WAY_CORNER,   /* along the row of one, then the column of the other */
    WAY_OVER,     /* around the outside, over the row or under it */
    WAY_UNDER,
};

struct picture_cable {
    const json_t *doc;
    struct picture_node *from, *to;
    enum picture_way way;
    unsigned count; /* of points; 0: not drawn */
    struct picture_point points[PICTURE_POINTS];
};

struct picture_node {
    const json_t *doc;
    long long id;
    size_t panel;
    unsigned column, row; /* in its panel */
    bool placed, cut_off;
    struct picture_line lines[PICTURE_LINES]; /* first the name's */
    unsigned line_count, name_count;
    struct picture_cable *east, *south; /* that leave it there */
    struct picture_point at;            /* the box's upper left corner */
};

enum { PICTURE_CAPTION_BYTES = 512 };

struct picture_panel {
    const char *name;
    char caption[PICTURE_CAPTION_BYTES];
    const json_t *fabric; /* NULL: its cables are not known */
    unsigned nodes, columns, rows;
    bool cabled;      /* there is room between the boxes */
    unsigned undrawn; /* cables that are listed below the boxes instead */
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

/* NULL: there is no such node. */
struct picture_node *picture_node(const struct picture *picture, long long id);

/* ---- picture_words.c */

/* What the boxes and headings say. */
void picture_say(struct picture *picture);
/* Most pixels that so many columns of text take, whatever monospaced font is there. */
int picture_text_width(size_t columns, int font);
/* As a viewer shows the text: every character beyond ASCII may take two columns. */
size_t picture_text_columns(const char *text);

/* ---- picture_cables.c */

/* Gives the nodes of a panel their cells as its cables ask for; false: they form no shape that is
 * known here, and nothing was changed. */
bool picture_place_cabled(struct picture *picture, size_t panel);
/* Finds the points of all cables, once everything has its place. */
void picture_route(struct picture *picture);
