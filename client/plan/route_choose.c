#include "client/plan/route_choose.h"

static enum route_order end(struct route_choose *choose, bool found, unsigned route)
{
    choose->state = ROUTE_OVER;
    choose->found = found;
    choose->route = route;
    return ROUTE_END;
}

enum route_order route_choose_begin(struct route_choose *choose, unsigned routes,
                                    unsigned favourite, uint64_t seed)
{
    *choose = (struct route_choose){.state = ROUTE_MOVES};
    tune_init(&choose->tune, routes, favourite, TUNE_STRETCH_MAX, seed);
    choose->route = tune_candidate(&choose->tune);
    return ROUTE_TAKE;
}

enum route_order route_choose_begin_here(struct route_choose *choose, unsigned favourite,
                                         uint64_t seed)
{
    route_choose_begin(choose, 2, favourite, seed);
    choose->tune.order[0] = (uint8_t)favourite;
    choose->tune.order[1] = (uint8_t)!favourite;
    choose->route = favourite;
    return ROUTE_TAKE;
}

void route_choose_only(struct route_choose *choose, unsigned from, unsigned to)
{
    *choose = (struct route_choose){.state = ROUTE_DRAINS, .route = from};
    tune_init(&choose->tune, 1, to, TUNE_STRETCH_MAX, 0);
}

void route_choose_give_up(struct route_choose *choose, unsigned route)
{
    end(choose, false, route);
}

enum route_order route_choose_start(struct route_choose *choose, uint64_t now_ns)
{
    if (choose->state != ROUTE_RUNS)
        return ROUTE_GO_ON;
    if (!tune_over(&choose->tune)) {
        tune_start(&choose->tune, now_ns);
        return ROUTE_GO_ON;
    }
    choose->ended_ns = now_ns;
    choose->late = 0;
    choose->state = ROUTE_DRAINS;
    return ROUTE_DRAIN;
}

enum route_order route_choose_arrived(struct route_choose *choose, uint64_t late_ns)
{
    if (choose->state != ROUTE_DRAINS)
        return ROUTE_GO_ON;
    const bool tried = !tune_settled(&choose->tune);
    if (tried)
        tune_end(&choose->tune, choose->ended_ns, late_ns);
    const unsigned next = tune_candidate(&choose->tune);
    if (tune_settled(&choose->tune))
        return end(choose, tried, next);
    choose->state = next == choose->route ? ROUTE_RUNS : ROUTE_MOVES;
    choose->route = next;
    return choose->state == ROUTE_RUNS ? ROUTE_GO_ON : ROUTE_TAKE;
}

enum route_order route_choose_late(struct route_choose *choose)
{
    return choose->state == ROUTE_DRAINS && ++choose->late == ROUTE_LATE_MAX
               ? end(choose, false, choose->route)
               : ROUTE_GO_ON;
}

enum route_order route_choose_moved(struct route_choose *choose, bool there)
{
    if (choose->state != ROUTE_MOVES)
        return ROUTE_GO_ON;
    if (!there)
        return end(choose, false, choose->tune.favourite);
    choose->state = ROUTE_RUNS;
    return ROUTE_GO_ON;
}
