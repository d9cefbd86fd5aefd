/* Shared by the cluster*.c files only. */
#pragma once

#include "config/cluster.h"

#define CLUSTER_SUBCLUSTER_DEFAULT "main"

/* Orders the nodes and builds the index. 0 or -ENOMEM. */
int cluster_index(struct cluster *cluster);
