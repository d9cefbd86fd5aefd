/* The directories that the daemon works in. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/*
 * Makes it, with its parents, unless it is there, and checks that nobody else can put anything into
 * it, or has put it there: it belongs to us or root (where we are root, to anybody), others cannot
 * write to it, and what leads to it is no other user's symbolic link. 0, or a negative errno; text
 * says why, with `key` of the configuration.
 */
int directory_make(const char *path, mode_t mode, const char *key, char *text, size_t text_bytes);
