/* How much memory there is to hand out. */
#pragma once

#include <stdint.h>

/*
 * What can be taken now without the kernel having to kill somebody: of the machine, and of our
 * control group where that has a limit (MemoryMax=). The kernel does not say so itself: memory
 * behind a memfd is not accounted before it is touched, and then the OOM killer takes whom it
 * likes. UINT64_MAX when nothing is known. Any thread.
 */
uint64_t memory_available_bytes(void);
