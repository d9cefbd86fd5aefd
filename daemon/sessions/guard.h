/*
 * Protects the daemon from SIGBUS. A process that holds a region's memfd can punch holes into it.
 * If the region uses reserved huge pages and none are left, the next access raises SIGBUS, with
 * which any client could end the daemon. The handler replaces the mapping by anonymous memory:
 * later data for the region is lost, which affects only the processes that share it.
 */
#pragma once

#include <stdint.h>

/* Call once, before other threads start. 0 or a negative errno. */
int guard_install(void);
/* Number of mappings replaced so far. */
uint64_t guard_replaced(void);
