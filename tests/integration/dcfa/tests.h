/* The tests of this program: each runs in all ranks. */
#pragma once

#include "tests/integration/dcfa/world.h"

enum { HALF = MEMORY_BYTES / 2 }; /* rank 0 uses the peer's first half, rank 1 the second */

void expect(struct dcfa_completion completion, enum dcfa_result result);
/* Between ranks 0 and 1. */
void writes_and_reads(struct world *world);

void completions(struct world *world);
void errors(struct world *world);
void commands(struct world *world);
void fair(struct world *world);
void measure(struct world *world);
