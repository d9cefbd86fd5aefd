/* Allocates the pages of a region. */
#pragma once

#include <stdint.h>

/*
 * The daemon creates the memfd, but this process allocates its pages: they then count against the
 * memory limit of this process's job, and a later store cannot run out of memory. `pages` is enum
 * region_pages (proto/limits.h); `what` names the memory in errors. -ENOMEM.
 */
int region_memory_make(int fd, void *base, uint64_t bytes, uint32_t pages, const char *what);
/* Whether there is that much memory now. -ENOMEM */
int region_memory_check(uint64_t bytes, uint32_t pages, const char *what);
