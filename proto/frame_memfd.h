/* Sealed memfds: long payloads of frames, and what several processes are to read. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Returns an empty memfd that can be sealed, or a negative errno. */
int memfd_new(const char *name);
/* Appends to the memfd. 0 or negative errno. */
int memfd_write(int fd, const void *data, size_t bytes);
/* Seals the memfd against writes and changes of size, permanently. 0 or negative errno. */
int memfd_seal(int fd);
/* Copies the content of a sealed memfd of exactly `bytes` bytes. Returns 0, -EPROTO (another size,
 * not a regular file, or not sealed), or a negative errno. */
int memfd_read(int fd, uint8_t *ret_data, size_t bytes);
/* The same, but maps it for reading: bytes > 0; the caller calls munmap(). */
int memfd_map(int fd, size_t bytes, const uint8_t **ret_data);
