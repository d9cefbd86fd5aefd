/* What the calibration says about moving data, by how far it goes: computed by hand. */
#include <criterion/criterion.h>
#include <math.h>

#include "daemon/rails/costs.h"
#include "daemon/rails/rails.h"

enum { NET = 2, OTHER = 3, BOARD = 4 };

static struct cost_table table;
static enum rail_leads leads[RAIL_SLOTS];

/* Of 64 KiB, and twice as much for each of 4 MiB. */
static void measured(unsigned rail, enum seat seat, double latency_ns, double kib_ns)
{
    struct cost_parameters *at = &table.rails[rail].at[seat];

    *at = (struct cost_parameters){.valid = true};
    for (unsigned size = 0; size < COST_SIZES; size++)
        at->put_ns[size] = latency_ns;
    at->put_ns[COST_64_KIB] += 64 * kib_ns;
    at->put_ns[COST_4_MIB] += 4096 * 2 * kib_ns;
}

static void expect(enum reach reach, struct reach_cost expected)
{
    struct reach_costs costs;

    costs_of_rails(&table, leads, &costs);
    cr_expect_eq(costs.at[reach].latency_ns, expected.latency_ns, "reach %d: latency %u", reach,
                 costs.at[reach].latency_ns);
    cr_expect_eq(costs.at[reach].overhead_ns, expected.overhead_ns, "reach %d: work %u", reach,
                 costs.at[reach].overhead_ns);
    cr_expect_eq(costs.at[reach].small_kib_ns, expected.small_kib_ns, "reach %d: short %u", reach,
                 costs.at[reach].small_kib_ns);
    cr_expect_eq(costs.at[reach].large_kib_ns, expected.large_kib_ns, "reach %d: long %u", reach,
                 costs.at[reach].large_kib_ns);
}

Test(costs, nothing_is_measured)
{
    leads[NET] = LEADS_EVERYWHERE;
    for (enum reach reach = REACH_NODE; reach < REACH_COUNT; reach++)
        expect(reach, (struct reach_cost){0});
}

/* A put passes a line between threads in the client's seat, two in the daemon's. */
Test(costs, within_the_node)
{
    measured(RAIL_SHM, SEAT_CLIENT, 110, 50);
    expect(REACH_NODE, (struct reach_cost){55, 55, 50, 100});
    expect(REACH_NODE_DAEMON, (struct reach_cost){0});
    measured(RAIL_SHM, SEAT_DAEMON, 160, 50);
    expect(REACH_NODE, (struct reach_cost){30 + 50, 30, 50, 100});
    expect(REACH_NODE_DAEMON, (struct reach_cost){160 - 30, 30, 50, 100});
    expect(REACH_CLUSTER, (struct reach_cost){0});
}

/* Each number of the rail where it is lowest; boards lead to the sub-cluster only. */
Test(costs, between_nodes)
{
    measured(NET, SEAT_DAEMON, 8000, 90);
    measured(OTHER, SEAT_DAEMON, 10000, 40);
    measured(BOARD, SEAT_DAEMON, 2000, 300);
    leads[NET] = LEADS_EVERYWHERE;
    leads[BOARD] = LEADS_SUBCLUSTER;
    expect(REACH_CLUSTER, (struct reach_cost){4000, 4000, 90, 180});
    expect(REACH_SUBCLUSTER, (struct reach_cost){1000, 1000, 90, 180});
    leads[OTHER] = LEADS_EVERYWHERE;
    expect(REACH_CLUSTER, (struct reach_cost){4000, 4000, 40, 80});
    expect(REACH_SUBCLUSTER, (struct reach_cost){1000, 1000, 40, 80});
}

Test(costs, numbers_of_a_file_that_was_edited)
{
    leads[NET] = LEADS_EVERYWHERE;
    measured(NET, SEAT_DAEMON, 1e12, 0);
    table.rails[NET].at[SEAT_DAEMON].put_ns[COST_4_MIB] = 1e300;
    expect(REACH_CLUSTER, (struct reach_cost){UINT32_MAX, UINT32_MAX, 1, UINT32_MAX});
}
