#include <stdlib.h>
#include <string.h>

#include "tools/common/must.h"
#include "tools/tcactl/doc.h"
#include "tools/tcactl/picture.h"

enum { AROUND = 22 }; /* pixels from a box to a cable around it */

/* ---- rings */

/* Nodes by ring and column. Both rings have the same length. */
struct rings {
    struct picture_node **nodes; /* [count][length] */
    size_t count, length;
};

static bool is_port(const struct picture_cable *cable, const char *from, const char *to)
{
    return strcmp(doc_text(cable->doc, "from_port"), from) == 0 &&
           strcmp(doc_text(cable->doc, "to_port"), to) == 0;
}

static void find_ends(struct picture *picture, size_t panel)
{
    for (size_t i = 0; i < picture->cable_count; i++) {
        struct picture_cable *cable = &picture->cables[i];

        if (!cable->from || !cable->to || cable->from->panel != panel || cable->to->panel != panel)
            continue;
        if (is_port(cable, "E", "W"))
            cable->from->east = cable;
        else if (is_port(cable, "S", "S"))
            cable->from->south = cable->to->south = cable;
    }
}

/* Follows E from a node back to the node: the number of nodes; 0: it does not lead back. */
static size_t follow(struct picture_node *first, struct picture_node **ret_nodes, size_t room)
{
    struct picture_node *node = first;
    size_t count = 0;

    do {
        if (count == room || !node->east)
            return 0;
        ret_nodes[count++] = node;
        node = node->east->to;
    } while (node != first);
    return count;
}

static struct picture_node *far_south(const struct picture_node *node)
{
    if (!node->south)
        return NULL;
    return node->south->from == node ? node->south->to : node->south->from;
}

static bool rungs_fit(const struct rings *rings)
{
    for (size_t column = 0; column < rings->length; column++)
        if (far_south(rings->nodes[column]) != rings->nodes[rings->length + column])
            return false;
    return true;
}

/* One ring of all nodes that have cables, or two of the same length with a rung at each column. */
static bool find_rings(const struct picture *picture, size_t panel, struct rings *rings)
{
    struct picture_node *first = NULL;
    size_t cabled = 0;

    for (size_t i = 0; i < picture->node_count; i++) {
        struct picture_node *node = &picture->nodes[i];

        if (node->panel != panel || (!node->east && !node->south))
            continue;
        first = first ? first : node;
        cabled++;
    }
    rings->length = first ? follow(first, rings->nodes, picture->node_count) : 0;
    if (rings->length < 2 || cabled % rings->length != 0)
        return false;
    rings->count = cabled / rings->length;
    if (rings->count == 1)
        return true;
    struct picture_node *second = far_south(first);
    return rings->count == 2 && second &&
           follow(second, rings->nodes + rings->length, rings->length) == rings->length &&
           rungs_fit(rings);
}

/* ---- cells */

static void put(struct picture_node *node, unsigned column, unsigned row)
{
    node->column = column;
    node->row = row;
    node->placed = true;
}

/* The columns of a rectangle with this many cells on its border, somewhat wider than high. */
static unsigned best_columns(const struct picture *picture, unsigned cells)
{
    unsigned sum = cells / 2 + 2, best = 2; /* of columns and rows */
    double best_off = 1e9;

    for (unsigned columns = 2; columns + 2 <= sum; columns++) {
        double ratio = (double)columns * picture->box_width /
                       ((double)(sum - columns) * picture->box_height * 1.5);
        double off = ratio > 1 ? ratio : 1 / ratio;
        if (off < best_off) {
            best = columns;
            best_off = off;
        }
    }
    return best;
}

/* Clockwise around the border, from the upper left corner. */
static void border_cell(unsigned columns, unsigned rows, unsigned index, unsigned *ret_column,
                        unsigned *ret_row)
{
    unsigned right = columns - 1, down = right + rows - 1, left = down + columns - 1;

    *ret_column = index <= right ? index : index <= down ? right : index <= left ? left - index : 0;
    *ret_row = index <= right  ? 0
               : index <= down ? index - right
               : index <= left ? rows - 1
                               : rows - 1 - (index - left);
}

/* An odd number of nodes leaves the last cell, in the first column, empty: the last cable crosses
 * it. */
