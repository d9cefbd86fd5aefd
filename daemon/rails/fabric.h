/* Networks without switches: their boards and cables, and which nodes they reach. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "drivers/driver.h"

struct tcad;

/* Whether both nodes are in one sub-cluster. */
bool fabric_shared(const struct tcad *tcad, uint32_t node);
/* Whether the rail has a route to the node, as far as known; true for rails with switches. */
bool fabric_reaches(const struct tcad *tcad, unsigned rail, uint32_t node);
/* Number of cables on the route to the node; 0: none, or a rail with switches. */
unsigned fabric_hops(const struct tcad *tcad, unsigned rail, uint32_t node);
/* A node that is connected to this node's board by one cable; -1: none, or a rail with switches. */
int fabric_neighbour(const struct tcad *tcad, unsigned rail);
/* Checks that this node's board has the position given by the cluster file. 0, or -EPROTO and
 * text. */
int fabric_check(const struct tcad *tcad, char *text, size_t text_bytes);
/* Names of the nodes of this sub-cluster that the rail does not reach now. */
json_t *fabric_cut_off(const struct tcad *tcad, unsigned rail);
/* All networks, for tcactl topology. */
json_t *fabric_document(const struct tcad *tcad);
