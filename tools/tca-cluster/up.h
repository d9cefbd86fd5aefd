/* Bringing an emulated cluster up, and down. */
#pragma once

#include "tools/tca-cluster/cluster.h"

enum up_boards {
    BOARDS_UNSAID, /* none, but for mpirun */
    BOARDS_NO,
    BOARDS_YES, /* a PEACH2 board for each node */
};

struct up_options {
    unsigned nodes, subclusters;
    bool plain;
    bool host_network; /* no namespace of its own */
    enum up_boards boards;
    unsigned rings;         /* that they are cabled as; 0: as the number of nodes suggests */
    int timeout_s;          /* for all nodes to be ready */
    char *const *overrides; /* "section.key=value" for every daemon; NULL at the end */
    bool owned;             /* by this process: up for its duration */
};

/* 0 when every daemon has said that it is ready. Else nothing is left running; -EEXIST: a cluster
 * is up there already; -EINVAL: boards cannot be cabled so; -EINTR: a signal has ended it. All
 * after a complaint, but -EEXIST when owned: whoever wants a cluster for a run looks again. */
int cluster_up(const char *dir, const struct up_options *options, struct cluster *ret_cluster);

/* Ends the runs and daemons of a cluster, whatever state they are in, and removes the directory.
 * The caller has the lock. */
int cluster_down(const struct cluster *cluster);

/* Ends the daemon of a node, whatever its state, and starts it again as it was started first; its
 * board, too, if that has ended. 0 when it is ready, or negative errno after a complaint. The
 * caller has the lock. */
int cluster_restart(const struct cluster *cluster, unsigned node, int timeout_s);

/* Asks processes to end, then makes them. How many are left. */
size_t end_processes(const struct process *processes, size_t count, const char *what);
