/* Configuration text: reading it with bounds, going through its lines, guessing what a wrong word
 * was meant to be. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "config/errors.h"

enum {
    CONFIG_FILE_MAX_BYTES = 16 << 20,
    CONFIG_LINE_MAX_BYTES = 4096,
};

/* Reads a regular file as a whole. 0 and a NUL-terminated text (the caller frees it), or a negative
 * errno; every failure but -ENOENT is also in errors: whether a missing file is one, only the
 * caller knows. */
int config_text_read(const char *path, char **ret_text, size_t *ret_bytes,
                     struct config_errors *errors);

/* True when text is UTF-8 without control characters (tabs are fine): it can be shown on a terminal
 * and put into JSON. */
bool config_text_clean(const char *text, size_t bytes);

struct config_lines {
    const char *file;
    struct config_errors *errors;
    const char *next, *end;
    unsigned line; /* number of the current one */
    char text[CONFIG_LINE_MAX_BYTES + 1];
};

void config_lines_init(struct config_lines *lines, const char *file, const char *text, size_t bytes,
                       struct config_errors *errors);
/* The next line that says something, in lines->text: trimmed, without its comment (a # at the start
 * or after white space). Lines that cannot be text are reported and skipped. False at the end. */
bool config_lines_next(struct config_lines *lines);

/* Cuts white space off both ends, in place. */
char *config_trim(char *text);

/* The candidate nearest to a word, if any is near enough to have been meant. */
struct config_guess {
    const char *word;
    const char *best; /* NULL: none */
    unsigned distance;
};
void config_guess_init(struct config_guess *guess, const char *word);
void config_guess_try(struct config_guess *guess, const char *candidate);
