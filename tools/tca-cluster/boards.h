/*
 * The PEACH2 boards of an emulated cluster: a tca-peach2 for each node, cabled within the node's
 * sub-cluster as tca-peach2(1) says: a ring, or two rings that rungs join.
 */
#pragma once

#include "tools/tca-cluster/cluster.h"

enum { BOARDS_MAX = 16 }; /* in a sub-cluster */

/* Whether the boards of every sub-cluster can be cabled in this way. 0, or -EINVAL after an error
 * message. */
int boards_check(unsigned nodes, unsigned subclusters, unsigned rings);
/* The cabling: "ring of 5", "2 x 8", or several of these with commas. */
struct path boards_shape(const struct cluster *cluster);

/* Starts the board of one node, or of all, and waits until it can be reached. 0 or negative errno
 * after an error message; boards that were started keep running. */
int boards_start_one(const struct cluster *cluster, unsigned node);
int boards_start(const struct cluster *cluster);

/* The board of a node; pid 0 if it has none. */
struct process boards_process(const struct cluster *cluster, unsigned node);
