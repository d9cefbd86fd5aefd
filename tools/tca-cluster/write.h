/* Writes the files that the daemons of an emulated cluster read. */
#pragma once

#include "tools/tca-cluster/cluster.h"

/* Writes the key, cluster.conf with free ports on the loopback, and a directory with a tcad.conf
 * for every node. 0 or negative errno after an error message. */
int write_files(const struct cluster *cluster);

/* Writes and reads the overrides of the daemons, which restart needs. 0 or negative errno after an
 * error message; the list ends with NULL and is freed by free_overrides(). */
int write_overrides(const struct cluster *cluster, char *const *overrides);
int read_overrides(const struct cluster *cluster, char ***ret_overrides);
void free_overrides(char **overrides);
