/* What client and daemon agree on about the steps of a chain. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Whether a notification goes with the step before it, as one put: that is a put, to the same node.
 * The daemon names one place for the two (Mapping of proto/tca.proto). */
static inline bool notify_joins_put(bool after_put, uint32_t put_node, uint32_t notify_node)
{
    return after_put && put_node == notify_node;
}
