/* Plans that wait for their links. */
#include "linked.h"

#include "daemon/plans/plan.h"

/* ---- a plan with a put over each link of node 0: first to node 1, then to itself ---- */

static struct plan_unit units[2];
static struct plan plan = {.tcad = &nodes[0].tcad, .unit_count = 2, .units = units};
static unsigned registered, advanced;

void plan_register(struct plan *of)
{
    registered++;
}

void plan_advance(struct plan *of)
{
    cr_assert_eq(of->pending, 0);
    advanced++;
}

int plan_fail(struct plan *of, int error, const char *format, ...)
{
    of->error = error;
    return error;
}

static void make_plan(void)
{
    setup();
    for (unsigned i = 0; i < 2; i++) {
        units[i] = (struct plan_unit){.node = 1 - i, .driver = &nodes[0].driver};
        units[i].link = link_get(nodes[0].links, 1 - i, RAIL);
    }
}

static void free_plan(void)
{
    for (unsigned i = 0; i < 2; i++)
        link_unref(units[i].link);
    teardown();
}

TestSuite(plan_connect, .init = make_plan, .fini = free_plan);

static void expect_over(int error)
{
    cr_assert_eq(plan.pending, 0);
    cr_assert_eq(plan.error, error, "%d", plan.error);
    cr_assert_eq(advanced, 1);
    cr_assert_eq(registered, error == 0);
}

Test(plan_connect, all_at_once)
{
    plan_connect(&plan);
    cr_assert_eq(job_count, 2);
    cr_assert_eq(plan.pending, 1);
    settle();
    expect_over(0);
    plan_connect(&plan); /* of a move: nothing to wait for */
    cr_assert_eq(plan.pending, 0);
    cr_assert_eq(registered, 2);
}

/* Nothing can be prepared for a peer that never was connected. */
Test(plan_connect, one_fails_while_another_is_awaited)
{
    plan_connect(&plan);
    links_down(nodes[0].links, 0);
    cr_assert_eq(plan.pending, 1);
    settle();
    expect_over(-ENETDOWN);
}

/* Its puts fail, and the plan moves. */
Test(plan_connect, one_is_lost_while_another_is_awaited)
{
    plan_connect(&plan);
    while (units[1].link->state != LINK_CONNECTED)
        cr_assert(work());
    links_down(nodes[0].links, 0);
    settle();
    expect_over(0);
}

Test(plan_connect, the_one_that_is_awaited_fails)
{
    plan_connect(&plan);
    cr_assert(work());
    links_down(nodes[0].links, 1);
    expect_over(-EHOSTDOWN);
    settle();
    expect_over(-EHOSTDOWN);
    time_out(0);
}

Test(plan_connect, it_is_released_meanwhile)
{
    plan_connect(&plan);
    plan.release_asked = true;
    settle();
    cr_assert_eq(plan.pending, 0);
    cr_assert_eq(advanced, 1);
    cr_assert_eq(registered, 0);
}
