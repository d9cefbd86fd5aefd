/*
 * tcaInit() meets the other processes of the job. On a thread of its own, for there are programs in
 * which one process after another calls it, a barrier of MPI's between them: whoever has waited a
 * while lets its program go on. The thread has the turn meanwhile (turn.h), so that the next call
 * waits until all have met.
 */
#pragma once

#include "client/compat/compat.h"

/* Runs begin() until it has succeeded, once. Its result; TCA_SUCCESS, too, when it takes long. */
tcaresult meet_others(tcaresult (*begin)(void));

/* In a call that finds no session: tells why begin() failed after its caller had gone on, or that
 * nobody has called tcaInit(). */
tcaresult meet_missing(void);
