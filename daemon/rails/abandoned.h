/* Connections at the ports of rails that their other end has closed, and that the rail's library keeps: libfabric leaks
 * the descriptor of each that never said what it wanted. */
#pragma once

#include <stdint.h>

#include "proto/segment.h"

/* Counts those of this process, by rail; ports[rail] 0: not looked for. */
void abandoned_count(const uint16_t ports[static RAIL_SLOTS],
                     uint64_t ret_counts[static RAIL_SLOTS]);
