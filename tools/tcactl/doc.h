/* Reading documents without believing them: what is missing or of another type shows as "-" or 0.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

/* Path of keys, with dots: "daemon.pid". NULL when there is none. */
const json_t *doc_get(const json_t *doc, const char *path);
/* "-": no text there. */
const char *doc_text(const json_t *doc, const char *path);
double doc_number(const json_t *doc, const char *path);
long long doc_integer(const json_t *doc, const char *path);
bool doc_true(const json_t *doc, const char *path);
bool doc_is_number(const json_t *doc, const char *path);
/* An array: how many; and its members. */
size_t doc_count(const json_t *doc, const char *path);
const json_t *doc_at(const json_t *doc, const char *path, size_t index);
/* The texts of an array with blanks between, "-" for none; the caller frees it. */
char *doc_join(const json_t *doc, const char *path);
