/*
 * Chains: steps that run in order, over any driver, in either seat. libtca and the daemon's engine
 * both run plans by these functions. Only the meaning of a notification differs between them; the
 * token carries it.
 *
 * A put step is posted when all earlier steps of its chain have been posted and all earlier waits
 * have completed. Several puts of a chain can be in flight. A notification becomes visible after
 * the data of all puts before it in its chain: ordered drivers (caps.ordered) guarantee that; for
 * others, the step needs a fence, at which the chain waits for the puts in flight.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "drivers/driver.h"
#include "proto/limits.h"

enum chain_step_kind {
    CHAIN_PUT = 1,   /* one driver put: data, a notification, or both */
    CHAIN_WAIT = 2,  /* waits for notifications at the chain's owner */
    CHAIN_FLUSH = 3, /* waits until completed puts to a peer have completed remotely */
    CHAIN_FENCE =
        4, /* nothing; with `fence`, not all is posted before all earlier steps are complete */
};

struct chain_step {
    enum chain_step_kind kind;
    bool fence; /* not WAIT: wait for the completion of all earlier steps first */
    /* PUT, WAIT: NULL, or a flag that is set when the step's peer is gone; see chain_lose() */
    const _Atomic bool *gone;
    union {
        struct {
            struct driver *driver;
            struct driver_put *put;
        } put;
        struct {
            struct notify_line *line;
            _Atomic uint64_t *taken;
            uint64_t count;
            _Atomic uint64_t *counter; /* not NULL: in memory; `count` is taken from it instead */
            /* NULL, or a further condition: that the data of the notification is visible here, or
             * that no other consumer is to take it. */
            bool (*may_take)(void *context, const struct chain_step *step);
            void *context;
            uint32_t rank;
        } wait;
        struct {
            struct driver *driver;
            struct driver_peer *peer;
        } flush;
    };
};

struct chain;

/* Of each step of a plan, a put and its seven stripes, and as many flushes: one of all that is not
 * flushed yet, or three of single puts; at the end a flush and a fence
 * (daemon/plans/plan_prepare.c). */
enum { CHAIN_STEPS_MAX = 16 * PLAN_STEPS_MAX + 2 };

/* Makes a chain with a copy of the steps. The caller owns the puts, which must outlive it. Returns
 * 0, -E2BIG or -ENOMEM. */
int chain_new(const struct chain_step *steps, uint32_t step_count, struct chain **ret_chain);
/* The same for a long chain, bit by bit: all of its steps must be set, in order, before it is
 * started. */
int chain_new_empty(uint32_t step_count, struct chain **ret_chain);
void chain_set(struct chain *chain, uint32_t first, const struct chain_step *steps, uint32_t count);
/* The chain must not be running. NULL is a no-op. Returns NULL. */
struct chain *chain_free(struct chain *chain);

/* Starts from the first step; -EBUSY while it runs. Runs as far as possible and returns as
 * chain_run(). */
int chain_start(struct chain *chain);

/* Continues. Returns 1 (complete), 0 (not yet), or the negative error that it failed with, once
 * nothing of it is in flight. */
int chain_run(struct chain *chain);

/*
 * Three ways to end a start early. A put in flight completes as its driver reports, and a start
 * that is past its last put and wait runs to its end and succeeds.
 */
/* Stops posting and waiting: chain_run() returns the error once nothing is in flight. */
void chain_cancel(struct chain *chain, int error);
/* Call after a flag chain_step.gone was set: the start fails with the error if it still has to run
 * such a step, or such a put was posted and none of it sent (driver_ops.put_stop). A wait whose
 * notifications have arrived counts as done. */
void chain_lose(struct chain *chain, int error);
/* From now on, a start fails with the error at a wait whose notifications have not arrived, instead
 * of waiting. Puts before it are still posted. */
void chain_hurry(struct chain *chain, int error);

/* Whether the start has not got beyond its first step, a wait; and takes such a start back. */
bool chain_at_first_wait(const struct chain *chain);
void chain_unstart(struct chain *chain);

/* These report on the last or current start. */
uint32_t chain_retries(const struct chain *chain);
uint32_t chain_fault(const struct chain *chain); /* driver_op.fault of the error */
uint64_t chain_posted_ns(const struct chain *chain);
/* The most cables that one of its puts crossed. */
uint32_t chain_hops(const struct chain *chain);
/* waiting: it is at a wait step; for this line, NULL: it is not. idle: and nothing is in flight, so
 * only notifications can advance it. ready: and they have arrived, so chain_run() advances it. */
bool chain_waiting(const struct chain *chain);
const struct notify_line *chain_waits_for(const struct chain *chain);
bool chain_idle(const struct chain *chain);
bool chain_ready(const struct chain *chain);
/* Whether all steps of the current start have been posted or will not be posted. Then a later start
 * on the same channel cannot overtake it. */
bool chain_all_posted(const struct chain *chain);
