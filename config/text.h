/* Configuration text: bounded reading and lines. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "config/errors.h"

enum {
    CONFIG_FILE_MAX_BYTES = 16 << 20,
    CONFIG_LINE_MAX_BYTES = 4096,
};

/* Reads a whole regular file. 0 and a NUL-terminated text (the caller frees it), or a negative
 * errno. Adds every failure except -ENOENT to errors: the caller decides whether the file may be
 * missing. */
int config_text_read(const char *path, char **ret_text, size_t *ret_bytes,
                     struct config_errors *errors);

/* Whether text is UTF-8 without control characters except tabs, so that it can be shown on a
 * terminal and put into JSON. */
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
/* Stores the next non-empty line in lines->text, trimmed and without its comment (a # at the start
 * or after white space). Reports and skips lines that are not text. False at the end. */
bool config_lines_next(struct config_lines *lines);

/* Removes white space at both ends, in place. */
char *config_trim(char *text);
