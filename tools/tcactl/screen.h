/* The output for text, and its capabilities. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

struct screen {
    FILE *to;
    bool color;
    bool utf8;
    unsigned columns; /* of the terminal; 0: unlimited */
};

enum screen_color { COLOR_NONE, COLOR_GOOD, COLOR_WARN, COLOR_BAD, COLOR_HEAD };

/* Finds the capabilities of stdout: colours on a terminal unless disabled (no_color, NO_COLOR,
 * TERM=dumb), UTF-8 by the locale, the columns of the terminal. */
void screen_init(struct screen *screen, FILE *to, bool no_color);

/* The sequences that begin and end a colour; "" without colours. */
const char *screen_begin(const struct screen *screen, enum screen_color color);
const char *screen_end(const struct screen *screen, enum screen_color color);

/* The colour of a state: "up", "draining", "down"... */
enum screen_color screen_color_of(const char *state);

/* Writes untrusted text (names of clients and nodes): control characters become '?', so that they
 * cannot control the terminal; without UTF-8, non-ASCII characters become '?', too. Returns its
 * columns. */
unsigned screen_text(const struct screen *screen, const char *text);

/* The same for a formatted text; newlines with which the format begins or ends stay newlines. */
void screen_print(const struct screen *screen, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void screen_paint(const struct screen *screen, enum screen_color color, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The word in the colour of the state. */
void screen_state(const struct screen *screen, const char *state);

/* Writes lines that were made by the functions above: those that are wider than the terminal are
 * broken between words, and go on below, indented by so many columns. */
void screen_fold(const struct screen *screen, const char *lines, unsigned indent);
