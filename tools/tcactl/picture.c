#include "tools/tcactl/picture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/must.h"
#include "tools/tcactl/doc.h"

enum {
    EDGE = 16,    /* pixels around panels and around their contents */
    HEADING = 34, /* of a panel, and of the picture */
    FOOTING = 40, /* of the picture: two lines of explanation */
    LINE = 15,    /* from one line of text to the next */
    PAD = 8,      /* from a box's border to its text */
    GAP = 18,     /* between boxes, without cables */
    GAP_COLUMNS = 76,
    GAP_ROWS = 60, /* with cables, which are labelled at their ends */
    AROUND = 44,   /* room for a cable around the boxes */
};
static const double SHAPE = 1.5; /* width / height of grids and of the whole picture */

/* ---- panels */

static size_t panel_of(struct picture *picture, const char *name)
{
    size_t i = 0;

    while (i < picture->panel_count && strcmp(picture->panels[i].name, name) != 0)
        i++;
    if (i == picture->panel_count)
        picture->panels[picture->panel_count++] = (struct picture_panel){.name = name};
    return i;
}

static void add_nodes(struct picture *picture)
{
    for (size_t i = 0; i < picture->node_count; i++) {
        struct picture_node *node = &picture->nodes[i];

        node->doc = doc_at(picture->doc, "nodes", i);
        node->id = doc_integer(node->doc, "id");
        node->panel = panel_of(picture, doc_text(node->doc, "subcluster"));
        picture->panels[node->panel].nodes++;
    }
}

static size_t count_cables(const json_t *doc)
{
    size_t count = 0;

    for (size_t i = 0; i < doc_count(doc, "fabrics"); i++)
        count += doc_count(doc_at(doc, "fabrics", i), "cables");
    return count;
}

static void add_cables(struct picture *picture)
{
    for (size_t i = 0, n = 0; i < doc_count(picture->doc, "fabrics"); i++) {
        const json_t *fabric = doc_at(picture->doc, "fabrics", i);

        for (size_t k = 0; k < doc_count(fabric, "boards"); k++) {
            const struct picture_node *node =
                picture_node(picture, doc_integer(doc_at(fabric, "boards", k), "node"));
            if (node && !picture->panels[node->panel].fabric)
                picture->panels[node->panel].fabric = fabric;
        }
        for (size_t k = 0; k < doc_count(fabric, "cables"); k++, n++) {
            const json_t *cable = doc_at(fabric, "cables", k);
            picture->cables[n] = (struct picture_cable){
                .doc = cable,
                .from = picture_node(picture, doc_integer(cable, "from")),
                .to = picture_node(picture, doc_integer(cable, "to")),
            };
        }
    }
}

/* ---- sizes and positions */

static void measure_boxes(struct picture *picture)
{
    int width = 0, lines = 0;

    for (size_t i = 0; i < picture->node_count; i++) {
        const struct picture_node *node = &picture->nodes[i];

        for (unsigned k = 0; k < node->line_count; k++) {
            int font = k < node->name_count ? PICTURE_FONT_NAME : PICTURE_FONT;
            int most = picture_text_width(picture_text_columns(node->lines[k].text), font);
            width = most > width ? most : width;
        }
        lines = (int)node->line_count > lines ? (int)node->line_count : lines;
    }
    picture->box_width = (width + 2 * PAD + 1) & ~1; /* even, because cables begin in the middle */
    picture->box_height = (lines * LINE + PAD + 5) & ~1;
}

/* The columns of a plain grid, with rows of equal length if possible. */
static unsigned grid_columns(const struct picture *picture, unsigned nodes)
{
    double wide = picture->box_width + GAP, high = picture->box_height + GAP;
    unsigned best = (unsigned)ceil(sqrt(nodes * SHAPE * high / wide));

    best = best > nodes ? nodes : best;
    for (unsigned away = 0; away <= best / 3; away++) {
        if (nodes % (best - away) == 0)
            return best - away;
        if (best + away <= nodes && nodes % (best + away) == 0)
            return best + away;
    }
    return best;
}

static void place_grid(struct picture *picture, size_t index)
{
    struct picture_panel *panel = &picture->panels[index];
    unsigned count = 0;

    panel->columns = grid_columns(picture, panel->nodes);
    for (size_t i = 0; i < picture->node_count; i++)
        if (picture->nodes[i].panel == index) {
            picture->nodes[i].column = count % panel->columns;
            picture->nodes[i].row = count / panel->columns;
            panel->rows = picture->nodes[i].row + 1;
            count++;
        }
}

