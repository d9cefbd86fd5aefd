/* Unpacks messages within limits, and makes failure messages. */
#pragma once

#include <stddef.h>

#include "proto/tca.pb-c.h"

/* NULL: invalid, or its memory is out of proportion to its length. Freed by
 * tca__message__free_unpacked(message, NULL). ret_memory_bytes (may be NULL): its memory. */
Tca__Message *message_unpack(const void *payload, size_t bytes, size_t *ret_memory_bytes);

/* Makes a Failure message, which points to `failure` and `text`. */
void message_failure(Tca__Message *message, Tca__Failure *failure, int error, char *text);
