/* When a plan tries rails, what it counts, and when it tries again. The clock, tcad and the cost of
 * each rail are the test's: its struct trial_effects. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "client/core/session.h"
#include "client/core/wisdom.h"
#include "client/layout/layout.h"
#include "client/plan/plan.h"
#include "client/plan/trial.h"
#include "client/plan/trial_route.h"
#include "tests/unit/client/header_only.h"
#include "tests/unit/client/own_clock.h"

enum {
    SHM = 1,
    A,
    B,
    C,
    RAILS = C,
    STARTS_MAX = 4000,
    MOVE_NS = 700000,
};
#define BITS(rail) (1u << (rail))

/* tcad: the rails of a chain, the one that it is on, and a request that is not carried out yet. */
struct tcad {
    uint32_t chains;
    uint32_t bound[PLAN_CHAINS_MAX], rails[PLAN_CHAINS_MAX];
    bool asked, deaf;
    uint64_t wanted_chains;
    uint32_t wanted, turn;
    bool found;
    unsigned requests, moves;
};

static struct tcad tcad;
static uint64_t start_ns[RAILS + 1], flush_ns[RAILS + 1]; /* of a start; of all data, per start */
static uint64_t disturbance_ns;                           /* of every seventh start */
static struct tca session;
static struct step steps[2];
static struct tca_plan plan, others[3];
static struct tca_layout *layout;
static struct routes_known known;
static unsigned started, unflushed;

static void move_chains(void)
{
    for (uint32_t i = 0; i < tcad.chains; i++) {
        if (!(tcad.wanted_chains & 1ull << i) || !(tcad.rails[i] & BITS(tcad.wanted)))
            continue;
        tcad.moves += tcad.bound[i] != tcad.wanted;
        tcad.bound[i] = tcad.wanted;
    }
}

static bool tell(struct tca_plan *of, const Tca__PlanTry *request)
{
    (void)of;
    if (tcad.deaf)
        return false;
    if (tcad.asked) /* for other chains: both are carried out */
        move_chains();
    tcad.requests++;
    tcad.asked = true;
    tcad.wanted = request->rail;
    tcad.wanted_chains = request->chains;
    tcad.turn = request->turn;
    tcad.found = request->found;
    return true;
}

static const struct trial_effects effects = {.now_ns = own_clock, .tell = tell};

static void send_event(struct tca_plan *to, uint64_t flush)
{
    Tca__RouteChanged__Route routes[PLAN_CHAINS_MAX], *list[PLAN_CHAINS_MAX];
    Tca__RouteChanged changed = TCA__ROUTE_CHANGED__INIT;
    for (uint32_t i = 0; i < tcad.chains; i++) {
        tca__route_changed__route__init(&routes[i]);
        routes[i].rail = tcad.bound[i];
        routes[i].seat = SEAT_DAEMON;
        routes[i].may_try = tcad.rails[i];
        list[i] = &routes[i];
    }
    changed.n_routes = tcad.chains;
    changed.routes = list;
    changed.flush_ns = flush;
    changed.turn = tcad.turn;
    trial_route_changed(to, &changed);
}

/* The start after a request waits for the move. */
static void carry_out(struct tca_plan *of)
{
    const uint64_t flush = flush_ns[tcad.bound[0]] * unflushed;
    unflushed = 0;
    tcad.asked = false;
    move_chains();
    now_ns += MOVE_NS + flush;
    send_event(of, flush);
}

static bool tries(void)
{
    return (plan.flags & PLAN_TRIES) != 0;
}

static void starts(unsigned count)
{
    while (count--) {
        if (plan.flags & PLAN_TRIES)
            trial_route_start(&plan);
        if (tcad.asked)
            carry_out(&plan);
        unflushed++;
        for (uint32_t i = 0; i < tcad.chains; i++)
            now_ns += start_ns[tcad.bound[i]];
        now_ns += ++started % 7 == 0 ? disturbance_ns : 0;
    }
}

