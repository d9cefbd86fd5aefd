/* The DMA channels: what is loaded, what runs. */
#pragma once

#include "client/compat/program.h"

tcaresult channel_check(int channel);
/* In place of what the channel has; NULL: nothing. Takes over the reference. */
void channel_load(int channel, struct program *program);
/* If the program runs there, waits for its end; what it comes to is kept (channels_tell()). */
void channel_settle(int channel, const struct program *program);
void channels_empty(void);
