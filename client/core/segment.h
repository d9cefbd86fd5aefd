/* Maps shared memory from descriptors of the daemon. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Checks that the memfd or dmabuf has at least `bytes` bytes and cannot shrink, and maps it for
 * reading and writing: at `address` if that is not 0 and is free, else at any address. `what` names
 * it in errors. -EPROTO, -ENOMEM. */
int segment_map(int fd, uint64_t address, uint64_t bytes, const char *what, void **ret_base);
/* The same for a part of it, at any address. */
int segment_map_part(int fd, uint64_t offset_bytes, uint64_t bytes, const char *what,
                     void **ret_base);
/* The error for memory that is to be at `address`, but is not: -EADDRINUSE. */
int segment_misplaced(uint64_t address, uint64_t bytes, const char *what);

/* Whether it is a dmabuf. */
bool segment_is_dmabuf(int fd);

/* Allocates the pages now rather than at the first access. -ENOMEM. */
int segment_populate(void *base, uint64_t bytes);
