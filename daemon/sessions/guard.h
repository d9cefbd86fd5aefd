/*
 * Memory of clients that is not there when this process touches it. Whoever has a region's memfd may
 * punch holes into it; a page of reserved huge pages that was there then comes from what is left of
 * them, and where none is, the kernel raises SIGBUS. That would be the end of the daemon, at any
 * client's wish. Instead the mapping is replaced by memory that is nobody's: what is still to be put
 * there goes nowhere, and only those who share that region miss it.
 */
#pragma once

#include <stdint.h>

/* Once, before other threads begin. 0 or negative errno. */
int guard_install(void);
/* Mappings replaced so far. */
uint64_t guard_replaced(void);
