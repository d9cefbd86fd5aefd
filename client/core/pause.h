/* Waiting for a store to memory, without a wake-up. */
#pragma once

#include <stdint.h>

/* As tca_pause() of this round, but for its sleep: returns how long it is to be, 0: not at all. */
uint64_t pause_step(uint64_t round);