/* How many starts this takes. */
static unsigned settle(void)
{
    unsigned count = 0;
    for (; count < STARTS_MAX && tries(); count++)
        starts(1);
    cr_assert(!tries(), "still trying after %d starts", STARTS_MAX);
    return count;
}

static void commit(uint32_t rails)
{
    Tca__ChainCommitted chains[PLAN_CHAINS_MAX], *list[PLAN_CHAINS_MAX];
    Tca__PlanCommitted committed = TCA__PLAN_COMMITTED__INIT;
    committed.n_chains = tcad.chains;
    committed.chains = list;
    for (uint32_t i = 0; i < tcad.chains; i++) {
        tca__chain_committed__init(&chains[i]);
        list[i] = &chains[i];
        tcad.rails[i] = chains[i].rails = rails;
        chains[i].rail = tcad.bound[i];
    }
    plan.daemon_count = plan.chain_count;
    plan.pace = PACE_SUBMITS;
    trial_route_begin(&plan, &committed);
}

/* A plan of one chain with a put of 60,000 bytes; or of two equal ones. */
static void prepare(unsigned chains)
{
    trial_route_end(&plan);
    memset(&tcad, 0, sizeof(tcad));
    tcad.chains = chains;
    plan = (struct tca_plan){.session = &session,
                             .steps = steps,
                             .step_count = chains,
                             .chain_count = chains,
                             .chain_first = {0, 1}};
    for (unsigned i = 0; i < chains; i++) {
        steps[i] = (struct step){.kind = STEP_PUT};
        steps[i].put.source_layout = steps[i].put.target_layout = layout;
        tcad.bound[i] = A;
    }
}

static void begin(uint32_t rails)
{
    prepare(1);
    cr_assert(trial_route_known(&plan, TCA_SEAT_ANY, &known));
    commit(rails);
}

static void setup(void)
{
    now_ns = 1000000000;
    disturbance_ns = 0;
    for (unsigned rail = SHM; rail <= RAILS; rail++)
        start_ns[rail] = 20000;
    memset(flush_ns, 0, sizeof(flush_ns));
    session.settings.tune = TUNE_ON;
    session.trial_effects = &effects;
    session.rails = (struct rail_list){.count = RAILS,
                                       .at = {[SHM] = {.name = "shm"},
                                              [A] = {.name = "a"},
                                              [B] = {.name = "b"},
                                              [C] = {.name = "c"}}};
    session.segment = calloc(1, sizeof(*session.segment));
    session.wisdom = calloc(1, sizeof(*session.wisdom));
    cr_assert(session.segment && session.wisdom);
    cr_assert_eq(tca_layout_contiguous(60000, &layout), 0);
}

static void teardown(void)
{
    trial_route_end(&plan);
    for (unsigned i = 0; i < 3; i++)
        trial_route_end(&others[i]);
    tca_layout_free(layout);
    free(session.segment);
    free(session.wisdom);
}

TestSuite(trial_rails, .init = setup, .fini = teardown);

Test(trial_rails, the_fastest_wins)
{
    for (uint32_t best = A; best <= C; best++) {
        session.wisdom->count = session.wisdom->added = 0;
        for (uint32_t rail = A; rail <= C; rail++)
            start_ns[rail] = rail == best ? 20000 : 24000;
        begin(BITS(A) | BITS(B) | BITS(C));
        cr_expect(tries() && plan.pace == PACE_MEASURED);
        settle();
        cr_expect_eq(tcad.bound[0], best);
        cr_expect(tcad.found);
        const unsigned requests = tcad.requests;
        starts(100);
        cr_expect_eq(tcad.requests, requests, "nothing moves any more");
        cr_expect_eq(plan.pace, PACE_SUBMITS, "nothing is measured any more");
    }
}

/* Its starts are complete long before their data has arrived. */
Test(trial_rails, a_rail_that_buffers_is_not_fast)
{
    start_ns[B] = 5000;
    flush_ns[B] = 30000;
    begin(BITS(A) | BITS(B));
    settle();
    cr_expect_eq(tcad.bound[0], A);
}

