/* Messages from outside: unpacked within limits. */
#pragma once

#include <stddef.h>

#include "proto/tca.pb-c.h"

/* NULL: none, or one that would take more memory than its length can justify. Freed by
 * tca__message__free_unpacked(message, NULL). */
Tca__Message *message_unpack(const void *payload, size_t bytes);
