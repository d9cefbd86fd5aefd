/* Messages: those from outside are unpacked within limits; the one that everybody may have to send. */
#pragma once

#include <stddef.h>

#include "proto/tca.pb-c.h"

/* NULL: none, or one that would take more memory than its length can justify. Freed by
 * tca__message__free_unpacked(message, NULL). */
Tca__Message *message_unpack(const void *payload, size_t bytes);

/* Makes a message that says failure; it points to `failure` and `text`. */
void message_failure(Tca__Message *message, Tca__Failure *failure, int error, char *text);
