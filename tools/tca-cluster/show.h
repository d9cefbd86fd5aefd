/* Shows a cluster that is up. */
#pragma once

#include <stdbool.h>

#include "tools/tca-cluster/cluster.h"

/* Prints its nodes as a table or a JSON document. The exit code: 0 all are ready, 3 none runs, 5 in
 * between. */
int show_status(const struct cluster *cluster, bool json);
/* Prints shell commands that select a node for the programs of this shell. */
void show_environment(const struct cluster *cluster, unsigned node);
