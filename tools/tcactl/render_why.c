/* tcactl why: what stands between this node and another one, in the order of a connection. */
#include <stdlib.h>
#include <string.h>

#include "tools/common/must.h"
#include "tools/tcactl/doc.h"
#include "tools/tcactl/render.h"
#include "tools/tcactl/units.h"

enum { LABEL_COLUMNS = 12 };

static void label(const struct screen *screen, const char *text)
{
    screen_paint(screen, COLOR_HEAD, "%-*s", LABEL_COLUMNS, text);
    fputc(' ', screen->to);
}

static enum screen_color color_of(const char *word)
{
    static const char *const good[] = {"connected", "same", "up"}, *const even[] = {"not tried",
                                                                                    "unknown",
                                                                                    "none", "off"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        if (strcmp(word, good[i]) == 0)
            return COLOR_GOOD;
    for (size_t i = 0; i < sizeof(even) / sizeof(even[0]); i++)
        if (strcmp(word, even[i]) == 0)
            return COLOR_NONE;
    return COLOR_BAD;
}

/* One word, in its colour. */
static void word_line(const json_t *doc, const char *title, const char *path,
                      const struct screen *screen)
{
    label(screen, title);
    screen_paint(screen, color_of(doc_text(doc, path)), "%s", doc_text(doc, path));
    fputc('\n', screen->to);
}

static void node_line(const json_t *doc, const struct screen *screen)
{
    label(screen, "node");
    screen_print(screen, "%s (id %lld) ", doc_text(doc, "name"), doc_integer(doc, "node"));
    screen_state(screen, doc_text(doc, "state"));
    screen_print(screen, " for %s", units_age(doc_number(doc, "since_s")).text);
    if (doc_is_number(doc, "next_s"))
        screen_print(screen, ", next tried in %s", units_age(doc_number(doc, "next_s")).text);
    fputc('\n', screen->to);
}

static void name_line(const json_t *doc, const struct screen *screen)
{
    label(screen, "name");
    screen_print(screen, "%s", doc_text(doc, "host.name"));
    if (json_is_string(doc_get(doc, "host.error")))
        screen_paint(screen, COLOR_BAD, ": %s", doc_text(doc, "host.error"));
    if (doc_is_number(doc, "host.next_s"))
        screen_print(screen, ", next looked up in %s at the earliest",
                     units_age(doc_number(doc, "host.next_s")).text);
    fputc('\n', screen->to);
}

static void address_lines(const json_t *doc, const struct screen *screen)
{
    const size_t count = doc_count(doc, "addresses");
    label(screen, "addresses");
    if (count == 0 && !doc_true(doc, "called"))
        fputs("none\n", screen->to);
    for (size_t i = 0; i < count; i++) {
        const json_t *address = doc_at(doc, "addresses", i);
        const char *result = doc_text(address, "result");
        if (i > 0)
            label(screen, "");
        screen_print(screen, "%s port %lld: ", doc_text(address, "address"),
                     doc_integer(doc, "port"));
        screen_paint(screen, color_of(result), "%s", result);
        fputc('\n', screen->to);
    }
    if (doc_true(doc, "called")) {
        if (count > 0)
            label(screen, "");
        screen_paint(screen, COLOR_GOOD, "connected");
        fputs(" by the other node\n", screen->to);
    }
}

static void version_line(const json_t *doc, const struct screen *screen)
{
    label(screen, "protocol");
    screen_print(screen, "%lld here (tcad %s), ", doc_integer(doc, "protocol.here"),
                 doc_text(doc, "protocol.version_here"));
    if (doc_is_number(doc, "protocol.there"))
        screen_print(screen, "%lld there (tcad %s)\n", doc_integer(doc, "protocol.there"),
                     doc_text(doc, "protocol.version_there"));
    else
        fputs("unknown there\n", screen->to);
}

static void rail_lines(const json_t *doc, const struct screen *screen)
{
    const size_t count = doc_count(doc, "rails");
    if (count == 0) {
        label(screen, "rails");
        fputs("none that leads to other nodes\n", screen->to);
    }
    for (size_t i = 0; i < count; i++) {
        const json_t *rail = doc_at(doc, "rails", i);
        const char *why = json_string_value(doc_get(rail, "why"));
        label(screen, i == 0 ? "rails" : "");
        screen_print(screen, "%s ", doc_text(rail, "rail"));
        screen_paint(screen, color_of(doc_text(rail, "state")), "%s", doc_text(rail, "state"));
        if (why && *why)
            screen_print(screen, ": %s", why);
        fputc('\n', screen->to);
    }
}

void render_why(const json_t *doc, const struct screen *screen)
{
    struct screen page = *screen;
    const char *problem = json_string_value(doc_get(doc, "problem"));
    char *text = NULL;
    size_t bytes;

    page.to = must(open_memstream(&text, &bytes));
    node_line(doc, &page);
    name_line(doc, &page);
    address_lines(doc, &page);
    word_line(doc, "key", "key", &page);
    version_line(doc, &page);
    word_line(doc, "cluster file", "cluster_file", &page);
    rail_lines(doc, &page);
    if (problem && *problem) {
        label(&page, "problem");
        screen_paint(&page, COLOR_BAD, "%s", problem);
        fputc('\n', page.to);
    }
    label(&page, "remedy");
    screen_print(&page, "%s\n", doc_text(doc, "remedy"));
    fclose(page.to);
    screen_fold(screen, text, LABEL_COLUMNS + 1);
    free(text);
}
