/*
 * The cluster file: the nodes of a cluster.
 *
 *   cluster = hapacs
 *   node[1-4] id=1-4 address=10.0.0.[1-4]:7080 subcluster=a
 *   node7 id=7 address=[2001:db8::7]:7080 subcluster=b
 *   emulated[0-3] address=127.0.0.1:[7001-7004]
 *
 * A line names one node or a hostlist; id and address are then hostlists of the same length.
 * Defaults: id is the node's position in the file, from 0; address is the name, port 7080;
 * subcluster is "main".
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/errors.h"

enum { CLUSTER_NODES_MAX = 1 << 17 };

struct cluster_node {
    uint32_t id; /* below CLUSTER_NODES_MAX */
    uint16_t port;
    unsigned line; /* in the cluster file; 0: made by cluster_single() */
    char *name;
    char *address;          /* numeric or a host name; IPv6 without brackets */
    char *subcluster;       /* nodes with the same one share a low-latency network */
    uint32_t subcluster_id; /* lowest id of a node of the sub-cluster */
};

struct cluster {
    char *name;
    struct cluster_node *nodes; /* ordered by id; names, ids and addresses with port are unique */
    size_t count;
    struct cluster_node **by_name; /* ordered by name */
    /* Of all of it: equal for files that say the same, whatever their order, comments and
     * hostlists. */
    uint64_t digest;
};

/* 0, -ENOMEM, or -EINVAL with all errors in errors. A file without nodes is an error. */
int cluster_load(const char *path, struct cluster **ret_cluster, struct config_errors *errors);
/* The same for text in memory; file: its name in errors. */
int cluster_parse(const char *file, const char *text, size_t bytes, struct cluster **ret_cluster,
                  struct config_errors *errors);
/* A cluster of one node, with the node's name. address "": no other daemon can connect (then port
 * is 0). 0 or -ENOMEM. */
int cluster_single(uint32_t id, const char *name, const char *address, uint16_t port,
                   struct cluster **ret_cluster);
struct cluster *cluster_free(struct cluster *cluster);

/* NULL: no such node. */
const struct cluster_node *cluster_by_id(const struct cluster *cluster, uint32_t id);
const struct cluster_node *cluster_by_name(const struct cluster *cluster, const char *name);

/* All names as a hostlist, from malloc; NULL: out of memory. */
char *cluster_fold(const struct cluster *cluster);

enum cluster_change_kind {
    CLUSTER_ADDED,   /* before is NULL */
    CLUSTER_REMOVED, /* after is NULL */
    CLUSTER_MOVED,   /* the same id and name at another address, or in another sub-cluster */
};

struct cluster_change {
    enum cluster_change_kind kind;
    const struct cluster_node *before, *after; /* in the clusters compared */
};

/* The changes, ordered by id; an id with a new name counts as a removed and an added node. 0 and a
 * list from malloc (NULL if empty), or -ENOMEM. */
int cluster_diff(const struct cluster *before, const struct cluster *after,
                 struct cluster_change **ret_changes, size_t *ret_count);
