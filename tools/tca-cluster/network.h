/*
 * The network of an emulated cluster: a namespace of its own with nothing but a loopback, so that
 * no other user of the machine reaches the ports of its daemons. Nobody keeps it: it lives as long
 * as a daemon of the cluster does, and a daemon that is started again joins those that live.
 */
#pragma once

#include "tools/tca-cluster/cluster.h"

/* Whether this user may make such a namespace here; else -errno, and ret_why says what for. */
int network_possible(const char **ret_why);

/* Moves this process into the cluster's network, which is made when no daemon lives, or fails with
 * -ESRCH if `create` is false. Nothing is done when the cluster uses the host's. 0 or negative
 * errno. The process must have one thread. */
int network_enter(const struct cluster *cluster, bool create);
