#include "proto/costs.h"

static void raise_to(uint32_t *number, uint32_t other)
{
    if (*number < other)
        *number = other;
}

void reach_pack(const struct reach_costs *costs, struct reach_message *ret_message)
{
    for (unsigned reach = 0; reach < REACH_COUNT; reach++) {
        const struct reach_cost *from = &costs->at[reach];
        Tca__ReachCost *to = &ret_message->costs[reach];
        *to = (Tca__ReachCost)TCA__REACH_COST__INIT;
        to->latency_ns = from->latency_ns;
        to->overhead_ns = from->overhead_ns;
        to->small_kib_ns = from->small_kib_ns;
        to->large_kib_ns = from->large_kib_ns;
        ret_message->list[reach] = to;
    }
}

void reach_worsen(struct reach_costs *costs, size_t count, Tca__ReachCost *const *list)
{
    for (unsigned reach = 0; reach < count && reach < REACH_COUNT; reach++) {
        struct reach_cost *cost = &costs->at[reach];
        raise_to(&cost->latency_ns, list[reach]->latency_ns);
        raise_to(&cost->overhead_ns, list[reach]->overhead_ns);
        raise_to(&cost->small_kib_ns, list[reach]->small_kib_ns);
        raise_to(&cost->large_kib_ns, list[reach]->large_kib_ns);
    }
}
