/*
 * A thread for what cannot wait until the program calls again, for it may be elsewhere, in a
 * barrier of MPI's, say, or in a loop that polls. Others put into memory of the program's own only
 * once this process has heard that they want to (tca_region_attach()); a store whose rail was lost
 * is to be sent again (stores.h). It sleeps while there is nothing of that.
 */
#pragma once

#include "client/compat/compat.h"

/* With the turn. Again: does nothing. */
tcaresult listen_begin(void);

/* With the turn, once it was begun: a store is under way. */
void listen_for_stores(void);
