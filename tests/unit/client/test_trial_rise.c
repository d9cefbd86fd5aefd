/* A plan that is in tcad's seat for want of a pair moves up when there is one. */
#include "tests/unit/client/seats_world.h"

TestSuite(trial_rise, .init = setup, .fini = teardown);

/* The commit has found none. */
static void commit_below(void)
{
    Tca__PlanCommitted committed = committed_in(SEAT_DAEMON);
    chain_committed.rails = 1u << SHM | 1u << TCP; /* with so few, there is no choice */
    cr_assert_eq(known(TCA_SEAT_ANY), SEAT_NONE);
    committed.rises = true;
    plan.client_count = plan.made_count = 0;
    plan.daemon_count = plan.chain_count;
    plan.paired = false;
    plan.first_rail = TCP;
    plan.first_seat = SEAT_DAEMON;
    plan.pace = PACE_SUBMITS;
    joined = true;
    trial_route_begin(&plan, &committed);
    cr_assert_not(tries());
}

static void paired(bool offers)
{
    Tca__PlanCommitted committed = committed_in(SEAT_CLIENT);
    committed.seats = offers;
    trial_route_paired(&plan, &committed);
}

static void starts(unsigned count)
{
    while (count-- > 0)
        start();
}

Test(trial_rise, it_moves_up)
{
    commit_below();
    starts(100);
    cr_assert_eq(run[SEAT_DAEMON], 100);
    paired(false);
    cr_assert(tries());
    start();
    cr_assert(held, "the last one before it");
    cr_assert_eq(run[SEAT_DAEMON], 101);
    cr_assert_eq(asked[SEAT_CLIENT], 0, "the next one could fail to be started");
    start();
    cr_assert_eq(run[SEAT_CLIENT], 1);
    cr_assert_eq(asked[SEAT_CLIENT], 1);
    cr_assert_not(found);
    starts(10);
    moved(SEAT_CLIENT);
    starts(100);
    cr_assert_not(tries());
    cr_assert_eq(run[SEAT_CLIENT], 111);
    cr_assert_eq(plan.pace, PACE_HERE);
    cr_assert_eq(binds, 1);
}

Test(trial_rise, the_trial_follows)
{
    commit_below();
    start_ns[SEAT_DAEMON] = 20000;
    paired(true);
    starts(2);
    moved(SEAT_CLIENT);
    settle();
    cr_assert_eq(seat_now(), SEAT_DAEMON);
    cr_assert(found);
    const unsigned before = binds;
    paired(true);
    cr_assert_eq(binds, before, "it has settled");
}

Test(trial_rise, it_moves_up_again_and_again)
{
    begin();
    for (unsigned i = 0; i < STARTS_MAX && run[SEAT_DAEMON] < 3; i++)
        start();
    for (unsigned i = 1; i < 10; i++) {
        cr_assert(trial_route_goes_on(&plan, -ENETDOWN));
        cr_assert(trial_route_goes_on(&plan, -ENETDOWN), "as it is told more than once");
        paired(true);
        cr_assert_lt(binds, i, "it still has the old chains");
        starts(3);
        cr_assert_eq(drops, i);
        cr_assert(below);
        cr_assert_not(tries());
        paired(true);
        cr_assert_eq(binds, i);
        cr_assert(tries());
        if (i % 2 == 0)
            start(); /* the next one would run here */
    }
    cr_assert_eq(plan.broken, 0);
}

Test(trial_rise, tcad_loses_the_rail_before_it_moves_up)
{
    commit_below();
    starts(3);
    paired(false);
    moved(SEAT_CLIENT);
    starts(100);
    cr_assert_not(tries());
    cr_assert_eq(run[SEAT_CLIENT], 100);
    cr_assert_eq(plan.broken, 0);
}

Test(trial_rise, chains_that_cannot_be_made)
{
    commit_below();
    bind_error = -ENOMEM;
    paired(true);
    starts(100);
    cr_assert_not(tries());
    cr_assert_eq(run[SEAT_DAEMON], 100);
    moved(SEAT_CLIENT);
    cr_assert_neq(plan.broken, 0, "then nobody can");
}

/* A receiver that is stopped: it stays where it is. */
Test(trial_rise, data_that_never_arrives_below)
{
    commit_below();
    never_lands = true;
    paired(true);
    for (unsigned i = 0; i < 100; i++) {
        start();
        unlanded[SEAT_DAEMON] = 0;
    }
    cr_assert_not(tries());
    cr_assert_eq(run[SEAT_DAEMON], 100);
    cr_assert(below, "tcad waits, and offers it again");
    never_lands = false;
    paired(true);
    starts(2);
    cr_assert_eq(run[SEAT_CLIENT], 1);
}

Test(trial_rise, nonsense_of_tcad_below)
{
    Tca__ChainCommitted chain = TCA__CHAIN_COMMITTED__INIT, *chains[2] = {&chain, &chain};
    Tca__PlanCommitted committed = TCA__PLAN_COMMITTED__INIT;
    const uint32_t rails[] = {0, 17, TCP, TCP};
    commit_below();
    trial_route_paired(&plan, NULL);
    committed.chains = chains;
    for (unsigned i = 0; i < 4; i++) {
        chain.rail = rails[i];
        chain.seat = i == 2 ? SEAT_DAEMON : SEAT_CLIENT;
        committed.n_chains = i == 3 ? 2 : 1;
        trial_route_paired(&plan, &committed);
        cr_assert_eq(binds, 0);
    }
    moved(SEAT_CLIENT);
    cr_assert_neq(plan.broken, 0, "nobody can run it");
}
