/* Messages as expressions. */
#pragma once

#include "proto/tca.pb-c.h"

/* The initializer of a message with this body: Tca__Message done = MESSAGE_OF(DONE, done,
 * &body). */
#define MESSAGE_OF(CASE, member, pointer)                                                          \
    {                                                                                              \
        .base = PROTOBUF_C_MESSAGE_INIT(&tca__message__descriptor),                                \
        .body_case = TCA__MESSAGE__BODY_##CASE, .member = (pointer)                                \
    }

/* The initializer of a body, in which all texts must be given: Tca__Done done = BODY_OF(done,
 * ...). */
#define BODY_OF(type, ...)                                                                         \
    {                                                                                              \
        .base = PROTOBUF_C_MESSAGE_INIT(&tca__##type##__descriptor), __VA_ARGS__                   \
    }
