/* Plans that wait for their links. */
#include "linked.h"

#include "daemon/plans/plan_internal.h"

/* ---- a plan with a put over each link of node 0: first to node 1, then to itself ---- */

static struct plan_transfer transfers[2];
static struct plan_chain chains[2];
static struct plan plan = {.tcad = &nodes[0].tcad,
                           .transfer_count = 2,
                           .transfers = transfers,
                           .chain_count = 2,
                           .chains = chains};
static unsigned registered, advanced;
static bool other_rail;
static unsigned rerouted[2]; /* of each chain */

void plan_register(struct plan *of)
{
    registered++;
}

void plan_advance(struct plan *of)
{
    advanced += of->pending == 0;
}

int plan_fail(struct plan *of, int error, const char *format, ...)
{
    of->attempt.error = error;
    return error;
}

void plan_begin_attempt(struct plan *of)
{
    of->attempt.error = 0;
}

/* A chain is a transfer here. The replacement of a failed link stands for another rail. */
bool plan_is_on_dead_link(const struct plan *of, const struct plan_chain *chain)
{
    return transfers[chain - chains].link->state == LINK_FAILED;
}

int plan_reroute(struct plan *of, struct plan_chain *chain)
{
    struct plan_transfer *transfer = &transfers[chain - chains];
    rerouted[chain - chains]++;
    cr_assert(transfer->lost & 1u << RAIL);
    if (!other_rail) {
        of->attempt.error = -ENETDOWN;
        return -ENETDOWN;
    }
    link_unref(transfer->link);
    transfer->link = link_get(nodes[0].links, transfer->node, RAIL, nodes[0].tcad.engine);
    return 0;
}

static void make_plan(void)
{
    setup();
    for (unsigned i = 0; i < 2; i++) {
        transfers[i] = (struct plan_transfer){.node = 1 - i, .driver = &nodes[0].driver};
        transfers[i].link = link_get(nodes[0].links, 1 - i, RAIL, nodes[0].tcad.engine);
    }
}

static void free_plan(void)
{
    for (unsigned i = 0; i < 2; i++)
        link_unref(transfers[i].link);
    teardown();
}

TestSuite(plan_connect, .init = make_plan, .fini = free_plan);

static void expect_over(int error)
{
    cr_assert_eq(plan.pending, 0);
    cr_assert_eq(plan.attempt.error, error, "%d", plan.attempt.error);
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
    plan_connect(&plan); /* part of a move: nothing to wait for */
    cr_assert_eq(plan.pending, 0);
    cr_assert_eq(registered, 2);
}

/* Nothing can be prepared for a peer that was never connected. */
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
    while (transfers[1].link->state != LINK_CONNECTED)
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

static void other_node_refuses(void)
{
    while (transfers[0].link->state != LINK_OFFERED)
        cr_assert(work());
    time_out(0);
}

Test(plan_connect, another_rail_is_taken)
{
    other_rail = true;
    plan_connect(&plan);
    other_node_refuses();
    cr_assert_eq(plan.pending, 1);
    settle();
    expect_over(0);
    cr_assert(rerouted[0] == 1 && rerouted[1] == 0);
    cr_assert(transfers[0].link->state == LINK_CONNECTED);
}

Test(plan_connect, the_other_rail_fails_too)
{
    other_rail = true;
    plan_connect(&plan);
    other_node_refuses();
    other_rail = false;
    other_node_refuses();
    expect_over(-ETIMEDOUT);
    cr_assert_eq(rerouted[0], 2);
}

/* A connection that no plan waits for yet. */
Test(plan_connect, the_next_one_has_another_rail)
{
    other_rail = true;
    answer_error = -EINVAL;
    plan_connect(&plan);
    while (transfers[1].link->state != LINK_FAILED)
        cr_assert(work());
    answer_error = 0;
    settle();
    expect_over(0);
    cr_assert(rerouted[0] == 0 && rerouted[1] == 1);
}

Test(plan_connect, no_other_rail_is_tried_on_a_node_that_is_down)
{
    other_rail = true;
    plan_connect(&plan);
    links_down(nodes[0].links, 1);
    expect_over(-EHOSTDOWN);
    cr_assert_eq(rerouted[0], 0);
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
