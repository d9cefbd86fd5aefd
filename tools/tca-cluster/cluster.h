/*
 * An emulated cluster is a directory:
 *
 *   state             what struct cluster says, as text
 *   cluster.conf      the nodes, for the daemons
 *   cluster.key       their key (0600), when they use TLS
 *   overrides         -o of every daemon, for restart
 *   calibration       what the rails were measured to do, by the first node
 *   nodeN/            runtime directory of node N: tcad.conf, tcad.sock, tcad.log, pid, state/;
 *                     with boards peach2.sock, peach2.log, peach2.pid
 *   run.PID           a tca-cluster run that uses it
 *
 * The directory (its inode) is what up and down lock, so that nothing is left when it goes.
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
    bool private_network; /* see network.h; else the host's */
    bool boards;          /* a PEACH2 board for each node, */
    unsigned rings;       /* cabled as so many rings; 0: as the number of nodes suggests */
    struct process owner; /* the run for whose duration it is up; pid 0: none */
};

struct path {
    char text[PATH_MAX + 64]; /* a directory and the longest of our names */
};

/* DIR/NAME and DIR/nodeN/NAME ("" for the directory itself). */
struct path cluster_path(const char *dir, const char *name);
struct path cluster_node_path(const char *dir, unsigned node, const char *name);

/* The directory to use: the argument, TCA_CLUSTER_DIR, or the user's. Absolute; need not exist. 0
 * or negative errno after a complaint. */
int cluster_directory(const char *argument, char ret_dir[static PATH_MAX]);

/* Locks the directory, made when `create`; waits for whoever has it. A descriptor; -ENOENT: there
 * is none (no complaint), or negative errno after a complaint. */
int cluster_lock(const char *dir, bool create);

/* 0; -ENOENT: no cluster there (no complaint); or negative errno after a complaint. */
int cluster_load(const char *dir, struct cluster *ret_cluster);
int cluster_save(const struct cluster *cluster);

/* The daemon of a node; pid 0 when it has none. */
struct process cluster_daemon(const struct cluster *cluster, unsigned node);
/* How many daemons have not ended. */
unsigned cluster_alive(const struct cluster *cluster);

/* Removes all that a cluster consists of from the directory, and the directory unless something
 * else is in it. */
int cluster_remove(const char *dir);
