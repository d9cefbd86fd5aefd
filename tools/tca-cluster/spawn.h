/* Starts the daemon of a node, and its board. */
#pragma once

#include "tools/tca-cluster/cluster.h"

/* Starts the daemon in its own session, with output in tcad.log. It ends with this process if the
 * cluster is up for this process only. The pid file exists before this returns, so that down finds
 * the daemon. The pid, or negative errno after an error message. */
pid_t spawn_daemon(const struct cluster *cluster, unsigned node, const char *tcad,
                   char *const *overrides);
/* The same for a board, with peach2.log and peach2.pid. */
pid_t spawn_board(const struct cluster *cluster, unsigned node, const char *const *command);
