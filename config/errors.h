/* The errors of a configuration: a list, because all of them are reported. */
#pragma once

#include <stddef.h>
#include <stdio.h>

enum { CONFIG_ERRORS_MAX = 100 }; /* in the list; further ones are only counted */

struct config_error {
    char *file;    /* "command line" for overrides, "environment" for defaults from there */
    unsigned line; /* 1 is the first; 0: concerns no single line */
    char *text;    /* names the key, its value, the limit or the legal values, and the remedy */
};

/* All zero is empty. */
struct config_errors {
    struct config_error *list;
    size_t count;
    size_t dropped; /* not in the list: too many, or out of memory */
};

void config_errors_deinit(struct config_errors *errors);

void config_errors_add(struct config_errors *errors, const char *file, unsigned line,
                       const char *format, ...) __attribute__((format(printf, 4, 5)));

/* All errors, in the list or dropped: a parser compares the numbers before and after. */
size_t config_errors_total(const struct config_errors *errors);

/* "file:line: text" lines. */
void config_errors_write(const struct config_errors *errors, FILE *to);
