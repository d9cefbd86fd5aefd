/* Reads untrusted documents: a value that is missing or has another type reads as "-" or 0. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

/* A path of keys, separated by dots: "daemon.pid". NULL: no such value. */
const json_t *doc_get(const json_t *doc, const char *path);
/* "-": no such text, or empty. */
const char *doc_text(const json_t *doc, const char *path);
double doc_number(const json_t *doc, const char *path);
long long doc_integer(const json_t *doc, const char *path);
bool doc_true(const json_t *doc, const char *path);
bool doc_is_number(const json_t *doc, const char *path);
/* The number of elements of an array, and an element. */
size_t doc_count(const json_t *doc, const char *path);
const json_t *doc_at(const json_t *doc, const char *path, size_t index);
/* The texts of an array, separated by blanks, "-" for none; the caller frees it. */
char *doc_join(const json_t *doc, const char *path);
