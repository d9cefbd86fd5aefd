/* Making the memory of a region, or beside an attached one, be there. */
#pragma once

#include <stdint.h>

/*
 * The daemon makes the memfd, and touches nothing of it: here its pages are made, so that they count
 * against the memory limit of this process's job, and so that nobody runs out of memory later, at
 * some store. `pages` is enum region_pages (proto/limits.h); `what` names it in errors: -ENOMEM.
 */
int region_memory_make(int fd, void *base, uint64_t bytes, uint32_t pages, const char *what);
