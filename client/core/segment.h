/* Mapping descriptors from others. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Checks that the memfd is that long at least and cannot shrink, and maps it to be read and
 * written: at `address`, when that is not 0 and free, else anywhere. `what` names it in errors.
 * -EPROTO, -ENOMEM. */
int segment_map(int fd, uint64_t address, uint64_t bytes, const char *what, void **ret_base);

/* Makes its pages be there now rather than at the first touch. -ENOMEM when there is no memory for
 * them. */
int segment_populate(void *base, uint64_t bytes);