/* As another process's moves do. */
Test(trial_rails, starts_that_are_held_up_do_not_count)
{
    unsigned wrong = 0;
    disturbance_ns = 900000;
    start_ns[B] = 18000;
    for (unsigned i = 0; i < 50; i++) {
        session.wisdom->count = session.wisdom->added = 0;
        started = i;
        begin(BITS(A) | BITS(B));
        settle();
        wrong += tcad.bound[0] != B;
    }
    cr_expect_leq(wrong, 2, "%u of 50", wrong);
}

Test(trial_rails, the_first_choice_stays_among_equals)
{
    begin(BITS(A) | BITS(B) | BITS(C));
    settle();
    cr_expect_eq(tcad.bound[0], A);
}

Test(trial_rails, one_rail_is_no_choice)
{
    begin(0);
    cr_expect(!tries() && plan.pace == PACE_SUBMITS);
    starts(100);
    cr_expect_eq(tcad.requests, 0);
}

/* Layouts can be long. */
Test(trial_rails, without_a_choice_no_layout_is_hashed)
{
    struct tca_layout *other, *const unread = header_only(60000),
                                     *const longer = header_only(70000);
    prepare(1);
    steps[0].put.source_layout = steps[0].put.target_layout = unread;
    cr_assert(trial_route_known(&plan, TCA_SEAT_ANY, &known));
    commit(0);
    starts(100);
    start_ns[B] = 10000;
    begin(BITS(A) | BITS(B));
    settle();
    cr_assert_eq(tca_layout_contiguous(70000, &other), 0);
    prepare(1);
    steps[0].put.source_layout = steps[0].put.target_layout = longer;
    cr_assert(trial_route_known(&plan, TCA_SEAT_ANY, &known));
    commit(0);
    starts(100);
    cr_expect_str_empty(known.rails[0], "nothing is known about puts of this size");
    steps[0].put.source_layout = steps[0].put.target_layout = other;
    tcad.rails[0] = BITS(A) | BITS(B); /* a rail has come */
    send_event(&plan, 0);
    settle();
    cr_expect_eq(tcad.bound[0], B);
    trial_route_end(&plan);
    tca_layout_free(other);
}

Test(trial_rails, who_may_not_try)
{
    prepare(1);
    cr_expect(!trial_route_known(&plan, TCA_SEAT_DAEMON, &known), "ordered with others");
    cr_expect(!trial_route_known(&plan, TCA_SEAT_CLIENT, &known));
    plan.flags = TCA_PLAN_PREFER;
    cr_expect(!trial_route_known(&plan, TCA_SEAT_ANY, &known));
    plan.flags = TCA_PLAN_REPEAT;
    cr_expect(!trial_route_known(&plan, TCA_SEAT_ANY, &known));
    plan.flags = 0;
    session.settings.tune = TUNE_OFF;
    cr_expect(!trial_route_known(&plan, TCA_SEAT_ANY, &known));
    session.settings.tune = TUNE_ON;
    session.rails.count = 2;
    cr_expect(!trial_route_known(&plan, TCA_SEAT_ANY, &known), "only shm and one other");
    cr_expect_null(plan.route_trial);
}

Test(trial_rails, the_next_plan_knows)
{
    start_ns[B] = 10000;
    begin(BITS(A) | BITS(B));
    settle();
    begin(BITS(A) | BITS(B));
    cr_expect_str_eq(known.rails[0], "b", "asked for with the commit");
    cr_expect(!tries());
    starts(1);
    cr_expect_eq(tcad.bound[0], B, "tcad did not know it, but was told");
    begin(BITS(A) | BITS(B) | BITS(C));
    cr_expect(tries(), "among others, it may not be the best");
}

