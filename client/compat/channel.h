/* The DMA channels. */
#pragma once

#include "client/compat/program.h"

tcaresult channel_check(int channel);
/* Replaces the channel's program (NULL: empties it). Takes over the reference. */
void channel_load(int channel, struct program *program);
/* If the program is running in the channel, waits for its end. The result is kept:
 * channels_tell(). */
void channel_finish(int channel, const struct program *program);
void channels_empty(void);
