/* Attacks of dcfa-hostile, which end with NULL. Each runs in a processor of its own. */
#pragma once

#include "tests/integration/dcfa/world.h"

uint64_t hostile_random(void);
void hostile_scribble(void *at, size_t bytes);

extern void (*const hostile_direct[])(struct world *);
