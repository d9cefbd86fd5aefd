/* The files that the daemons of an emulated cluster read. */
#pragma once

#include "tools/tca-cluster/cluster.h"

/* Key, cluster.conf with free ports on the loopback, and a directory with a tcad.conf for every
 * node. 0 or negative errno after a complaint. */
int write_files(const struct cluster *cluster);

/* The overrides that daemons are started with, kept for a restart. 0 or negative errno after a
 * complaint; the list ends with NULL and is freed by free_overrides(). */
int write_overrides(const struct cluster *cluster, char *const *overrides);
int read_overrides(const struct cluster *cluster, char ***ret_overrides);
void free_overrides(char **overrides);
