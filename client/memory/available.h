/* The memory that this process can still allocate. */
#pragma once

#include <stdint.h>

/*
 * Bytes that can be allocated without invoking the OOM killer, given the machine's memory and the
 * limits of this process's control groups. The kernel does not refuse a larger memfd: its memory is
 * only accounted when it is accessed, and the OOM killer may then end any process. *ret_limit
 * describes the limit that applies (static). UINT64_MAX: unknown.
 */
uint64_t available_bytes(const char **ret_limit);
