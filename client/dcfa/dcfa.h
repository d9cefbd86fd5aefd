/* An offload processor and its objects, in the processor's process. */
#pragma once

#include "client/core/session.h"
#include "client/dcfa/direct.h"
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
    int segment_fd;
    int wake_fd;   /* eventfd of tcad's thread */
    int device_fd; /* -1: tcad serves the queues; else this process drives the device's */
    struct dcfa_object *objects;
    struct dcfa_qp *qps[DCFA_QPS_MAX]; /* by id */
    char device[DCFA_DEVICE_NAME_BYTES];
};

struct dcfa_pd {
    struct dcfa_object object;
};

struct dcfa_cq {
    struct dcfa_object object;
    struct ring ring;
    struct direct_queue direct;
};

struct dcfa_qp {
    struct dcfa_object object;
    struct ring send, receive;
    struct direct_queue direct_send, direct_receive;
    struct dcfa_cq *send_cq, *receive_cq; /* not larger than this: tcad's limit */
    uint32_t device_handle, device_number;
    bool connected;
    struct dcfa_address address;
};

struct dcfa_mr {
    struct dcfa_object object;
    uint32_t local_key, remote_key;
};

/* Releases this process's part of it. */
void dcfa_object_free(struct dcfa_object *object);
