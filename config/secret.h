/* Files that contain a secret. */
#pragma once

#include <stddef.h>

/* Opens a key file for reading: a regular file owned by this user or root that only the owner can
 * access (or that the group can read, if root owns it). A descriptor, or a negative errno with the
 * reason in why. */
int config_secret_open(const char *path, char *why, size_t why_bytes);
