/* Brings an emulated cluster up and down. */
#pragma once

#include "tools/tca-cluster/cluster.h"

enum up_boards {
    BOARDS_UNSAID, /* only for mpirun */
    BOARDS_NO,
    BOARDS_YES, /* a PEACH2 board for each node */
};

struct up_options {
    unsigned nodes, subclusters;
    bool plain;
    bool host_network; /* no private network */
    enum up_boards boards;
    unsigned rings;         /* of the boards; 0: chosen by the number of nodes */
    int timeout_s;          /* until all nodes are ready */
    char *const *overrides; /* "section.key=value" for every daemon; ends with NULL */
    bool owned;             /* up for the duration of this process */
};

/* 0 when every daemon is ready. On failure nothing is left running: -EEXIST: a cluster is up there
 * already; -EINVAL: the boards cannot be cabled in this way; -EINTR: ended by a signal. All after
 * an error message, except -EEXIST if owned, because a run then tries again. */
int cluster_up(const char *dir, const struct up_options *options, struct cluster *ret_cluster);

/* Ends the run that the cluster is up for, which takes the cluster down: call it without the lock,
 * which the run needs. Returns 1 if the run could not be ended, else 0. */
size_t cluster_end_owner(const struct cluster *cluster);
/* Ends the other runs and the daemons of a cluster in any state, and removes the directory. The
 * caller holds the lock. */
int cluster_down(const struct cluster *cluster);

/* Ends the daemon of a node in any state and starts it again with the same configuration; starts
 * its board again if that has ended. 0 when it is ready, or negative errno after an error message.
 * The caller holds the lock. */
int cluster_restart(const struct cluster *cluster, unsigned node, int timeout_s);

/* Sends SIGTERM, later SIGKILL. The number of processes left. */
size_t end_processes(const struct process *processes, size_t count, const char *what);