Test(trial_rails, other_layouts_and_nodes_are_not_known)
{
    struct tca_layout *other;
    begin(BITS(A) | BITS(B));
    settle();
    session.node++;
    begin(BITS(A) | BITS(B));
    cr_expect(tries());
    session.node--;
    cr_assert_eq(tca_layout_contiguous(60008, &other), 0);
    prepare(1);
    steps[0].put.source_layout = other;
    cr_assert(trial_route_known(&plan, TCA_SEAT_ANY, &known));
    commit(BITS(A) | BITS(B));
    cr_expect(tries());
    trial_route_end(&plan);
    tca_layout_free(other);
}

Test(trial_rails, frozen_takes_what_is_known)
{
    start_ns[B] = 10000;
    begin(BITS(A) | BITS(B));
    settle();
    session.settings.tune = TUNE_FROZEN;
    begin(BITS(A) | BITS(B));
    starts(1);
    cr_expect(!tries() && tcad.bound[0] == B);
    session.wisdom->count = session.wisdom->added = 0;
    begin(BITS(A) | BITS(B));
    starts(100);
    cr_expect(!tries() && tcad.bound[0] == A && tcad.requests == 0);
    cr_expect_eq(session.wisdom->count, 0);
}

Test(trial_rails, equal_chains_move_together)
{
    prepare(2);
    start_ns[B] = 10000;
    cr_assert(trial_route_known(&plan, TCA_SEAT_ANY, &known));
    commit(BITS(A) | BITS(B));
    settle();
    cr_expect(tcad.bound[0] == B && tcad.bound[1] == B);
    cr_expect_eq(session.wisdom->count, 1);
}

/* Each is judged by itself, although both are in every start. */
Test(trial_rails, different_chains_try_one_after_the_other)
{
    struct tca_layout *other;
    cr_assert_eq(tca_layout_contiguous(8, &other), 0);
    prepare(2);
    steps[1].put.source_layout = steps[1].put.target_layout = other;
    start_ns[B] = 10000;
    cr_assert(trial_route_known(&plan, TCA_SEAT_ANY, &known));
    commit(BITS(A) | BITS(B));
    starts(50);
    cr_expect_eq(tcad.bound[1], A, "its turn has not come");
    settle();
    cr_expect(tcad.bound[0] == B && tcad.bound[1] == B);
    cr_expect_eq(session.wisdom->count, 2);
    trial_route_end(&plan);
    tca_layout_free(other);
}

Test(trial_rails, a_rail_is_lost_and_comes_back)
{
    start_ns[B] = 10000;
    begin(BITS(A) | BITS(B));
    starts(30);
    tcad.rails[0] = 0; /* one is left */
    tcad.bound[0] = A;
    send_event(&plan, 0);
    starts(1);
    cr_expect(!tries(), "there is no choice");
    tcad.rails[0] = BITS(A) | BITS(B);
    send_event(&plan, 0);
    cr_expect(tries());
    settle();
    cr_expect_eq(tcad.bound[0], B);
    tcad.rails[0] = 0;
    tcad.bound[0] = A;
    send_event(&plan, 0);
    tcad.rails[0] = BITS(A) | BITS(B);
    send_event(&plan, 0);
    starts(1);
    cr_expect(!tries() && tcad.bound[0] == B, "that was known");
}

Test(trial_rails, a_rail_comes_amid_a_trial)
{
    start_ns[C] = 10000;
    begin(BITS(A) | BITS(B));
    starts(30);
    cr_expect(tries());
    tcad.rails[0] |= BITS(C);
    send_event(&plan, 0);
    settle();
    cr_expect_eq(tcad.bound[0], C);
}

/* It has no lines of its own yet. */
Test(trial_rails, a_commit_that_fails_hides_nothing)
{
    begin(BITS(A) | BITS(B));
    settle();
    cr_assert_eq(session.segment->trials[trial_line_of(0, 0)].plan, 1);
    struct tca_plan failed = {.session = &session, .state = PLAN_BUILDING};
    cr_assert(trial_route_known(&failed, TCA_SEAT_ANY, &known));
    trial_route_end(&failed);
    cr_expect_eq(session.segment->trials[trial_line_of(0, 0)].plan, 1);
    trial_route_end(&plan);
    cr_expect_eq(session.segment->trials[trial_line_of(0, 0)].plan, 0);
}

