#include "daemon/base/message.h"

#include <stdlib.h>

#include "proto/status.h"

enum {
    BYTES_MIN = 16 << 20, /* memory for any message, */
    FACTOR = 4,           /* and for each of its bytes */
};

/* Limits the memory of a message: a short frame can contain millions of empty parts. */
static void *limited_alloc(void *context, size_t bytes)
{
    size_t *left = context;
    if (bytes > *left)
        return NULL;
    *left -= bytes;
    return malloc(bytes);
}

static void limited_free(void *context, void *memory)
{
    free(memory);
}

Tca__Message *message_unpack(const void *payload, size_t bytes, size_t *ret_memory_bytes)
{
    const size_t most = BYTES_MIN + FACTOR * bytes;
    size_t left = most;
    ProtobufCAllocator allocator = {
        .alloc = limited_alloc, .free = limited_free, .allocator_data = &left};
    Tca__Message *message = tca__message__unpack(&allocator, bytes, payload);
    if (message && ret_memory_bytes)
        *ret_memory_bytes = most - left;
    return message;
}

void message_failure(Tca__Message *message, Tca__Failure *failure, int error, char *text)
{
    tca__failure__init(failure);
    failure->status = status_to_wire(error);
    failure->text = text;
    tca__message__init(message);
    message->body_case = TCA__MESSAGE__BODY_FAILURE;
    message->failure = failure;
}
