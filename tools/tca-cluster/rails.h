#pragma once

#include "tools/tca-cluster/run.h"

/* Says which rail the programs of an MPI run take between nodes, and why. */
void rails_say(const struct cluster *cluster, const struct run_options *options);
