/* Where text for people goes, and what that place can show. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

struct screen {
    FILE *to;
    bool color;
    bool utf8;
    unsigned columns; /* of the terminal; 0: lines may be as long as they like */
};

enum screen_color { COLOR_NONE, COLOR_GOOD, COLOR_WARN, COLOR_BAD, COLOR_HEAD };

/* What stdout can show: colours on a terminal unless refused (no_color, NO_COLOR, TERM=dumb), UTF-8
 * as the locale says, as many columns as the terminal has. */
void screen_init(struct screen *screen, FILE *to, bool no_color);

/* The sequences that begin and end a colour; "" where there are none. */
const char *screen_begin(const struct screen *screen, enum screen_color color);
const char *screen_end(const struct screen *screen, enum screen_color color);

/* The colour of a word for a state: "up", "draining", "down"... */
enum screen_color screen_color_of(const char *state);

/* Writes text that somebody else chose (names of clients, of nodes): control characters become '?',
 * so that no name can take over the terminal; without UTF-8 other characters become '?' too.
 * Returns the columns that it takes. */
unsigned screen_text(const struct screen *screen, const char *text);

/* The same with line breaks between words where the terminal's line would end; ends with a newline.
 * indent: columns that the line has already, and what further lines are indented by, too. */
void screen_wrapped(const struct screen *screen, const char *text, unsigned indent);
