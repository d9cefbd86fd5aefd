/* Long payloads. Shared by the files of frame.h only. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* An empty memfd that can be sealed: the descriptor, or negative errno. */
int memfd_new(const char *name);
/* Appends to it. 0 or negative errno. */
int memfd_write(int fd, const void *data, size_t bytes);
/* From now on nobody can write to it or change its size. 0 or negative errno. */
int memfd_seal(int fd);
/* Copies a memfd of exactly that many bytes, which nobody can change or shrink under us. 0, -EPROTO
 * (it is another, or not sealed), or negative errno. */
int memfd_read(int fd, uint8_t *ret_data, size_t bytes);
