/* The reserved address range: which parts of it the regions of this node's sessions use, so that
 * every process can map each of them at the same address. Bookkeeping only: nothing is mapped here.
 */
#pragma once

#include <stdint.h>

struct space;

enum { SPACE_ALIGN_BYTES = 2 << 20 }; /* so that huge pages fit */

int space_new(uint64_t base, uint64_t bytes, struct space **ret_space);
struct space *space_free(struct space *space);

/* The lowest free place for this many bytes: 0 and its address, or -ENOSPC. */
int space_take(struct space *space, uint64_t bytes, uint64_t *ret_address);
/* Exactly what was taken there. */
void space_give(struct space *space, uint64_t address);