static void place_around(const struct picture *picture, struct picture_panel *panel,
                         const struct rings *rings)
{
    unsigned length = (unsigned)rings->length, cells = length + length % 2;
    unsigned columns = best_columns(picture, cells), rows = cells / 2 + 2 - columns;

    for (unsigned i = 0; i < length; i++) {
        unsigned column, row;
        border_cell(columns, rows, i, &column, &row);
        put(rings->nodes[i], column, row);
        rings->nodes[i]->east->route = ROUTE_STRAIGHT;
    }
    if (cells > length && rows == 2)
        rings->nodes[length - 1]->east->route = ROUTE_CORNER;
    panel->columns = columns;
    panel->rows = rows;
}

static void place_rows(struct picture_panel *panel, const struct rings *rings)
{
    unsigned length = (unsigned)rings->length;

    for (unsigned ring = 0; ring < rings->count; ring++)
        for (unsigned column = 0; column < length; column++) {
            struct picture_node *node = rings->nodes[ring * length + column];
            bool last = column + 1 == length;
            put(node, column, ring);
            node->east->route = !last ? ROUTE_STRAIGHT : ring == 0 ? ROUTE_OVER : ROUTE_UNDER;
            if (rings->count == 2 && ring == 0)
                node->south->route = ROUTE_STRAIGHT;
        }
    panel->columns = length;
    panel->rows = (unsigned)rings->count;
}

/* Nodes without a cable are placed below the others. */
static void place_rest(struct picture *picture, size_t index)
{
    struct picture_panel *panel = &picture->panels[index];
    unsigned count = 0, rows = panel->rows;

    for (size_t i = 0; i < picture->node_count; i++)
        if (picture->nodes[i].panel == index && !picture->nodes[i].placed) {
            put(&picture->nodes[i], count % panel->columns, rows + count / panel->columns);
            panel->rows = picture->nodes[i].row + 1;
            count++;
        }
}

bool picture_place_cabled(struct picture *picture, size_t index)
{
    struct picture_panel *panel = &picture->panels[index];
    struct rings rings = {
        .nodes = must(calloc(2 * picture->node_count + 1, sizeof(struct picture_node *)))};

    find_ends(picture, index);
    bool known = panel->fabric && find_rings(picture, index, &rings);
    if (known && rings.count == 1 && rings.length > 2)
        place_around(picture, panel, &rings);
    else if (known)
        place_rows(panel, &rings);
    if (known)
        place_rest(picture, index);
    panel->cabled = known;
    free(rings.nodes);
    return known;
}

/* ---- routes of cables */

static void add(struct picture_cable *cable, int x, int y)
{
    cable->points[cable->count++] = (struct picture_point){x, y};
}

static int sign(int number)
{
    return (number > 0) - (number < 0);
}

static struct picture_point middle(const struct picture *picture, const struct picture_node *node)
{
    return (struct picture_point){node->at.x + picture->box_width / 2,
                                  node->at.y + picture->box_height / 2};
}

/* The middle of the side that faces a point straight above, below, left or right. */
static void add_side(const struct picture *picture, struct picture_cable *cable,
                     const struct picture_node *node, struct picture_point to)
{
    struct picture_point at = middle(picture, node);

    add(cable, at.x + sign(to.x - at.x) * (picture->box_width / 2),
        at.y + sign(to.y - at.y) * (picture->box_height / 2));
}

static void route(const struct picture *picture, struct picture_cable *cable)
{
    const struct picture_node *from = cable->from, *to = cable->to;
    int box_width = picture->box_width, box_height = picture->box_height, outside;
    struct picture_point corner;

    switch (cable->route) {
    case ROUTE_UNDRAWN:
        return;
    case ROUTE_STRAIGHT:
        add_side(picture, cable, from, middle(picture, to));
        add_side(picture, cable, to, middle(picture, from));
        return;
    case ROUTE_CORNER:
        corner.x = middle(picture, to).x;
        corner.y = middle(picture, from).y;
        add_side(picture, cable, from, corner);
        add(cable, corner.x, corner.y);
        add_side(picture, cable, to, corner);
        return;
    case ROUTE_OVER:
    case ROUTE_UNDER:
        outside =
            cable->route == ROUTE_OVER ? from->at.y - AROUND : from->at.y + box_height + AROUND;
        add(cable, from->at.x + box_width, from->at.y + box_height / 2);
        add(cable, from->at.x + box_width + AROUND, from->at.y + box_height / 2);
        add(cable, from->at.x + box_width + AROUND, outside);
        add(cable, to->at.x - AROUND, outside);
        add(cable, to->at.x - AROUND, to->at.y + box_height / 2);
        add(cable, to->at.x, to->at.y + box_height / 2);
        return;
    }
}

void picture_route(struct picture *picture)
{
    for (size_t i = 0; i < picture->cable_count; i++)
        route(picture, &picture->cables[i]);
}
