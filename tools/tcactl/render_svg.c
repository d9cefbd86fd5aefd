#include <string.h>

#include "tools/tcactl/doc.h"
#include "tools/tcactl/picture.h"
#include "tools/tcactl/render.h"

/* Blue and vermilion are distinguishable with any colour vision; colour is never the only sign. */
static const char *color_of(enum screen_color color)
{
    switch (color) {
    case COLOR_GOOD:
        return "#0063a5";
    case COLOR_WARN:
        return "#8a6100";
    case COLOR_BAD:
        return "#bf4800";
    case COLOR_HEAD:
        return "#202124";
    default:
        return "#5f6368";
    }
}

/* Untrusted text, escaped for XML. */
static void escaped(FILE *to, const char *text)
{
    for (; *text; text++)
        switch (*text) {
        case '&':
            fputs("&amp;", to);
            break;
        case '<':
            fputs("&lt;", to);
            break;
        case '>':
            fputs("&gt;", to);
            break;
        case '"':
            fputs("&quot;", to);
            break;
        default:
            fputc((unsigned char)*text < 0x20 || *text == 0x7f ? '?' : *text, to);
        }
}

static void text_begin(FILE *to, int x, int y, const char *more, enum screen_color color)
{
    fprintf(to, "<text x=\"%d\" y=\"%d\" fill=\"%s\"%s>", x, y, color_of(color), more);
}

static void text(FILE *to, int x, int y, const char *more, enum screen_color color,
                 const char *words)
{
    text_begin(to, x, y, more, color);
    escaped(to, words);
    fputs("</text>\n", to);
}

static void attribute(FILE *to, const char *name, const char *value)
{
    fprintf(to, " %s=\"", name);
    escaped(to, value);
    fputc('"', to);
}

/* ---- parts */

static void panel_parts(FILE *to, const struct picture *picture, const struct picture_panel *panel)
{
    int line = panel->at.y + panel->height - 8 - 15 * (int)panel->undrawn;

    fputs("<g class=\"panel\"", to);
    attribute(to, "data-name", panel->name);
    fprintf(to,
            "><rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"10\" fill=\"#eef1f4\"/>\n",
            panel->at.x, panel->at.y, panel->width, panel->height);
    text(to, panel->at.x + 16, panel->at.y + 22, " font-size=\"13\"", COLOR_HEAD, panel->caption);
    for (size_t i = 0; i < picture->cable_count; i++) {
        const struct picture_cable *cable = &picture->cables[i];

        if (cable->count > 0 || !cable->from || &picture->panels[cable->from->panel] != panel)
            continue;
        text_begin(to, panel->at.x + 16, line += 15, "", COLOR_NONE);
        fprintf(to, "cable: %lld ", cable->from->id);
        escaped(to, doc_text(cable->doc, "from_port"));
        fprintf(to, " - %lld ", doc_integer(cable->doc, "to"));
        escaped(to, doc_text(cable->doc, "to_port"));
        fputc(' ', to);
        escaped(to, doc_text(cable->doc, "state"));
        fputs("</text>\n", to);
    }
    fputs("</g>\n", to);
}

/* The name of a port, beside the end of its cable, which continues to the next point. */
static void port(FILE *to, const struct picture_point *end, const struct picture_point *next,
                 const char *name)
{
    if (end->y == next->y)
        text(to, end->x + (next->x > end->x ? 5 : -5), end->y - 5,
             next->x > end->x ? "" : " text-anchor=\"end\"", COLOR_NONE, name);
    else
        text(to, end->x + 5, end->y + (next->y > end->y ? 13 : -5), "", COLOR_NONE, name);
}

/* Beside the middle of the longest segment. */
static void cable_state(FILE *to, const struct picture_cable *cable, const char *state)
{
    unsigned longest = 0;
    int most = -1;

    for (unsigned i = 0; i + 1 < cable->count; i++) {
        int x = cable->points[i + 1].x - cable->points[i].x;
        int y = cable->points[i + 1].y - cable->points[i].y;
        int length = (x < 0 ? -x : x) + (y < 0 ? -y : y);
        if (length > most) {
            longest = i;
            most = length;
        }
    }
    const struct picture_point *a = &cable->points[longest], *b = a + 1;
    enum screen_color color = screen_color_of(state);
    if (a->y == b->y)
        text(to, (a->x + b->x) / 2, a->y + 13, " text-anchor=\"middle\"", color, state);
    else
        text(to, a->x - 6, (a->y + b->y) / 2 + 4, " text-anchor=\"end\"", color, state);
}

