/* The rank at the end of a short broadcast, whose data comes from a rank of the same node into
 * scratch memory: it takes the notification itself, without a plan, and copies the data as every
 * short operation does (client/coll/copies.h). Its only plan gives credits. Nobody waits for it:
 * other operations do not advance it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/core/wait.h"

struct gathered;
struct tca_coll;

struct coll_leaf {
    struct tca_plan *credit;     /* NULL: the rank is none, and has plans for all steps */
    uint32_t parent, slot;       /* who notifies it, and where: */
    struct session_slot arrival; /* the same */
    /* ---- the current start */
    bool lending; /* the credit has not arrived yet */
    bool arrived; /* the notification was taken, the start not completed */
};

/* Makes it a leaf if it is one, and if `args` let this process run its plans. */
int coll_leaf_make(struct tca_coll *coll, const struct gathered *met,
                   const struct tca_plan_args *args);

/* A start begins, in this set. A negative errno: the credit cannot be given. */
int coll_leaf_begin(struct coll_leaf *leaf, uint32_t set);

/* 1: the data is there, 0: not yet, or a negative errno. */
int coll_leaf_test(struct coll_leaf *leaf, struct tca *session);

/* Waits for the notification: 0, -ETIMEDOUT, or another error. */
int coll_leaf_wait(struct coll_leaf *leaf, struct tca *session, int64_t timeout_ns);

/* True if the notification arrives shortly; without looking for ranks that have ended. data: where
 * the data arrives. */
bool coll_leaf_take(struct coll_leaf *leaf, struct tca *session, const void *data);