Test(trial_rails, rails_that_flap_are_not_worth_it)
{
    for (unsigned i = 0; i < 3; i++)
        start_ns[A + i] = 20000 + i;
    begin(BITS(A) | BITS(B));
    for (unsigned i = 0; i < 100; i++) {
        starts(30);
        tcad.rails[0] ^= i % 2 ? BITS(C) : BITS(B);
        send_event(&plan, 0);
    }
    cr_expect(!tries());
}

/* tcad could not move it there: it stays where it was before. */
Test(trial_rails, a_rail_that_leads_nowhere)
{
    begin(BITS(A) | BITS(B));
    tcad.rails[0] = BITS(A);
    for (unsigned i = 0; i < 2000 && tries(); i++) {
        tcad.rails[0] = BITS(A);
        if (plan.flags & PLAN_TRIES)
            trial_route_start(&plan);
        if (tcad.asked) {
            tcad.asked = false;
            tcad.rails[0] = BITS(A) | BITS(B); /* and does not know why */
            send_event(&plan, 0);
        }
        now_ns += 20000;
    }
    cr_expect(!tries());
    cr_expect_eq(tcad.wanted, A);
    cr_expect_eq(session.wisdom->count, 0, "nothing was found");
}

/* The answer to an earlier request says nothing about this one. */
Test(trial_rails, late_answers_do_not_count)
{
    begin(BITS(A) | BITS(B));
    while (!tcad.asked)
        trial_route_start(&plan);
    const unsigned requests = tcad.requests;
    tcad.turn--;
    for (unsigned i = 0; i < 100; i++) {
        send_event(&plan, 0);
        trial_route_start(&plan);
        now_ns += 20000;
    }
    cr_expect_eq(tcad.requests, requests, "it still waits");
    tcad.turn++;
    settle();
}

/* The socket is full: the next start asks again. */
Test(trial_rails, requests_that_could_not_be_sent)
{
    start_ns[B] = 10000;
    begin(BITS(A) | BITS(B));
    for (unsigned i = 0; i < STARTS_MAX && tries(); i++) {
        tcad.deaf = i % 3 != 0;
        starts(1);
    }
    cr_expect(!tries() && tcad.bound[0] == B && tcad.found);
}

/* While one has moved, the other's starts would take longer. */
Test(trial_rails, the_plans_of_a_session_take_turns)
{
    begin(BITS(A) | BITS(B));
    others[0] = plan;
    plan.route_trial = NULL;
    begin(BITS(A) | BITS(B));
    starts(100);
    cr_expect_eq(session.tries, &plan);
    const unsigned requests = tcad.requests;
    for (unsigned i = 0; i < 100; i++)
        trial_route_start(&others[0]);
    cr_expect_eq(tcad.requests, requests);
    settle();
    cr_expect_null(session.tries);
    for (unsigned i = 0; i < 10; i++)
        trial_route_start(&others[0]);
    cr_expect_eq(session.tries, &others[0]);
    begin(BITS(A) | BITS(C));
    starts(20);
    cr_expect_eq(session.tries, &others[0]);
    now_ns += 2000000000; /* it is not started any more */
    starts(20);
    cr_expect_eq(session.tries, &plan);
}

Test(trial_rails, nonsense_from_tcad)
{
    begin(BITS(A) | BITS(B));
    tcad.chains = 2;
    send_event(&plan, 0);
    tcad.chains = 0;
    send_event(&plan, 0);
    tcad.chains = 1;
    tcad.bound[0] = RAILS + 1;
    tcad.rails[0] = UINT32_MAX;
    send_event(&plan, 0);
    tcad.bound[0] = A;
    send_event(&plan, 0);
    settle();
    cr_expect_leq(tcad.wanted, RAILS);
}
