/* What the calibration says about moving data within the node, within the sub-cluster and beyond,
 * for the algorithms of collective operations. */
#pragma once

#include "drivers/cost.h"
#include "proto/costs.h"

struct tcad;

/* To which other nodes a rail leads. */
enum rail_leads {
    LEADS_NOWHERE = 0,
    LEADS_SUBCLUSTER = 1, /* to those of the sub-cluster only */
    LEADS_EVERYWHERE = 2,
};

/* Each number is that of the rail where it is lowest: the cost model chooses the rail for each put.
 * What was not measured is zero. */
void costs_of_rails(const struct cost_table *table, const enum rail_leads leads[static RAIL_SLOTS],
                    struct reach_costs *ret_costs);
/* Of this node, as it is calibrated now. */
void rails_costs(const struct tcad *tcad, struct reach_costs *ret_costs);
