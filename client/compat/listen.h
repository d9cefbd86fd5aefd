/*
 * A thread for work that cannot wait for the program's next call, because the program may be in an
 * MPI barrier or a polling loop: a store whose rail was lost must be sent again (stores.h). The
 * thread sleeps while there is no such work.
 */
#pragma once

#include "client/compat/compat.h"

/* Starts the thread unless it runs. The caller has the turn. */
tcaresult listen_begin(void);

/* A store is in flight. The thread runs, and the caller has the turn. */
void listen_for_stores(void);
