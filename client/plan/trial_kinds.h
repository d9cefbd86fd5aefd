/* The puts of a plan that try copy modes together (trial.h): those between layouts of the same shape, over the same
 * distance. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "drivers/shm/ways.h"

struct lane;
struct step;
struct tca_plan;
struct tune;
struct wisdom;

struct kind {
    const struct step *step; /* of the first one */
    uint32_t unit;           /* the first one */
    struct lane *lane;       /* to its receiver */
    uint64_t key[2];         /* in wisdom */
    unsigned distance;       /* class of the distance */
    unsigned mode_count;
    unsigned choice; /* index in modes: the predicted, the known or the found one */
    bool known;      /* a trial has found it, in this run or an earlier one */
    struct copy_mode modes[COPY_MODES_MAX];
};

/* Sorts the puts into at most `room` kinds, and numbers them in unit->kind; puts of further kinds have the number
 * `room`. Returns how many kinds there are. */
uint32_t kinds_find(struct tca_plan *plan, struct kind *ret_kinds, uint32_t room);
/* Whether they would try the same. */
bool kinds_alike(const struct kind *a, const struct kind *b);
/* The distance to its receiver has changed since. */
bool kind_has_moved(const struct kind *kind);

/* Whether an earlier trial, which would try the same modes now, has found the mode: then it is the choice. */
bool kind_is_known(struct kind *kind, const struct wisdom *wisdom);
/* Its trial has ended: remembers the choice; and for tcactl plan explain, as the kind with this number. */
void kind_note(const struct kind *kind, const struct tune *tune, struct wisdom *wisdom);
void kind_show(const struct kind *kind, const struct tune *tune, const struct tca_plan *plan,
               uint32_t number);
