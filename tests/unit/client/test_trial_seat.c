/* When a plan tries seats, when a start is held, what is counted, and what happens when tcad cannot
 * run it. */
#include "tests/unit/client/seats_world.h"

TestSuite(trial_seat, .init = setup, .fini = teardown);

Test(trial_seat, the_faster_one_stays)
{
    for (enum seat fast = SEAT_CLIENT; fast <= SEAT_DAEMON; fast++) {
        begin_with_faster(fast);
        for (unsigned i = 0; i < STARTS_MAX && session.wisdom->added == 0; i++)
            start();
        start();
        cr_assert_not(tries(), "that start has told tcad, and nothing is tried any more");
        cr_assert_eq(seat_now(), fast);
        cr_assert(found);
        cr_assert_eq(asked[SEAT_CLIENT] > 0, fast == SEAT_CLIENT, "tcad gives up what is not used");
        cr_assert_eq(plan.pace, fast == SEAT_DAEMON ? PACE_SUBMITS : PACE_HERE);
        cr_assert_eq(plan.first_seat, fast);
        cr_assert_eq(plan.paired, fast == SEAT_CLIENT);
        cr_assert_eq(plan.client_count + plan.daemon_count, 1);
        cr_assert_eq(known(TCA_SEAT_ANY), fast);
        trial_route_end(&plan);
    }
}

Test(trial_seat, nothing_until_it_is_worth_it)
{
    begin();
    for (unsigned i = 0; i < 32; i++)
        start();
    cr_assert_eq(asked[SEAT_DAEMON], 0);
    start();
    cr_assert_eq(asked[SEAT_DAEMON], 1);
}

/* start() asserts it for each; this sees that starts were held at all, and few. */
Test(trial_seat, only_ends_of_blocks_are_held)
{
    unsigned holds = 0, starts = 0;
    begin();
    for (; tries() && starts < STARTS_MAX; starts++) {
        start();
        holds += held;
    }
    cr_assert_geq(holds, 8);
    cr_assert_leq(holds * 9, starts, "blocks have 9 starts at least");
    cr_assert_geq(flushes, 4);
}

/* What only buffers is not fast. */
Test(trial_seat, data_that_arrives_late_counts)
{
    start_ns[SEAT_DAEMON] = 20000;
    flush_ns[SEAT_DAEMON] = 900000;
    begin();
    settle();
    cr_assert_eq(seat_now(), SEAT_CLIENT);
}

Test(trial_seat, data_that_arrives_late_counts_here_too)
{
    start_ns[SEAT_CLIENT] = 20000;
    flush_ns[SEAT_CLIENT] = 900000;
    begin();
    settle();
    cr_assert_eq(seat_now(), SEAT_DAEMON);
}

Test(trial_seat, a_slow_seat_costs_little)
{
    start_ns[SEAT_DAEMON] = 40 * start_ns[SEAT_CLIENT];
    begin();
    settle();
    cr_assert_eq(seat_now(), SEAT_CLIENT);
    cr_assert_leq(run[SEAT_DAEMON], 44, "two blocks with their ends");
}

Test(trial_seat, tcad_cannot)
{
    refuses = true;
    begin();
    settle();
    cr_assert_eq(seat_now(), SEAT_CLIENT);
    cr_assert_eq(run[SEAT_DAEMON], 0);
    cr_assert_eq(known(TCA_SEAT_ANY), SEAT_NONE);
}

/* It is asked once, and not again and again. */
Test(trial_seat, tcad_cannot_and_is_not_asked_again)
{
    refuses = true;
    begin();
    settle();
    for (unsigned i = 0; i < 300; i++)
        start();
    cr_assert_not(tries());
    cr_assert_eq(asked[SEAT_DAEMON], 1);
    cr_assert_eq(asked[SEAT_CLIENT], 0, "it has nothing to release");
}

Test(trial_seat, tcad_loses_the_rail)
{
    begin_until_tcad_has_run(3);
    moved(SEAT_CLIENT);
    start();
    cr_assert_eq(run[SEAT_DAEMON], 3);
    start();
    cr_assert_not(tries());
    cr_assert_eq(seat_now(), SEAT_CLIENT);
}

