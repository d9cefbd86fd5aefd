/* Checks that the program has mapped the memory. */
#pragma once

#include "client/compat/compat.h"

tcaresult probe_memory(const void *memory, uint64_t bytes);
