/*
 * Others put into memory of the program's own only once this process has heard that they want to
 * (tca_region_attach()): a thread hears of that while the program is elsewhere, in a barrier of
 * MPI's, say. It sleeps otherwise.
 */
#pragma once

#include "client/compat/compat.h"

/* With the turn. Again: does nothing. */
tcaresult listen_begin(void);
