/* The moves of a program: what its start does with device memory before its plan. */
#pragma once

#include "client/compat/program.h"

static inline bool moves_concern(const struct transfer *transfer)
{
    return transfer->source.device || transfer->target.device;
}

/* Room for so many. NULL: no memory. */
struct move *moves_new(size_t count);
/* Descriptor `number` of the chain, which concerns device memory: as a move, or as one and a put.
 */
tcaresult moves_add(struct program *program, const struct transfers *chain, size_t number);
tcaresult moves_run(const struct program *program);
void moves_end(struct program *program);
