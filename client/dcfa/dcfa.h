/* An offload processor and its objects, as its process sees them. */
#pragma once

#include "client/core/session.h"
#include "client/include/tca-dcfa.h"
#include "proto/dcfa.h"

/* First member of every object. */
struct dcfa_object {
    struct dcfa *processor;
    struct dcfa_object *next, **link; /* in processor->objects */
    enum dcfa_kind kind;
    uint32_t id; /* tcad's */
};

struct dcfa {
    struct tca *session;
    struct dcfa_head *head; /* the segment's begin */
    uint64_t segment_bytes, memory_offset;
    int wake_fd; /* eventfd of tcad's thread */
    struct dcfa_object *objects;
    char device[DCFA_DEVICE_NAME_BYTES];
};

struct dcfa_pd {
    struct dcfa_object object;
};

struct dcfa_cq {
    struct dcfa_object object;
    struct ring ring;
};

struct dcfa_qp {
    struct dcfa_object object;
    struct ring send, receive;
    bool connected;
    struct dcfa_address address;
};

struct dcfa_mr {
    struct dcfa_object object;
    uint32_t local_key, remote_key;
};