static void cable_parts(FILE *to, const struct picture_cable *cable)
{
    const char *state = doc_text(cable->doc, "state");
    bool good = screen_color_of(state) == COLOR_GOOD;

    fprintf(to, "<g class=\"cable\" data-from=\"%lld\" data-to=\"%lld\"", cable->from->id,
            cable->to->id);
    attribute(to, "data-state", state);
    fputs("><path fill=\"none\" stroke-linejoin=\"round\" d=\"", to);
    for (unsigned i = 0; i < cable->count; i++)
        fprintf(to, "%s%d %d", i ? " L" : "M", cable->points[i].x, cable->points[i].y);
    fprintf(to, "\" stroke=\"%s\" stroke-width=\"3\"%s/>\n", color_of(screen_color_of(state)),
            good ? "" : " stroke-dasharray=\"7 5\"");
    port(to, &cable->points[0], &cable->points[1], doc_text(cable->doc, "from_port"));
    port(to, &cable->points[cable->count - 1], &cable->points[cable->count - 2],
         doc_text(cable->doc, "to_port"));
    if (!good)
        cable_state(to, cable, state);
    fputs("</g>\n", to);
}

static void node_parts(FILE *to, const struct picture *picture, const struct picture_node *node)
{
    const char *state = doc_text(node->doc, "state");
    enum screen_color color = screen_color_of(state);
    bool trouble = color == COLOR_BAD || node->cut_off;
    bool self = node->id == doc_integer(picture->doc, "self");

    fprintf(to, "<g class=\"node\" data-id=\"%lld\"", node->id);
    attribute(to, "data-state", state);
    fputs("><title>", to);
    escaped(to, doc_text(node->doc, "name"));
    fprintf(to,
            "</title><rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"6\" fill=\"%s\" "
            "stroke=\"%s\" stroke-width=\"%d\"%s/>\n",
            node->at.x, node->at.y, picture->box_width, picture->box_height,
            trouble ? "#fdeee4" : "#ffffff", color_of(trouble ? COLOR_BAD : color), self ? 4 : 2,
            trouble ? " stroke-dasharray=\"5 4\"" : "");
    for (unsigned i = 0; i < node->line_count; i++)
        text(to, node->at.x + 8, node->at.y + 18 + 15 * (int)i,
             i < node->name_count ? " font-size=\"13\" font-weight=\"bold\"" : "",
             node->lines[i].color, node->lines[i].text);
    fputs("</g>\n", to);
}

/* The legend. */
static void legend(FILE *to, const struct picture *picture)
{
    bool drawn = false;

    for (size_t i = 0; i < picture->cable_count; i++)
        drawn |= picture->cables[i].count > 0;
    text(to, 16, picture->height - 30, "", COLOR_NONE,
         "States as seen by the node with the thick border.");
    if (drawn)
        text(to, 16, picture->height - 14, "", COLOR_NONE,
             "Lines are cables between ports; dashed: unplugged.");
}

void render_topology_svg(const json_t *doc, const struct screen *screen)
{
    struct picture picture;
    FILE *to = screen->to;

    picture_init(&picture, doc);
    fprintf(to,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "viewBox=\"0 0 %d %d\" "
            "font-family=\"'DejaVu Sans Mono', 'Liberation Mono', Menlo, Consolas, monospace\" "
            "font-size=\"11\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
            picture.width, picture.height, picture.width, picture.height);
    text(to, 16, 34, " font-size=\"16\" font-weight=\"bold\"", COLOR_HEAD, picture.caption);
    for (size_t i = 0; i < picture.panel_count; i++)
        panel_parts(to, &picture, &picture.panels[i]);
    for (size_t i = 0; i < picture.cable_count; i++)
        if (picture.cables[i].count > 0)
            cable_parts(to, &picture.cables[i]);
    for (size_t i = 0; i < picture.node_count; i++)
        node_parts(to, &picture, &picture.nodes[i]);
    legend(to, &picture);
    fputs("</svg>\n", to);
    picture_deinit(&picture);
}
