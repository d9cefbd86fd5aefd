/* Networks without switches: whose boards and cables they consist of, and where they lead now. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "drivers/driver.h"

struct tcad;

/* Whether both nodes are in one sub-cluster. */
bool fabric_shared(const struct tcad *tcad, uint32_t node);
/* Whether a way of the rail leads to the node, as far as is known; true for rails that know nothing
 * of cables. */
bool fabric_reaches(const struct tcad *tcad, enum rail rail, uint32_t node);
/* Cables on the way to the node; 0: none, or the rail knows nothing of cables. */
unsigned fabric_hops(const struct tcad *tcad, enum rail rail, uint32_t node);
/* A node at the other end of one of the own board's cables, -1: none is in, or the rail knows
 * nothing of cables. */
int fabric_neighbour(const struct tcad *tcad, enum rail rail);
/* Whether the own board stands where the cluster file says; 0, or -EPROTO and a text. */
int fabric_check(const struct tcad *tcad, char *text, size_t text_bytes);
/* Names of the nodes of the own sub-cluster that no way of the rail leads to now. */
json_t *fabric_cut_off(const struct tcad *tcad, enum rail rail);
/* All of them, for tcactl topology. */
json_t *fabric_document(const struct tcad *tcad);
