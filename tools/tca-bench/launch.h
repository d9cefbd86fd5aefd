/* launch: for who has no job at hand: an emulated cluster. */
#pragma once

#include <stdbool.h>

/* Whether tca-cluster run, mpirun or srun started this process. */
bool launched(void);

/*
 * Runs this program with these arguments under tca-cluster, once with both ranks on one node and
 * once with one on each of two; with boards only the latter. Returns an exit status.
 */
int launch(char **argv, bool boards);
