/* Puts of which each start chooses a part: tca_start_parts(). */
#pragma once

#include <stdint.h>

struct step;
struct tca_plan;
struct transfer;

/* At the commit: collects the plan's puts in parts, and reserves entries for them in the session's
 * segment. */
int parts_new(struct tca_plan *plan);
void parts_free(struct tca_plan *plan);
/* The index of the first in session_segment.parts. */
uint32_t parts_at(const struct tca_plan *plan);

/* This process runs the step by the put of this transfer. */
void parts_bind(struct tca_plan *plan, const struct step *step, const struct transfer *transfer);
/* The committed plan moves as much as both sides of each put have. */
void parts_whole(struct tca_plan *plan);
/* A start was made: adds what it moves to the totals that the daemon displays. */
void parts_count(struct tca_plan *plan);
