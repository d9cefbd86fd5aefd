#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tools/tcactl/doc.h"
#include "tools/tcactl/picture.h"
#include "tools/tcactl/units.h"

enum { NAME_LINES = 4 };

int picture_text_width(size_t columns, int font)
{
    return (int)ceil((double)columns * font * 0.62);
}

static size_t character_bytes(const char *at)
{
    size_t bytes = 1;

    while (((unsigned char)at[bytes] & 0xc0) == 0x80)
        bytes++;
    return bytes;
}

size_t picture_text_columns(const char *text)
{
    size_t columns = 0;

    for (size_t bytes; *text; text += bytes) {
        bytes = character_bytes(text);
        columns += bytes > 1 ? 2 : 1;
    }
    return columns;
}

/* ---- the text of a box */

static struct picture_line *add_line(struct picture_node *node, enum screen_color color)
{
    if (node->line_count == PICTURE_LINES) {
        struct picture_line *last = &node->lines[PICTURE_LINES - 1];
        snprintf(last->text, sizeof(last->text), "...");
        return NULL;
    }
    node->lines[node->line_count].color = color;
    return &node->lines[node->line_count++];
}

__attribute__((format(printf, 3, 4))) static void
say(struct picture_node *node, enum screen_color color, const char *format, ...)
{
    struct picture_line *line = add_line(node, color);
    va_list values;

    if (!line)
        return;
    va_start(values, format);
    vsnprintf(line->text, sizeof(line->text), format, values);
    va_end(values);
}

/* The bytes of the characters that fit. */
static int fit(const char *text, size_t most_columns)
{
    size_t bytes = 0;

    for (size_t columns = 0; text[bytes];) {
        size_t next = character_bytes(text + bytes);
        columns += next > 1 ? 2 : 1;
        if (columns > most_columns)
            break;
        bytes += next;
    }
    return (int)bytes;
}

/* Breaks a name that is too long for a line, after a dot or dash if it has one. */
static int line_bytes(const char *name)
{
    int bytes = fit(name, PICTURE_LINE_COLUMNS), broken = bytes;

    while (name[bytes] && broken > 0 && !strchr(".-_", name[broken - 1]))
        broken--;
    return broken > 0 ? broken : bytes;
}

static void say_name(struct picture_node *node)
{
    const char *name = doc_text(node->doc, "name");

    while (*name && node->line_count < NAME_LINES) {
        int bytes = line_bytes(name);
        say(node, COLOR_HEAD, "%.*s", bytes, name);
        name += bytes;
    }
    if (*name) /* longer than any name in a cluster file */
        snprintf(node->lines[NAME_LINES - 1].text, sizeof(node->lines->text), "...");
    node->name_count = node->line_count;
}

/* The rails from this daemon's node to the others. */
static void say_rails(struct picture *picture)
{
    long long self = doc_integer(picture->doc, "self");

    for (size_t i = 0; i < doc_count(picture->doc, "links"); i++) {
        const json_t *link = doc_at(picture->doc, "links", i);
        struct picture_node *node = picture_node(picture, doc_integer(link, "to"));
        const char *state = doc_text(link, "state"), *rail = doc_text(link, "rail");

        if (node && doc_integer(link, "from") == self)
            say(node, screen_color_of(state), "%.*s %.*s", fit(rail, 10), rail, fit(state, 10),
                state);
    }
}

static void say_boards(struct picture *picture)
{
    for (size_t i = 0; i < doc_count(picture->doc, "fabrics"); i++) {
        const json_t *fabric = doc_at(picture->doc, "fabrics", i);

        for (size_t k = 0; k < doc_count(fabric, "boards"); k++) {
            const json_t *board = doc_at(fabric, "boards", k);
            const char *state = doc_text(board, "state");
            struct picture_node *node = picture_node(picture, doc_integer(board, "node"));

            if (!node || screen_color_of(state) == COLOR_GOOD)
                continue;
            node->cut_off = true;
            say(node, screen_color_of(state), "board %.*s", fit(state, 15), state);
        }
    }
}

/* ---- headings */

/* Every valid name fits. */
__attribute__((format(printf, 2, 3))) static void caption(char *to, const char *format, ...)
{
    va_list values;

    va_start(values, format);
    int bytes = vsnprintf(to, PICTURE_CAPTION_BYTES, format, values);
    va_end(values);
    if (bytes >= PICTURE_CAPTION_BYTES)
        snprintf(to, PICTURE_CAPTION_BYTES, "(a name of %d bytes)", bytes);
}

static void add_captions(struct picture *picture)
{
    caption(picture->caption, "cluster %s: %zu node%s, seen from node %lld",
            doc_text(picture->doc, "cluster"), picture->node_count,
            units_plural((long long)picture->node_count), doc_integer(picture->doc, "self"));
    for (size_t i = 0; i < picture->panel_count; i++) {
        struct picture_panel *panel = &picture->panels[i];
        if (panel->fabric)
            caption(panel->caption, "sub-cluster %s: %s, %s", panel->name,
                    doc_text(panel->fabric, "rail"), doc_text(panel->fabric, "shape"));
        else
            caption(panel->caption, "sub-cluster %s", panel->name);
    }
}

void picture_say(struct picture *picture)
{
    for (size_t i = 0; i < picture->node_count; i++) {
        struct picture_node *node = &picture->nodes[i];
        const char *state = doc_text(node->doc, "state");

        say_name(node);
        say(node, screen_color_of(state), "id %lld, %.*s", node->id, fit(state, 12), state);
    }
    say_rails(picture);
    say_boards(picture);
    add_captions(picture);
}
