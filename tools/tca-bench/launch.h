/* Starts the ranks on an emulated cluster. */
#pragma once

#include <stdbool.h>

/* Whether tca-cluster run, mpirun or srun started this process. */
bool launched(void);

/*
 * Runs this program with these arguments under tca-cluster, once with both ranks on one node and
 * once with one rank on each of two nodes; with boards, only on two nodes. Returns an exit status.
 */
int launch(char **argv, bool boards);
