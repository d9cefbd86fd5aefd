/* The first question of every connection. */
#pragma once

#include "client/core/control.h"
#include "drivers/shm/ways.h"

/* group_size 0: for administration. name NULL: the program's. The answer is a Welcome of our
 * version. */
int hello_ask(struct control *control, const char *name, uint32_t group_size, uint64_t end_ns,
              struct answer *ret_answer);

/* What the daemon has measured of the ways of copying; the defaults where it says nothing, or
 * nonsense. */
struct way_costs hello_way_costs(const Tca__Welcome *welcome);
