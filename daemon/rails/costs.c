#include "daemon/rails/costs.h"

#include "daemon/engine/engine.h"
#include "daemon/rails/rails.h"
#include "daemon/tcad.h"

/* Of hostile or broken files too. */
static uint32_t whole(double ns)
{
    return ns < 1 ? (uint32_t)(ns > 0.5) : ns < UINT32_MAX ? (uint32_t)(ns + 0.5) : UINT32_MAX;
}

static uint32_t kib_ns(double byte_ns)
{
    const uint32_t ns = whole(1024 * byte_ns);
    return ns ? ns : 1;
}

/* way_ns of the latency is not work, but the way from thread to thread. Half of the work is assumed
 * to be the sender's. */
static struct reach_cost cost_of(const struct cost_parameters *parameters, double way_ns)
{
    const double latency_ns = cost_latency_ns(parameters),
                 work_ns = latency_ns > way_ns ? (latency_ns - way_ns) / 2 : 0;
    return (struct reach_cost){
        .latency_ns = whole(latency_ns - work_ns),
        .overhead_ns = whole(work_ns),
        .small_kib_ns = kib_ns(cost_byte_ns(parameters, COST_64_KIB)),
        .large_kib_ns = kib_ns(cost_byte_ns(parameters, COST_4_MIB)),
    };
}

static void lower_to(uint32_t *number, uint32_t other)
{
    if (*number > other)
        *number = other;
}

static void improve(struct reach_cost *best, const struct reach_cost *cost)
{
    if (!reach_is_measured(best)) {
        *best = *cost;
        return;
    }
    lower_to(&best->latency_ns, cost->latency_ns);
    lower_to(&best->overhead_ns, cost->overhead_ns);
    lower_to(&best->small_kib_ns, cost->small_kib_ns);
    lower_to(&best->large_kib_ns, cost->large_kib_ns);
}

void costs_of_rails(const struct cost_table *table, const enum rail_leads leads[static RAIL_SLOTS],
                    struct reach_costs *ret_costs)
{
    const struct cost_parameters *here = table->rails[RAIL_SHM].at;
    const bool both = here[SEAT_CLIENT].valid && here[SEAT_DAEMON].valid;
    /* to the engine, and from there to the other process: twice the way between processes */
    double way_ns =
        both ? 2 * (cost_latency_ns(&here[SEAT_DAEMON]) - cost_latency_ns(&here[SEAT_CLIENT])) : 0;

    *ret_costs = (struct reach_costs){0};
    way_ns = way_ns > 0 ? way_ns : 0;
    if (here[SEAT_CLIENT].valid)
        ret_costs->at[REACH_NODE] = cost_of(&here[SEAT_CLIENT], way_ns / 2);
    if (here[SEAT_DAEMON].valid)
        ret_costs->at[REACH_NODE_DAEMON] = cost_of(&here[SEAT_DAEMON], way_ns);
    for (unsigned rail = 1; rail < RAIL_SLOTS; rail++) {
        const struct cost_parameters *there = &table->rails[rail].at[SEAT_DAEMON];
        if (leads[rail] == LEADS_NOWHERE || !there->valid)
            continue;
        const struct reach_cost cost = cost_of(there, way_ns);
        improve(&ret_costs->at[REACH_SUBCLUSTER], &cost);
        if (leads[rail] == LEADS_EVERYWHERE)
            improve(&ret_costs->at[REACH_CLUSTER], &cost);
    }
}

void rails_costs(const struct tcad *tcad, struct reach_costs *ret_costs)
{
    enum rail_leads leads[RAIL_SLOTS] = {LEADS_NOWHERE};
    for (unsigned rail = 1; tcad->calibrated && rail <= tcad->rails->last; rail++) {
        const struct driver_caps *caps = engine_driver_caps(tcad->engine, rail);
        if (caps && caps->other_nodes)
            leads[rail] = caps->subcluster ? LEADS_SUBCLUSTER : LEADS_EVERYWHERE;
    }
    costs_of_rails(&tcad->costs, leads, ret_costs);
}
