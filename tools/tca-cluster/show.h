/* What is known of a cluster that is up. */
#pragma once

#include <stdbool.h>

#include "tools/tca-cluster/cluster.h"

/* A table of its nodes, or a JSON document. The exit code: 0 all ready, 3 none runs, 5 in between.
 */
int show_status(const struct cluster *cluster, bool json);
/* Shell commands that make the programs of this shell use a node. */
void show_environment(const struct cluster *cluster, unsigned node);
