/* How much memory this process may still take. */
#pragma once

#include <stdint.h>

/*
 * What can be taken now without the kernel having to kill somebody: of the machine, and of the
 * control groups that this process is in, where they have a limit. The kernel does not say so
 * itself: memory behind a memfd is not accounted before it is touched, and then the OOM killer
 * takes whom it likes. *ret_limit is what sets that bound, for people: static. UINT64_MAX when
 * nothing is known.
 */
uint64_t available_bytes(const char **ret_limit);
