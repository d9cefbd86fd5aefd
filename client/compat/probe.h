/* Whether there is memory at an address that the program has given. */
#pragma once

#include "client/compat/compat.h"

tcaresult probe_memory(const void *memory, uint64_t bytes);
