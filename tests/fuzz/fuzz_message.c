/*
 * Unpacking of messages. An unpacked message must be packed to one that is unpacked to the same.
 * Messages with unknown fields are only unpacked: protobuf-c accepts a field number 0 that is spelt
 * "80 00", but not its own "00".
 */
#include <stdbool.h>
#include <string.h>

#include "proto/tca.pb-c.h"
#include "tests/fuzz/fuzz.h"

static bool all_known(const ProtobufCMessage *message);

/* The messages inside one field, if it has any. */
static bool field_known(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    const char *base = (const char *)message;
    const void *member = base + field->offset;
    if (field->type != PROTOBUF_C_TYPE_MESSAGE)
        return true;
    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
        size_t count = *(const size_t *)(base + field->quantifier_offset);
        for (size_t i = 0; i < count; i++)
            if (!all_known((*(ProtobufCMessage *const *const *)member)[i]))
                return false;
        return true;
    }
    if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) &&
        *(const uint32_t *)(base + field->quantifier_offset) != field->id)
        return true;
    const ProtobufCMessage *inside = *(ProtobufCMessage *const *)member;
    return !inside || all_known(inside);
}

static bool all_known(const ProtobufCMessage *message)
{
    if (message->n_unknown_fields > 0)
        return false;
    for (unsigned i = 0; i < message->descriptor->n_fields; i++)
        if (!field_known(message, &message->descriptor->fields[i]))
            return false;
    return true;
}

static uint8_t *pack(const Tca__Message *message, size_t *ret_bytes)
{
    size_t bytes = tca__message__get_packed_size(message);
    uint8_t *packed = malloc(bytes + !bytes);
    FUZZ_REQUIRE(packed);
    FUZZ_REQUIRE(tca__message__pack(message, packed) == bytes);
    *ret_bytes = bytes;
    return packed;
}

static void pack_again(const Tca__Message *message)
{
    size_t first_bytes, second_bytes;
    uint8_t *first = pack(message, &first_bytes);
    Tca__Message *again = tca__message__unpack(NULL, first_bytes, first);
    FUZZ_REQUIRE(again);
    FUZZ_REQUIRE(again->body_case == message->body_case);
    uint8_t *second = pack(again, &second_bytes);
    FUZZ_REQUIRE(first_bytes == second_bytes && memcmp(first, second, first_bytes) == 0);
    free(first);
    free(second);
    tca__message__free_unpacked(again, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    Tca__Message *message = tca__message__unpack(NULL, bytes, data);
    if (!message)
        return 0;
    if (all_known(&message->base))
        pack_again(message);
    tca__message__free_unpacked(message, NULL);
    return 0;
}
