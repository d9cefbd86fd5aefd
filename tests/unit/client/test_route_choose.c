/* Which route is tried next, by decisions only: no plan, no tcad, no clock. */
#include <criterion/criterion.h>

#include "client/plan/route_choose.h"

enum { SEEDS = 200, PATIENCE = 5000 };

/* Routes of this world: how long a start takes, and how long its data is on the way when it is
 * complete. */
struct world {
    double start_ns[4], late_ns[4];
    unsigned routes;
    unsigned closed; /* bit per route: it does not lead to the targets */
};

/* Does what it is told until the trial is over. Returns the starts that this took. */
static unsigned play(const struct world *world, struct route_choose *choose, enum route_order order)
{
    unsigned starts = 0, at = choose->route;
    uint64_t now_ns = 1000;
    while (order != ROUTE_END) {
        cr_assert_lt(starts, PATIENCE);
        switch (order) {
        case ROUTE_TAKE:
            cr_assert_eq(choose->state, ROUTE_MOVES);
            if (!(world->closed & 1u << choose->route))
                at = choose->route;
            order = route_choose_moved(choose, at == choose->route);
            break;
        case ROUTE_DRAIN:
            cr_assert_eq(choose->state, ROUTE_DRAINS);
            order = route_choose_arrived(choose, (uint64_t)world->late_ns[at]);
            break;
        default:
            cr_assert_eq(at, choose->route, "a start takes the route that is measured");
            cr_assert_eq(tune_candidate(&choose->tune), choose->route);
            order = route_choose_start(choose, now_ns);
            now_ns += (uint64_t)world->start_ns[at];
            starts += order == ROUTE_GO_ON;
        }
    }
    cr_assert_eq(choose->state, ROUTE_OVER);
    cr_assert_eq(route_choose_start(choose, now_ns), ROUTE_GO_ON);
    return starts;
}

Test(route_choose, the_fastest_stays)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        const struct world world = {.start_ns = {9000, 7000, 14000}, .routes = 3};
        struct route_choose choose;
        play(&world, &choose, route_choose_begin(&choose, 3, (unsigned)(seed % 3), seed));
        cr_assert(choose.found);
        cr_assert_eq(choose.route, 1);
    }
}

/* Its starts are complete early, its data arrives late. */
Test(route_choose, one_that_only_buffers)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        const struct world world = {.start_ns = {9000, 3000}, .late_ns = {0, 400000}, .routes = 2};
        struct route_choose choose;
        play(&world, &choose, route_choose_begin(&choose, 2, 0, seed));
        cr_assert(choose.found);
        cr_assert_eq(choose.route, 0);
    }
}

Test(route_choose, one_that_leads_nowhere)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        const struct world world = {.start_ns = {9000, 7000}, .routes = 2, .closed = 2};
        struct route_choose choose;
        play(&world, &choose, route_choose_begin(&choose, 2, 0, seed));
        cr_assert_not(choose.found);
        cr_assert_eq(choose.route, 0, "the favourite");
    }
}

Test(route_choose, begins_where_the_plan_is)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        const struct world world = {.start_ns = {9000, 7000}, .routes = 2};
        struct route_choose choose;
        cr_assert_eq(route_choose_begin_here(&choose, 0, seed), ROUTE_TAKE);
        cr_assert_eq(choose.route, 0);
        play(&world, &choose, ROUTE_TAKE);
        cr_assert(choose.found);
        cr_assert_eq(choose.route, 1);
    }
}

static void begin_here(struct route_choose *choose)
{
    route_choose_begin_here(choose, 0, 1);
    cr_assert_eq(route_choose_moved(choose, true), ROUTE_GO_ON);
    cr_assert_eq(choose->state, ROUTE_RUNS);
}

/* And then the other one. */
Test(route_choose, begins_where_the_plan_is_and_goes_on)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        for (unsigned favourite = 0; favourite < 2; favourite++) {
            struct route_choose choose;
            uint64_t now_ns = 0;
            route_choose_begin_here(&choose, favourite, seed);
            route_choose_moved(&choose, true);
            while (route_choose_start(&choose, now_ns += 1000) == ROUTE_GO_ON)
                cr_assert_eq(choose.route, favourite);
            cr_assert_eq(route_choose_arrived(&choose, 10), ROUTE_TAKE);
            cr_assert_eq(choose.route, !favourite);
        }
}

/* No other route is taken before the data has arrived, however many starts there are. */
Test(route_choose, drains_first)
{
    struct route_choose choose;
    uint64_t now_ns = 0;
    begin_here(&choose);
    while (route_choose_start(&choose, now_ns += 1000) == ROUTE_GO_ON)
        cr_assert_lt(now_ns, 1000 * PATIENCE);
    for (int i = 0; i < 100; i++) {
        cr_assert_eq(route_choose_start(&choose, now_ns += 1000), ROUTE_GO_ON);
        cr_assert_eq(route_choose_moved(&choose, true), ROUTE_GO_ON);
        cr_assert_eq(choose.state, ROUTE_DRAINS);
        cr_assert_eq(choose.route, 0);
    }
    route_choose_arrived(&choose, 0);
    cr_assert_neq(choose.state, ROUTE_DRAINS);
}

