/*
 * An emulated cluster is a directory:
 *
 *   state             struct cluster, as text
 *   cluster.conf      the nodes, for the daemons
 *   cluster.key       their key (0600), when they use TLS
 *   overrides         -o of every daemon, for restart
 *   calibration       the measured costs of the rails, by the first node
 *   nodeN/            runtime directory of node N: tcad.conf, tcad.sock, tcad.log, pid, state/;
 *                     with boards peach2.sock, peach2.log, peach2.pid
 *   run.PID           a tca-cluster run that uses the cluster
 * up and down lock the directory itself, so that no lock file is left when they remove it.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>

#include "tools/tca-cluster/process.h"

enum { CLUSTER_NODES_LIMIT = 1024 };

struct cluster {
    char dir[PATH_MAX];
    unsigned nodes, subclusters;
    bool plain;
    bool private_network; /* see network.h; else the machine's network */
    bool boards;          /* a PEACH2 board for each node */
    unsigned rings;       /* of the boards; 0: chosen by the number of nodes */
    struct process owner; /* the run that the cluster ends with; pid 0: none */
};

struct path {
    char text[PATH_MAX + 64]; /* a directory and the longest name in it */
};

/* DIR/NAME and DIR/nodeN/NAME ("" for the directory itself). */
struct path cluster_path(const char *dir, const char *name);
struct path cluster_node_path(const char *dir, unsigned node, const char *name);

/* The directory to use: the argument, TCA_CLUSTER_DIR, or the user's default. Absolute; need not
 * exist. 0 or negative errno after an error message. */
int cluster_directory(const char *argument, char ret_dir[static PATH_MAX]);

/* Locks the directory, which is created if `create`; waits for the lock. A descriptor; -ENOENT: no
 * directory (no error message), or another negative errno after an error message. */
int cluster_lock(const char *dir, bool create);

/* 0; -ENOENT: no cluster there (no error message); or another negative errno after a message. */
int cluster_load(const char *dir, struct cluster *ret_cluster);
int cluster_save(const struct cluster *cluster);

/* The daemon of a node; pid 0 if it has none. */
struct process cluster_daemon(const struct cluster *cluster, unsigned node);
/* The number of daemons that have not ended. */
unsigned cluster_alive(const struct cluster *cluster);

/* Removes the cluster's files from the directory, and the directory unless it contains others. */
int cluster_remove(const char *dir);
