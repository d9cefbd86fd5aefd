/* Files that hold a secret. */
#pragma once

#include <stddef.h>

/* Opens a key file for reading: a regular file that belongs to this user or to root, that nobody
 * else may write, and that nobody else may read (the group may when root owns the file). A
 * descriptor, or a negative errno and in why the reason. */
int config_secret_open(const char *path, char *why, size_t why_bytes);
