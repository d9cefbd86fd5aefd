/* Files that contain a secret. */
#pragma once

#include <stddef.h>

/* Opens a key file for reading: a regular file owned by this user or root that only the owner can
 * access (or that the group can read, if root owns it). A descriptor, or a negative errno with the
 * reason in why. */
int config_secret_open(const char *path, char *why, size_t why_bytes);

/* Reads the key in such a file, without white space at its ends, which an editor may add. The
 * caller clears it (explicit_bzero). 0, or a negative errno with the reason in why; -EINVAL: it is
 * too short or too long. */
enum { SECRET_MIN_BYTES = 32, SECRET_MAX_BYTES = 4096 };
int config_secret_read(const char *path, unsigned char ret_key[SECRET_MAX_BYTES], size_t *ret_bytes,
                       char *why, size_t why_bytes);
