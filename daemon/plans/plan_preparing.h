/* Between plan_prepare.c and plan_chain.c: a plan whose chains are being made, on the engine's thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/plans/plan_internal.h"
#include "drivers/chain.h"

/* Puts that an ordered put could overtake. */
struct loose {
    uint32_t first;          /* step of the chain */
    const struct link *link; /* of one of them; NULL: none */
    bool several;            /* over several links */
    bool gathered;           /* some are gathered, so later puts can overtake them */
};

struct plan_preparing {
    struct plan *plan;
    struct copy_program **programs; /* of its puts between long layouts; NULL: it has none */
    void (*compiled)(struct plan_preparing *preparing);
    uint32_t chain, made; /* the next of the plan's chains, and of those that the daemon runs */
    const struct plan_chain *from; /* the chain that is being made; NULL: none */
    uint32_t next;                 /* its next step */
    bool ordered;                  /* the rail's driver: engine_driver_caps() */
    const struct plan_unit *own;   /* the last put into memory of its own session; NULL: none */
    struct chain_step *steps;
    uint32_t count, room;    /* of steps */
    struct chain *new_chain; /* to which these are copied; NULL: not yet */
    uint32_t copied;
    int error;          /* -ENOMEM */
    struct loose loose; /* puts that an ordered one could still overtake */
    uint32_t flushed;   /* step of the chain; earlier puts are complete remotely */
    bool flushing;      /* once the flushes are, which no put has awaited yet */
    bool striped;       /* some puts go over several rails (plan_stripe.h) */
};

/* plan_compile.c: compiles puts between long layouts on the worker, because that cannot be done in slices, and
 * calls done() on the loop's thread. Returns false if there is nothing to do, or it cannot be done (out of
 * memory): put_prepare() compiles what is missing. */
bool plan_compile(struct plan_preparing *preparing, void (*done)(struct plan_preparing *preparing));
void plan_compile_free(struct plan_preparing *preparing);

/* Adds a step of the chain. 0 or a negative errno with plan->attempt.text. */
int plan_prepare_step(struct plan_preparing *preparing, uint32_t step);
/* Adds the end of the chain. When a start is complete, what it has put into memory of its own session must be visible,
 * also to other starts. */
void plan_prepare_end(struct plan_preparing *preparing);
