/*
 * The network of an emulated cluster: a private namespace with only a loopback interface, where no
 * other user of the machine can reach the ports of the daemons. It exists as long as a daemon of
 * the cluster does; a restarted daemon joins the others.
 */
#pragma once

#include "tools/tca-cluster/cluster.h"

/* 0 if this user can create such a namespace here; else a negative errno, with the reason in
 * ret_why. */
int network_possible(const char **ret_why);

/* Moves this process into the cluster's network. If no daemon runs, creates the network, or returns
 * -ESRCH if `create` is false. Does nothing if the cluster uses the machine's network. 0 or
 * negative errno. The process must have one thread. */
int network_enter(const struct cluster *cluster, bool create);
