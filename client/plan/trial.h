/*
 * Plans that tune themselves: the first starts of a plan try the copy modes of its puts in the
 * client's seat, and the fastest stay (tune.h). Puts between layouts of the same shape, over the
 * same distance, try together, wherever in memory these begin. The kinds of puts of a plan try one
 * after the other, so that a difference between two starts is due to one kind.
 *
 * Of the plans of a process that put alike, one tries and the others follow. In several processes,
 * such plans try the same mode in the same start if they are started equally often (tune.h).
 *
 * The next run uses what one has found without trials (client/core/wisdom.h).
 *
 * While a plan tries, its starts take the slow path of tca_start(). Afterwards nothing is measured
 * until the distance to a receiver has changed.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/plan/tune.h"
#include "proto/tca.pb-c.h"

struct copy_mode;
struct driver_put;
struct lane;
struct tca;
struct tca_plan;

/* What trials of copy modes and of routes (trial_route.h) need of others, and do. */
struct trial_effects {
    uint64_t (*now_ns)(void);
    /* The distance to the lane's receiver. */
    void (*probe)(struct lane *lane);
    void (*set_mode)(struct driver_put *put, const struct copy_mode *mode);
    /* False: tcad cannot be told now. */
    bool (*tell)(struct tca_plan *plan, const Tca__PlanTry *request);
    /* Whether all that the plan has put over pairs until flush() has landed. */
    void (*flush)(struct tca_plan *plan);
    bool (*flushed)(struct tca_plan *plan);
    /* Makes chains over pairs, beside those that tcad runs; and gives them up. */
    int (*bind)(struct tca_plan *plan, const Tca__PlanCommitted *committed);
    void (*drop)(struct tca_plan *plan);
};
extern const struct trial_effects trial_effects;

/* Turns PLAN_TRIES on or off: with it, each start calls trial_route_start() or trial_start(). Off,
 * another plan of the session may try. */
void trial_set_tries(struct tca_plan *plan, bool on);

/* The user's wisdom, read when the first plan needs it; NULL: no memory. A file that cannot be used
 * counts as empty: tcactl wisdom says why. */
struct wisdom *trial_wisdom(struct tca *session);

/* Call after a commit. Begins trials if there are modes to try. Without memory, the plan copies as
 * predicted. */
void trial_begin(struct tca_plan *plan);
/* Call at each start of a plan with PLAN_TRIES. */
void trial_start(struct tca_plan *plan);
/* Frees plan->trial; NULL is a no-op. */
void trial_end(struct tca_plan *plan);

/* The session ends: adds what its plans have found to the user's wisdom, unless this process is a
 * forked child. */
void trials_keep(struct tca *session);

/* Call from time to time, off the fast path: begins new trials of plans whose receivers have moved
 * to nearer or farther processors, unless the fastest mode at the new distance is known. */
void trials_review(struct tca *session);

/* ---- for tcactl plan explain ---- */

enum { TRIAL_KINDS_MAX = 8 }; /* of a plan */

/* What a kind has tried, in the session's segment: candidates of its trial, as in struct trial_line
 * (proto/segment.h). */
struct trial_shown {
    const struct tune *tune;
    uint32_t first; /* the first put or chain of the kind */
    unsigned count, choice;
    const uint32_t *modes;
};
void trial_lines_show(const struct tca_plan *plan, uint32_t kind, const struct trial_shown *shown);
/* All of the plan. */
void trial_lines_hide(const struct tca_plan *plan);
