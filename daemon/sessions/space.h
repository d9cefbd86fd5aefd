/* Allocates addresses for the regions of this node from a reserved range, so that every process can
 * map each region at the same address. Bookkeeping only: nothing is mapped here. */
#pragma once

#include <stdint.h>

struct space;

enum { SPACE_ALIGN_BYTES = 2 << 20 }; /* so that huge pages fit */

int space_new(uint64_t base, uint64_t bytes, struct space **ret_space);
struct space *space_free(struct space *space);

/* Allocates a free range of this size: above those that were allocated before, and from the lowest
 * on again, when the last one has been reached. So a range is used again late: processes may still
 * map a region that its owner has freed. 0, -ENOSPC or -ENOMEM. */
int space_take(struct space *space, uint64_t bytes, uint64_t *ret_address);
/* Frees the range allocated at this address. */
void space_give(struct space *space, uint64_t address);
