#include "daemon/message.h"

#include <stdlib.h>

enum {
    BYTES_MIN = 16 << 20, /* what any message may grow to in memory, and */
    FACTOR = 4,           /* that many times its length on top */
};

/* What a message may take in memory: a short frame can hold millions of empty parts. */
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

Tca__Message *message_unpack(const void *payload, size_t bytes)
{
    size_t left = BYTES_MIN + FACTOR * bytes;
    ProtobufCAllocator allocator = {
        .alloc = limited_alloc, .free = limited_free, .allocator_data = &left};
    return tca__message__unpack(&allocator, bytes, payload);
}
