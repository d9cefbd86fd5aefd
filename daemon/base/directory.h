/* The daemon's directories. */
#pragma once

#include <sys/types.h>

/*
 * Creates the directory, with its parents, if it does not exist, and checks that no other user
 * controls it: its owner is this user (if that is root, any user), others cannot write to it, and
 * the path is not another user's symbolic link. 0 or a negative errno; text describes the error and
 * names `key` of the configuration.
 */
int directory_make(const char *path, mode_t mode, const char *key, char *text, size_t text_bytes);
