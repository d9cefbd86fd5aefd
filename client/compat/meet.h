/*
 * tcaInit() waits for the other processes of the job, in a thread of its own: in some programs one
 * process after another calls it, with an MPI barrier between the calls. After a while, tcaInit()
 * returns although others are missing. The thread keeps the turn (turn.h), so the next call of the
 * API waits until all processes have called tcaInit().
 */
#pragma once

#include "client/compat/compat.h"

/* Runs begin() unless it has already succeeded. Returns its result, or TCA_SUCCESS if it takes
 * long. */
tcaresult meet_others(tcaresult (*begin)(void));

/* For a call that finds no session: the error of a begin() that failed after meet_others() had
 * returned, or that tcaInit() was not called. */
tcaresult meet_missing(void);
