/*
 * Chains: steps that run in order, over any driver, in whichever seat. The client's library and the
 * daemon's engine both run plans by the functions below; only what a notification means differs
 * between them, and that is the token.
 *
 * A put step is posted when every earlier step of its chain has been posted and every earlier wait
 * is over. Two puts of a chain may be in flight at once; a notification is seen after the data of
 * every put before it in its chain: drivers that keep the order (caps.ordered) do that by
 * themselves, others are given a fence (the chain waits for what is in flight).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "drivers/driver.h"

enum chain_step_kind {
    CHAIN_PUT = 1,   /* data, a notification, or both: what one driver put does */
    CHAIN_WAIT = 2,  /* for a notification at the chain's owner */
    CHAIN_FLUSH = 3, /* until what is done of the puts to a peer has landed there */
    CHAIN_CALL = 4,  /* something of the owner's that takes its time: the put behind it, with a
                        fence, needs it */
};

struct chain_step {
    enum chain_step_kind kind;
    bool fence; /* but for WAIT: wait for the completion of all earlier puts first */
    /* PUT, WAIT: NULL, or true once what the step needs is gone; see chain_lose() */
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
            /* NULL, or what must be true besides: that the data of what has arrived is here, or
             * that nobody else is to have it. */
            bool (*may_take)(void *context, const struct chain_step *step);
            void *context;
            uint32_t rank;
        } wait;
        struct {
            struct driver *driver;
            struct driver_peer *peer;
        } flush;
        struct {
            int (*post)(void *context, struct driver_op *op); /* as a driver's put_post() */
            void *context;
        } call;
    };
};

struct chain;

/* A chain of its own copy of these steps; the puts stay the caller's and must outlive it. */
int chain_new(const struct chain_step *steps, uint32_t step_count, struct chain **ret_chain);
/* Not while it runs. NULL is fine; returns NULL. */
struct chain *chain_free(struct chain *chain);

/* Starts from the first step. -EBUSY while it runs. Runs as far as it can: like chain_run(). */
int chain_start(struct chain *chain);

/* Goes on: 1 complete, 0 not yet, negative: complete, failed with that error (once nothing of it is
 * in flight). */
int chain_run(struct chain *chain);

/*
 * Three ways to end a start early. None of them fails what was posted: a put that is in flight
 * completes as its driver says, and a start whose puts and waits are all behind it goes on to its
 * end and succeeds.
 */
/* Posts no more puts and ends waits: chain_run() returns the error once nothing is in flight. */
void chain_cancel(struct chain *chain, int error);
/* What some steps need is gone (chain_step.gone): the start fails with the error if one of them is
 * still ahead. A wait whose notifications have arrived counts as done. */
void chain_lose(struct chain *chain, int error);
/* Waits for nothing any more, now and in later starts: at a wait whose notifications have not
 * arrived, a start fails with the error. Puts before it are still posted. */
void chain_hurry(struct chain *chain, int error);

/* Of the last or current start. */
uint32_t chain_retries(const struct chain *chain);
uint32_t chain_fault(const struct chain *chain); /* driver_op.fault of what failed */
uint64_t chain_posted_ns(const struct chain *chain);
/* The most that a put of it crossed. */
uint32_t chain_hops(const struct chain *chain);
/* Whether it is at a wait step; whether nothing of it is in flight besides, so that only the
 * notifications can move it; whether they are there: then chain_run() would move it. */
bool chain_waiting(const struct chain *chain);
bool chain_waits_for(const struct chain *chain, const struct notify_line *line);
bool chain_idle(const struct chain *chain);
bool chain_ready(const struct chain *chain);
/* Whether every step of the current start was handed to its driver (or none will be any more): what
 * is started after it on the same channel cannot overtake it. */
bool chain_all_posted(const struct chain *chain);
