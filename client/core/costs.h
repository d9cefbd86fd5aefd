/* What moving data costs, for modules of this library that are built on tca.h. */
#pragma once

#include "client/include/tca.h"
#include "proto/costs.h"

/* As the nodes of the session's group had measured it when the group was joined: the same at all
 * ranks. */
const struct reach_costs *session_costs(const struct tca *session);
