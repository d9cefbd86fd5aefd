/* The device in software: shared by loop.c (objects) and loop_move.c (transfers). All of it is
 * protected by the device's mutex. */
#pragma once

#include <pthread.h>

#include "drivers/manycore/verbs.h"

struct loop_domain {
    struct verbs_domain base;
};

struct loop_memory {
    struct verbs_memory base;
    const struct loop_domain *domain;
    uint8_t *at;
    uint64_t bytes, address;
    unsigned access;
};

struct loop_cq {
    struct verbs_cq base;
    uint32_t capacity, head, tail; /* count up freely */
    struct verbs_completion entries[];
};

struct loop_work {
    struct dcfa_entry entry;
    uint64_t token;
};

struct loop_queue {
    struct loop_work *entries;
    uint32_t capacity, head, tail; /* count up freely */
};

struct loop_qp {
    struct verbs_qp base;
    struct loop_qp *next, **link; /* in device->busy, while it has sends; link NULL: it is not */
    uint32_t number, remote;
    bool connected, failed;
    const struct loop_domain *domain;
    struct loop_cq *send_cq, *receive_cq;
    struct loop_queue sends, receives;
    uint64_t moved; /* bytes of the first send */
};

/* Objects by number. A number carries a generation, so that a stale one names nothing. */
struct loop_slots {
    struct loop_slot {
        void *object; /* NULL: free */
        uint32_t generation;
    } * slots;
    uint32_t count;
};

struct loop_device {
    struct verbs_device base;
    pthread_mutex_t mutex;
    uint64_t id; /* random: another daemon's queue pairs cannot be reached */
    struct loop_slots memories, qps;
    struct loop_qp *busy;
};

/* NULL: no such object. */
void *loop_find(const struct loop_slots *slots, uint32_t number);

void loop_complete(struct loop_cq *cq, const struct verbs_completion *completion);
/* Puts it into its error state, and flushes its queues. */
void loop_fail(struct loop_qp *qp);
/* Advances the first send by at most LOOP_SLICE_BYTES. Whether anything was done. */
bool loop_advance(struct loop_device *device, struct loop_qp *qp);
enum { LOOP_SLICE_BYTES = 64 << 10 };
