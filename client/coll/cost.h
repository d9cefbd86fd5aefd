/* Which algorithm to use: predicted times of schedules. Pure functions. */
#pragma once

#include "client/coll/schedule.h"

/* What one step costs; by whether the peer is on the same node, in the same cluster, or elsewhere. */
struct coll_link {
    uint64_t latency_ns;  /* from a notification's start to its arrival */
    uint64_t overhead_ns; /* of the sender, for each put and notification */
    uint64_t kib_ns;      /* of the sender, for 1024 bytes of a put */
};

struct coll_costs {
    struct coll_link near, cluster, far;
    uint64_t combine_kib_ns;
};

extern const struct coll_costs coll_costs_default;

/* Sees each step of each rank when it has been taken, those of one chain in order. */
struct coll_watch {
    void (*step)(void *context, uint32_t rank, uint32_t chain, const struct coll_step *step,
                 uint64_t begin_ns, uint64_t end_ns);
    void *context;
};

/* Runs the programs of all ranks against a clock: *ret_ns is the time from the start of all to the last
 * one's completion. watch: may be NULL. -ENOMEM. Irregular alltoalls cannot be run: -EINVAL. */
int coll_simulate(const struct coll_shape *shape, enum tca_coll_algorithm algorithm,
                  const struct coll_costs *costs, const struct coll_watch *watch, uint64_t *ret_ns);

/* Time from the start of all ranks to the last one's completion. At most the first 64 ranks are
 * considered. -ENOMEM. Irregular alltoalls cannot be predicted: -EINVAL. */
int coll_predict(const struct coll_shape *shape, enum tca_coll_algorithm algorithm,
                 const struct coll_costs *costs, uint64_t *ret_ns);

/* The algorithm with the lowest predicted cost among those that suit, or the only one; where
 * shape->segment_bytes is 0, sets it. `wanted`: TCA_COLL_ANY or the one to use. -EINVAL: it does not
 * suit. */
int coll_choose(struct coll_shape *shape, enum tca_coll_algorithm wanted,
                const struct coll_costs *costs, enum tca_coll_algorithm *ret_algorithm);
