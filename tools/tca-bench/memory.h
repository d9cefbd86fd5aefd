#pragma once

#include <stdint.h>

/* Measures loops over memory of malloc(), of tca_alloc() and attached memory, in a session at this
 * node's tcad, and prints a table with what the administrator can change. Uses three times `mib`,
 * at least 2. json: the name of a file to which it appends a line for each, or NULL. The exit
 * status of tca-bench. */
int memory_bench(uint64_t mib, const char *json);
