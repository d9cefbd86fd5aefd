/* Which algorithm to use: predicted times of schedules. Pure functions. */
#pragma once

#include "client/coll/schedule.h"
#include "client/core/collective.h"
#include "client/core/costs.h"

extern const struct tca_coll_costs coll_costs_typical;

/* Of the costs that nodes have measured, those of operations whose ranks of one node put in the
 * client's or in the daemon's seat. What was not measured is typical. */
void coll_costs_measured(const struct reach_costs *measured, bool daemon,
                         struct tca_coll_costs *ret_costs);

/* Of moving bytes, without overhead and latency. */
uint64_t coll_bytes_ns(uint64_t bytes, uint64_t each_kib_ns);
uint64_t coll_transfer_ns(const struct tca_coll_link *link, uint64_t bytes);

/* Sees each step of each rank when it has been taken, those of one chain in order. */
struct coll_watch {
    void (*step)(void *context, uint32_t rank, uint32_t chain, const struct coll_step *step,
                 uint64_t begin_ns, uint64_t end_ns);
    void *context;
};

/* Runs the programs of all ranks against a clock: *ret_ns is the time from the start of all to the
 * last one's completion. watch: may be NULL. -ENOMEM. Irregular alltoalls cannot be run:
 * -EINVAL. */
int coll_simulate(const struct coll_shape *shape, enum tca_coll_algorithm algorithm,
                  const struct tca_coll_costs *costs, const struct coll_watch *watch,
                  uint64_t *ret_ns);

/* An algorithm, with the length of segments that suits it best. */
struct coll_candidate {
    enum tca_coll_algorithm algorithm;
    uint64_t segment_bytes; /* UINT64_MAX: one */
    uint64_t ns;            /* predicted */
};

/* All that suit, in their order, or only `wanted` unless that is TCA_COLL_ANY, with
 * shape->segment_bytes unless that is 0. *ret_count is 0 if none does, or if no cost can be
 * predicted. -ENOMEM. */
int coll_candidates(const struct coll_shape *shape, enum tca_coll_algorithm wanted,
                    const struct tca_coll_costs *costs,
                    struct coll_candidate ret_candidates[COLLECTIVE_CANDIDATES_MAX],
                    uint32_t *ret_count);

/* The one with the lowest predicted cost, of those found with the same arguments: sets
 * shape->segment_bytes. -EINVAL: `wanted` does not suit. */
int coll_pick(struct coll_shape *shape, enum tca_coll_algorithm wanted,
              const struct coll_candidate *candidates, uint32_t count,
              enum tca_coll_algorithm *ret_algorithm);
/* Both. */
int coll_choose(struct coll_shape *shape, enum tca_coll_algorithm wanted,
                const struct tca_coll_costs *costs, enum tca_coll_algorithm *ret_algorithm);