Test(trial_seat, tcad_loses_the_rail_after_the_trial)
{
    start_ns[SEAT_CLIENT] = 90000;
    begin();
    settle();
    cr_assert_eq(seat_now(), SEAT_DAEMON);
    const unsigned before = run[SEAT_DAEMON];
    moved(SEAT_CLIENT);
    start();
    start();
    cr_assert_eq(run[SEAT_DAEMON], before);
    cr_assert_not(tries());
    cr_assert_eq(plan.pace, PACE_HERE);
}

Test(trial_seat, the_connection_ends_while_tcad_puts)
{
    begin_until_tcad_has_run(3);
    const unsigned before = run[SEAT_CLIENT];
    cr_assert_not(trial_route_goes_on(&plan, -EOWNERDEAD), "tcad cannot put there either");
    cr_assert(trial_route_goes_on(&plan, -ENETDOWN));
    for (unsigned i = 0; i < 100; i++)
        start();
    cr_assert_not(tries());
    cr_assert_not(found);
    cr_assert_eq(run[SEAT_CLIENT], before);
    cr_assert_eq(plan.broken, 0);
    cr_assert(below, "tcad knows that there is no pair");
    cr_assert_eq(drops, 1);
    moved(SEAT_CLIENT);
    cr_assert_eq(plan.broken, -ENETDOWN, "then nobody can");
}

Test(trial_seat, both_are_lost)
{
    begin_until_tcad_has_run(3);
    moved(SEAT_CLIENT);
    cr_assert_not(trial_route_goes_on(&plan, -ENETDOWN), "tcad has nothing of it any more");
}

Test(trial_seat, the_connection_ends_after_the_trial)
{
    for (enum seat fast = SEAT_CLIENT; fast <= SEAT_DAEMON; fast++) {
        begin_with_faster(fast);
        cr_assert_not(trial_route_goes_on(&plan, -ENETDOWN), "not before the trial");
        settle();
        cr_assert_eq(trial_route_goes_on(&plan, -ENETDOWN), fast == SEAT_DAEMON);
        start();
        start();
        cr_assert_eq(seat_now(), fast);
        cr_assert(drops == 0 && !below, "it needs no pair, and waits for none");
        trial_route_end(&plan);
    }
}

/* The receiver is stopped: the starts are complete nevertheless, and after some the trial is given
 * up. */
Test(trial_seat, data_that_never_arrives)
{
    never_lands = true;
    begin();
    const uint64_t before_ns = now_ns;
    unsigned holds = 0;
    for (unsigned i = 0; i < 300; i++) {
        start();
        holds += held;
    }
    cr_assert_eq(holds, 16);
    cr_assert_not(tries());
    cr_assert_eq(seat_now(), SEAT_CLIENT);
    cr_assert_leq(now_ns - before_ns, 16 * (TRIAL_HOLD_NS + 1000) + 300 * 30000);
    cr_assert_not(found);
    cr_assert_eq(known(TCA_SEAT_ANY), SEAT_NONE);
}

/* It stays where it is, and tcad, which waits for a while, may offer it a pair again. */
Test(trial_seat, data_that_never_arrives_in_tcad)
{
    begin_until_tcad_has_run(1);
    never_lands = true;
    const unsigned before = run[SEAT_CLIENT];
    for (unsigned i = 0; i < 300; i++)
        start();
    cr_assert_not(tries());
    cr_assert_not(found);
    cr_assert_eq(run[SEAT_CLIENT], before);
    cr_assert(below);
    cr_assert_eq(drops, 1);
    cr_assert_eq(known(TCA_SEAT_ANY), SEAT_NONE);
}

Test(trial_seat, late_once_is_not_given_up)
{
    begin_until_tcad_has_run(1);
    never_lands = true;
    while (!held)
        start();
    never_lands = false;
    settle();
    cr_assert(found);
}

Test(trial_seat, a_failed_start_is_not_held)
{
    begin_until_tcad_has_run(3);
    plan.status = -ENETDOWN;
    for (unsigned i = 0; i < 40; i++) {
        start();
        cr_assert_not(held);
    }
    plan.status = 0;
    settle();
}

Test(trial_seat, messages_that_cannot_be_sent)
{
    begin();
    deaf = true;
    for (unsigned i = 0; i < 60; i++)
        start();
    cr_assert_eq(asked[SEAT_DAEMON], 0);
    deaf = false;
    start();
    cr_assert_eq(asked[SEAT_DAEMON], 1);
    settle();
}

