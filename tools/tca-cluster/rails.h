#pragma once

#include "tools/tca-cluster/run.h"

/* Prints which rail the ranks of an MPI run use between nodes, and why. */
void rails_say(const struct cluster *cluster, const struct run_options *options);