static void count_undrawn(struct picture *picture)
{
    for (size_t i = 0; i < picture->cable_count; i++) {
        const struct picture_cable *cable = &picture->cables[i];
        if (cable->route == ROUTE_UNDRAWN && cable->from)
            picture->panels[cable->from->panel].undrawn++;
    }
}

static int gap_x(const struct picture_panel *panel)
{
    return panel->cabled ? GAP_COLUMNS : GAP;
}

static int gap_y(const struct picture_panel *panel)
{
    return panel->cabled ? GAP_ROWS : GAP;
}

static void measure_panel(const struct picture *picture, struct picture_panel *panel)
{
    int around = panel->cabled ? AROUND : EDGE, columns = (int)panel->columns,
        rows = (int)panel->rows;
    int heading =
        2 * EDGE + picture_text_width(picture_text_columns(panel->caption), PICTURE_FONT_NAME);

    panel->width = columns * picture->box_width + (columns - 1) * gap_x(panel) + 2 * around;
    panel->width = panel->width > heading ? panel->width : heading;
    panel->height = HEADING + rows * picture->box_height + (rows - 1) * gap_y(panel) +
                    (panel->cabled ? 2 * AROUND - EDGE : EDGE) + (int)panel->undrawn * LINE;
}

/* Arranges panels in rows, with the width that brings the picture closest to its aspect ratio. */
static void place_panels(struct picture *picture)
{
    double area = 0;
    int footing = picture_text_width(PICTURE_FOOTING_COLUMNS, PICTURE_FONT);
    int widest = picture_text_width(picture_text_columns(picture->caption), PICTURE_FONT_TITLE);
    int x = EDGE, y = EDGE + HEADING, row_height = 0;

    widest = widest > footing ? widest : footing;
    for (size_t i = 0; i < picture->panel_count; i++) {
        const struct picture_panel *panel = &picture->panels[i];
        area += (double)(panel->width + EDGE) * (panel->height + EDGE);
        widest = panel->width > widest ? panel->width : widest;
    }
    int best = (int)sqrt(area * SHAPE), limit = EDGE + (best > widest ? best : widest);
    for (size_t i = 0; i < picture->panel_count; i++) {
        struct picture_panel *panel = &picture->panels[i];
        if (x > EDGE && x + panel->width > limit) {
            x = EDGE;
            y += row_height + EDGE;
            row_height = 0;
        }
        panel->at = (struct picture_point){x, y};
        x += panel->width + EDGE;
        picture->width = x > picture->width ? x : picture->width;
        row_height = panel->height > row_height ? panel->height : row_height;
    }
    picture->width = picture->width > widest + 2 * EDGE ? picture->width : widest + 2 * EDGE;
    picture->height = y + row_height + EDGE + FOOTING;
}

static void place_boxes(struct picture *picture)
{
    for (size_t i = 0; i < picture->node_count; i++) {
        struct picture_node *node = &picture->nodes[i];
        const struct picture_panel *panel = &picture->panels[node->panel];

        node->at.x = panel->at.x + (panel->cabled ? AROUND : EDGE) +
                     (int)node->column * (picture->box_width + gap_x(panel));
        node->at.y = panel->at.y + HEADING + (panel->cabled ? AROUND - EDGE : 0) +
                     (int)node->row * (picture->box_height + gap_y(panel));
    }
}

/* ---- the whole picture */

struct picture_node *picture_node(const struct picture *picture, long long id)
{
    for (size_t i = 0; i < picture->node_count; i++)
        if (picture->nodes[i].id == id)
            return &picture->nodes[i];
    return NULL;
}

void picture_init(struct picture *picture, const json_t *doc)
{
    size_t nodes = doc_count(doc, "nodes"), cables = count_cables(doc);

    *picture = (struct picture){
        .doc = doc,
        .nodes = must(calloc(nodes + 1, sizeof(struct picture_node))),
        .panels = must(calloc(nodes + 1, sizeof(struct picture_panel))),
        .cables = must(calloc(cables + 1, sizeof(struct picture_cable))),
        .node_count = nodes,
        .cable_count = cables,
    };
    add_nodes(picture);
    add_cables(picture);
    picture_say(picture);
    measure_boxes(picture);
    for (size_t i = 0; i < picture->panel_count; i++)
        if (!picture_place_cabled(picture, i))
            place_grid(picture, i);
    count_undrawn(picture);
    for (size_t i = 0; i < picture->panel_count; i++)
        measure_panel(picture, &picture->panels[i]);
    place_panels(picture);
    place_boxes(picture);
    picture_route(picture);
}

void picture_deinit(struct picture *picture)
{
    free(picture->nodes);
    free(picture->panels);
    free(picture->cables);
}
