/* The device in software: shared by loop.c (objects) and loop_move.c (transfers). All of it is
 * protected by the device's mutex. */
#pragma once

#include <pthread.h>

#include "drivers/manycore/verbs.h"

struct loop_domain {
    struct verbs_domain base;
};

/* An object's random name. A connection that knows it was told: nobody finds it by trying, and it
 * does not come back when another object is made. */
struct loop_name {
    struct loop_name *next; /* in its bucket */
    uint64_t value;
    void *object;
};

struct loop_memory {
    struct verbs_memory base;
    struct loop_name name; /* 32 bits: the key */
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

/* What the queue pairs of one owner get: in each round as much as every other owner's, however many
 * they are. */
struct loop_share {
    struct loop_share *next, **link; /* in device->shares */
    const void *owner;
    uint32_t users;       /* queue pairs */
    struct loop_qp *busy; /* that have sends */
    uint32_t busy_count;
    struct loop_qp *turn; /* in busy: the next to be advanced; NULL: the first */
};

enum loop_state {
    LOOP_NEW,
    LOOP_CONNECTED, /* to `remote` */
    LOOP_LOST,      /* its peer was released: it receives nothing, and its next send fails it */
    LOOP_FAILED,    /* everything is flushed */
};

struct loop_qp {
    struct verbs_qp base;
    struct loop_name name; /* 64 bits */
    enum loop_state state;
    struct loop_share *share;
    struct loop_qp *next, **link; /* in share->busy; link NULL: it is not */
    /* The queue pair that it sends to and receives from, if that is connected to it in turn. */
    struct loop_qp *remote;
    struct loop_qp *followers;                      /* all that are connected to it */
    struct loop_qp *next_follower, **follower_link; /* in remote->followers */
    const struct loop_domain *domain;
    struct loop_cq *send_cq, *receive_cq;
    struct loop_queue sends, receives;
    uint64_t moved; /* bytes of the first send */
};

/* Objects by name. */
enum { LOOP_BUCKETS = 4096 };
struct loop_names {
    struct loop_name *buckets[LOOP_BUCKETS];
};

struct loop_device {
    struct verbs_device base;
    pthread_mutex_t mutex;
    uint64_t id; /* random: another daemon's queue pairs cannot be reached */
    struct loop_names memories, qps;
    struct loop_share *shares;
};

/* NULL: no such object. */
void *loop_find(const struct loop_names *names, uint64_t value);

void loop_complete(struct loop_cq *cq, const struct verbs_completion *completion);
/* Ends its connection. */
void loop_leave(struct loop_qp *qp);
/* Puts it into its error state for good, and flushes its queues. */
void loop_fail(struct loop_qp *qp);
/* Its peer is being released: its receives are flushed, and its first send, this one or the next,
 * finds nobody. */
void loop_lose(struct loop_qp *qp);
/* A completion for each entry, in order. */
void loop_flush_receives(struct loop_qp *qp);
/* Advances the first send by at most LOOP_SLICE_BYTES. What that takes of the share, in bytes; 0:
 * nothing could be done. */
uint64_t loop_advance(struct loop_device *device, struct loop_qp *qp);
enum {
    LOOP_SLICE_BYTES = 64 << 10, /* also a share, in one round */
    LOOP_ENTRY_BYTES = 4096,     /* what each step takes of it in addition, for its overhead */
};
