/* Starting the daemon of a node, and its board. */
#pragma once

#include "tools/tca-cluster/cluster.h"

/* Starts it in a session of its own, its output in tcad.log; it ends with this process when the
 * cluster is up for this process only. By the return its pid is on file, so whoever takes the
 * cluster down finds it. The pid, or negative errno after a complaint. */
pid_t spawn_daemon(const struct cluster *cluster, unsigned node, const char *tcad,
                   char *const *overrides);
/* The same for a board: its output in peach2.log, its pid in peach2.pid. */
pid_t spawn_board(const struct cluster *cluster, unsigned node, const char *const *command);
