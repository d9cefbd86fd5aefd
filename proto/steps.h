/* Rules about the steps of a chain that client and daemon share. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Whether a notification is joined with the step before it into one put, because that is a put to
 * the same node, and no reduction, which may go another way than the other puts of its chain. The
 * daemon then sends one Mapping (proto/tca.proto) for both. */
static inline bool notify_joins_put(bool after_put, uint32_t put_node, uint32_t notify_node)
{
    return after_put && put_node == notify_node;
}
