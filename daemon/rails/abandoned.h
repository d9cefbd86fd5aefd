/* Connections to the ports of rails that their other end has closed, but whose descriptors the
 * rail's library keeps: libfabric leaks those of connections that ended before they sent a
 * request. */
#pragma once

#include <stdint.h>

#include "proto/segment.h"

/* Counts those of this process, by rail. ports[rail] 0: not counted. */
void abandoned_count(const uint16_t ports[static RAIL_SLOTS],
                     uint64_t ret_counts[static RAIL_SLOTS]);
