/* The rank at the end of a short broadcast, whose data comes from a rank of the same node into
 * scratch memory: it takes the notification and copies the data itself, without a plan. Its only
 * plan gives credits. Nobody waits for it: other operations do not advance it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "client/core/wait.h"

struct gathered;
struct tca_coll;

struct coll_leaf {
    struct tca_plan *credit;     /* NULL: the rank is none, and has plans for all steps */
    uint32_t parent, slot;       /* who notifies it, and where: */
    struct session_slot arrival; /* the same */
    const uint8_t *from;         /* of set 0 */
    uint8_t *to;
    uint64_t bytes, set_bytes;
    /* ---- the current start */
    bool lending; /* the credit has not arrived yet */
    bool arrived; /* the notification was taken, the data not copied */
};

/* Makes it a leaf if it is one, and if `args` let this process run its plans. */
int coll_leaf_make(struct tca_coll *coll, const struct gathered *met,
                   const struct tca_plan_args *args);

/* A start begins, in this set. A negative errno: the credit cannot be given. */
int coll_leaf_begin(struct coll_leaf *leaf, uint32_t set);

/* 1: complete, 0: not yet, or a negative errno. */
int coll_leaf_test(struct coll_leaf *leaf, struct tca *session, uint32_t set);

/* Waits for the notification: 0, -ETIMEDOUT, or another error. */
int coll_leaf_wait(struct coll_leaf *leaf, struct tca *session, int64_t timeout_ns);

/* True if the data arrives shortly, and completes the start; without looking for ranks that have
 * ended. */
bool coll_leaf_take(struct coll_leaf *leaf, struct tca *session, uint32_t set);
