/* Renders documents written as text, and compares whole outputs. */
#pragma once

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/tcactl/render.h"

struct shown {
    char *text;
    size_t bytes;
    struct screen screen;
};

/* A screen that keeps what is written to it; shown_end() makes the text complete. */
static inline struct shown *shown_begin(bool utf8, bool color)
{
    struct shown *shown = calloc(1, sizeof(*shown));

    shown->screen = (struct screen){
        .to = open_memstream(&shown->text, &shown->bytes), .utf8 = utf8, .color = color};
    return shown;
}

static inline void expect(struct shown *shown, const char *expected)
{
    fclose(shown->screen.to);
    cr_expect_str_eq(shown->text, expected, "shown:\n%s\nexpected:\n%s", shown->text, expected);
    free(shown->text);
    free(shown);
}

static inline json_t *document(const char *text)
{
    json_error_t error;
    json_t *doc = json_loads(text, 0, &error);

    cr_assert(doc, "the test's own document is wrong at %d: %s", error.position, error.text);
    return doc;
}

/* As ASCII without colours. */
static inline void expect_render(render_function *render, const char *text, const char *expected)
{
    struct shown *shown = shown_begin(false, false);
    json_t *doc = document(text);

    render(doc, &shown->screen);
    json_decref(doc);
    expect(shown, expected);
}
