/* The moves of a program, which each start performs before it starts the plan. */
#pragma once

#include "client/compat/program.h"

static inline bool moves_concern(const struct transfer *transfer)
{
    return transfer->source.device || transfer->target.device;
}

/* NULL: out of memory. */
struct move *moves_new(size_t count);
/* Adds descriptor `number` of the chain, whose source or target is device memory: a move, or a move
 * and a put. */
tcaresult moves_add(struct program *program, const struct transfers *chain, size_t number);
tcaresult moves_run(const struct program *program);
void moves_end(struct program *program);