/* Answers that come in other states mean nothing. */
Test(route_choose, late)
{
    struct route_choose choose;
    uint64_t now_ns = 0;
    begin_here(&choose);
    cr_assert_eq(route_choose_late(&choose), ROUTE_GO_ON);
    cr_assert_eq(route_choose_arrived(&choose, 1), ROUTE_GO_ON);
    cr_assert_eq(choose.state, ROUTE_RUNS);
    while (route_choose_start(&choose, now_ns += 1000) == ROUTE_GO_ON)
        ;
    for (int i = 1; i < ROUTE_LATE_MAX; i++)
        cr_assert_eq(route_choose_late(&choose), ROUTE_GO_ON);
    cr_assert_eq(route_choose_late(&choose), ROUTE_END);
    cr_assert_not(choose.found);
    cr_assert_eq(choose.route, 0, "it stays where it is");
    cr_assert_eq(route_choose_late(&choose), ROUTE_GO_ON);
}

/* In time after all: the attempts of the next block count from the beginning. */
Test(route_choose, late_once)
{
    struct route_choose choose;
    uint64_t now_ns = 0;
    begin_here(&choose);
    for (int block = 0; block < 8 && choose.state != ROUTE_OVER; block++) {
        while (route_choose_start(&choose, now_ns += 1000) == ROUTE_GO_ON)
            ;
        for (int i = 1; i < ROUTE_LATE_MAX; i++)
            cr_assert_eq(route_choose_late(&choose), ROUTE_GO_ON);
        if (route_choose_arrived(&choose, 10) == ROUTE_TAKE)
            route_choose_moved(&choose, true);
    }
    cr_assert(choose.state == ROUTE_RUNS || choose.found);
}

/* A move for good is no trial: its data arrives first, nothing is counted, nothing found. */
Test(route_choose, only_to_move)
{
    for (unsigned to = 0; to < 2; to++) {
        struct route_choose choose;
        route_choose_only(&choose, !to, to);
        cr_assert_eq(choose.route, !to);
        for (uint64_t now_ns = 1000; now_ns < 100000; now_ns += 1000)
            cr_assert_eq(route_choose_start(&choose, now_ns), ROUTE_GO_ON);
        cr_assert_eq(route_choose_moved(&choose, true), ROUTE_GO_ON);
        cr_assert_eq(route_choose_arrived(&choose, 1000), ROUTE_END);
        cr_assert_eq(choose.route, to);
        cr_assert_not(choose.found);
    }
}

Test(route_choose, only_to_move_but_late)
{
    struct route_choose choose;
    route_choose_only(&choose, 1, 0);
    for (int i = 1; i < ROUTE_LATE_MAX; i++)
        cr_assert_eq(route_choose_late(&choose), ROUTE_GO_ON);
    cr_assert_eq(route_choose_late(&choose), ROUTE_END);
    cr_assert_eq(choose.route, 1, "it stays where it is");
    cr_assert_eq(route_choose_arrived(&choose, 1), ROUTE_GO_ON);
}

/* In every state: then no answer moves it. */
Test(route_choose, given_up)
{
    for (unsigned starts = 0; starts < 300; starts++) {
        struct route_choose choose;
        uint64_t now_ns = 0;
        begin_here(&choose);
        for (unsigned i = 0; i < starts; i++)
            if (route_choose_start(&choose, now_ns += 1000) == ROUTE_DRAIN &&
                route_choose_arrived(&choose, 10) == ROUTE_TAKE)
                route_choose_moved(&choose, i % 3 > 0);
        route_choose_give_up(&choose, 1);
        cr_assert_eq(choose.state, ROUTE_OVER);
        cr_assert_not(choose.found);
        cr_assert_eq(choose.route, 1);
        cr_assert_eq(route_choose_start(&choose, now_ns), ROUTE_GO_ON);
        cr_assert_eq(route_choose_arrived(&choose, 1), ROUTE_GO_ON);
        cr_assert_eq(route_choose_moved(&choose, false), ROUTE_GO_ON);
        cr_assert_eq(route_choose_late(&choose), ROUTE_GO_ON);
        cr_assert_eq(choose.route, 1);
    }
}

/* One that has not begun says nothing. */
Test(route_choose, not_begun)
{
    struct route_choose choose = {0};
    cr_assert_eq(route_choose_start(&choose, 1), ROUTE_GO_ON);
    cr_assert_eq(route_choose_arrived(&choose, 1), ROUTE_GO_ON);
    cr_assert_eq(route_choose_moved(&choose, true), ROUTE_GO_ON);
    cr_assert_eq(route_choose_late(&choose), ROUTE_GO_ON);
}