Test(trial_seat, an_end_that_cannot_be_sent)
{
    begin_with_faster(SEAT_CLIENT);
    for (unsigned i = 0; i < STARTS_MAX && session.wisdom->added == 0; i++)
        start();
    deaf = true;
    for (unsigned i = 0; i < 5; i++)
        start();
    cr_assert(tries(), "else it would never be sent");
    deaf = false;
    start();
    cr_assert_eq(asked[SEAT_CLIENT], 1);
    cr_assert_not(tries());
}

/* That all data has arrived, when the start that was held for it is not any more: the next one is
 * under way. */
Test(trial_seat, an_answer_that_comes_too_late)
{
    begin_until_tcad_has_run(1);
    never_lands = true;
    for (unsigned i = 0; i < STARTS_MAX && !held; i++)
        start();
    cr_assert(held && seat_now() == SEAT_DAEMON);
    trial_route_start(&plan);
    moved(SEAT_DAEMON);
    never_lands = false;
    unlanded[SEAT_DAEMON] = 1;
    complete();
    start();
}

/* Layouts can be long, and data that is not worth a trial is what most plans move. */
Test(trial_seat, without_a_choice_no_layout_is_hashed)
{
    steps[0].put.source_layout = steps[0].put.target_layout = header_only(100000);
    known(TCA_SEAT_ANY);
    commit_with(false);
    steps[0].put.source_layout = steps[0].put.target_layout = layout;
    begin();
    settle();
    steps[0].put.source_layout = steps[0].put.target_layout = header_only(100008);
    cr_assert_eq(known(TCA_SEAT_ANY), SEAT_NONE, "nothing is known about puts of this size");
    steps[0].put.source_layout = steps[0].put.target_layout = layout;
    cr_assert_eq(known(TCA_SEAT_ANY), SEAT_CLIENT);
}

Test(trial_seat, who_does_not_try)
{
    for (enum tca_seat seat = TCA_SEAT_CLIENT; seat <= TCA_SEAT_DAEMON; seat++) {
        cr_assert_eq(known(seat), SEAT_NONE);
        cr_assert_null(plan.route_trial);
    }
    session.settings.tune = TUNE_OFF; /* it may still move up */
    known(TCA_SEAT_ANY);
    commit_with(true);
    cr_assert_not(tries());
    cr_assert_null(plan.route_trial);
    session.settings.tune = TUNE_FROZEN;
    known(TCA_SEAT_ANY);
    commit_with(true);
    cr_assert_not(tries());
    session.settings.tune = TUNE_ON;
    known(TCA_SEAT_ANY);
    commit_with(false);
    cr_assert_not(tries());
    session.node = 1; /* it puts to its own */
    known(TCA_SEAT_ANY);
    cr_assert_null(plan.route_trial);
    session.node = 0;
    plan.flags = TCA_PLAN_REPEAT;
    known(TCA_SEAT_ANY);
    cr_assert_null(plan.route_trial);
}

Test(trial_seat, one_plan_after_the_other)
{
    session.tries = &other;
    session.tries_ns = now_ns;
    begin();
    for (unsigned i = 0; i < 100; i++)
        start();
    cr_assert_eq(asked[SEAT_DAEMON], 0);
    now_ns += 2000000000;
    settle();
    cr_assert_null(session.tries);
}

Test(trial_seat, nonsense_of_tcad)
{
    Tca__RouteChanged__Route routes[2] = {TCA__ROUTE_CHANGED__ROUTE__INIT,
                                          TCA__ROUTE_CHANGED__ROUTE__INIT},
                             *list[2] = {&routes[0], &routes[1]};
    Tca__RouteChanged changed = TCA__ROUTE_CHANGED__INIT;
    begin();
    for (unsigned i = 0; i < STARTS_MAX && asked[SEAT_DAEMON] == 0; i++) {
        trial_route_start(&plan);
        now_ns += 30000;
    }
    routes[0].seat = routes[1].seat = SEAT_DAEMON;
    routes[0].rail = TCP;
    routes[1].rail = 17;
    changed.turn = turn;
    const size_t counts[] = {0, 2, 1};
    for (unsigned i = 0; i < 3; i++) {
        changed.n_routes = counts[i];
        changed.routes = i == 2 ? &list[1] : list;
        trial_route_changed(&plan, &changed);
        for (unsigned k = 0; k < 30; k++)
            trial_route_start(&plan);
        cr_assert_eq(seat_now(), SEAT_CLIENT);
    }
}
