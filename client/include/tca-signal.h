/*
 * tca-signal.h: counters in memory, to which any process can add. Results, errors, times and
 * threads: as in tca.h.
 */
#ifndef TCA_SIGNAL_H
#define TCA_SIGNAL_H

#include "tca.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --------------------------------------------------------------- signals */

/* A *counter* is an aligned uint64_t in memory of a session (tca_alloc() or a region), named like
 * any memory by handle and offset. A *signal* is a step that adds to a counter, after the puts
 * before it in its chain: a put with signal. Any number of processes can add to one counter, and
 * there can be any number of counters. Notifications (tca_plan_notify()) are for one sender and one
 * receiver, and a little faster; signals count what comes from several:
 *
 *     uint64_t *arrived; // each rank; its handle to the others
 *     tca_alloc(session, sizeof(*arrived), (void **)&arrived);
 *     ...
 *     tca_plan_put(plan, &put); // a sender: data for this rank,
 *     tca_plan_signal(plan, &handle_of_arrived, 0, 1); // and 1 more has come
 *     ...
 *     tca_signal_wait_until(session, arrived, TCA_SIGNAL_GE, senders,
 *                           TCA_FOREVER);
 *
 * Memory. The processor of the counter's node adds, atomically, in every seat and over every rail:
 * no adapter does so. The owner, and processes of its node that have mapped the counter
 * (tca_reach()), can meanwhile read, write and add to it with atomic operations of their own, such
 * as C11's `atomic_fetch_add((_Atomic uint64_t *)arrived, 1)`. Only signals wake those who wait:
 * tca_signal_wait_until() sees what a processor has added within 100 ms, a wait of a plan in the
 * daemon's seat with the next signal to the counter. A counter wraps around at 2^64. Neither a put
 * nor a plain store into a counter that others add to is atomic with them. Memory of a device
 * (tca_region_import()) cannot hold counters: -EOPNOTSUPP.
 *
 * Order. When a signal is visible, so is the data of all earlier puts of its chain to the counter's
 * node, as for a notification, and the sources of all earlier puts of the chain may be written
 * again. With TCA_PLAN_LANDED, or a flush behind it, a start is complete when its signals are
 * visible, too. Each start adds exactly once; one that fails, once or not at all. Receivers do not
 * help to copy in chains with signals.
 *
 * Ends. When the counter's owner ends, or frees the region, plans with signals to it break, as
 * those that put there. A wait does not end when a process ends that has added to the counter, or
 * might: whoever has the handle can begin to add at any time, and what one leaves undone another
 * may do. tca_signal_wait_until() fails with -EOWNERDEAD when all other ranks of the session have
 * ended. Who must know of each sender's end gives each a counter and a notification of its own.
 *
 * Each counter that is used takes 256 bytes at its owner, until its session ends, as a (rank, slot)
 * of notifications does, and counts as one. */

/* Appends a signal: adds `value`, at least 1, to the counter at this offset of the handle's part.
 * -EINVAL: no handle; not a multiple of 8, which the commit may be the first to notice; outside the
 * part. Permissions are those of puts. */
TCA_API int tca_plan_signal(struct tca_plan *plan, const struct tca_handle *target,
                            uint64_t offset_bytes, uint64_t value);

/* Appends a wait: the chain continues when the counter, in memory of the plan's session, is at
 * least `value`, and subtracts it, so that the next start waits for as much again. Starts that wait
 * for one counter in the daemon's seat are served in the order in which the daemon accepted them.
 * If nobody adds any more, tca_plan_cancel() ends the wait. -EINVAL: value 0; not memory of the
 * session; not aligned. */
TCA_API int tca_plan_wait_signal(struct tca_plan *plan, const uint64_t *counter, uint64_t value);

enum tca_signal_compare {
    TCA_SIGNAL_EQ = 1,
    TCA_SIGNAL_NE = 2,
    TCA_SIGNAL_GT = 3,
    TCA_SIGNAL_GE = 4,
    TCA_SIGNAL_LT = 5,
    TCA_SIGNAL_LE = 6,
};

/* Whether `*counter compare value` holds (both unsigned): 1 or 0. Then the data before the signals
 * that have made it true is visible. Changes nothing. -EINVAL: not memory of the session; not
 * aligned; no such comparison. */
TCA_API int tca_signal_test(struct tca *session, const uint64_t *counter,
                            enum tca_signal_compare compare, uint64_t value);
/* Waits until it does, and advances running plans meanwhile, like every wait: 0; -ETIMEDOUT;
 * -EOWNERDEAD: see above. */
TCA_API int tca_signal_wait_until(struct tca *session, const uint64_t *counter,
                                  enum tca_signal_compare compare, uint64_t value,
                                  int64_t timeout_ns);

#ifdef __cplusplus
}
#endif

#endif
