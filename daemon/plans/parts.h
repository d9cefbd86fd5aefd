/* Puts of which each start moves a part (struct tca_part of tca.h). */
#pragma once

#include "daemon/plans/plan_internal.h"

/* PARSING: checks the two sides of a put, which are equally long unless a start chooses parts. */
int parts_check_put(struct plan *plan, uint32_t step, const Tca__Put *put,
                    struct plan_transfer *transfer);
/* What the starts have moved of a put in parts: as the client counts it, but at most all that so
 * many starts can move. */
uint64_t parts_moved(const struct plan *plan, const struct plan_transfer *transfer);
/* What so many starts, those of plan_starts(), have moved of all puts. */
uint64_t parts_moved_all(const struct plan *plan, uint64_t starts);
/* PREPARING, in the engine's thread: tells the engine which puts move parts. */
int parts_prepare(struct plan *plan);
