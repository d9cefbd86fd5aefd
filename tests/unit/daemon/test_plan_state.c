#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/base/loop.h"
#include "daemon/plans/plan_internal.h"
#include "daemon/rails/rails.h"
#include "daemon/tcad.h"

/* As in the comments of plan.h and plan_move.h; the code has its own tables. Every row may be left
 * for the next one where the plan breaks or is released. */
static const enum plan_state commit[] = {PLAN_NEW,         PLAN_PARSING,   PLAN_BINDING,
                                         PLAN_REGISTERING, PLAN_PREPARING, PLAN_MAPPING,
                                         PLAN_READY};
static const enum plan_state end[] = {PLAN_BREAKING, PLAN_BREAK_FLUSHING, PLAN_BREAK_STRIPPING,
                                      PLAN_BROKEN};
static const enum plan_state release[] = {PLAN_LEAVING, PLAN_LEAVE_FLUSHING, PLAN_LEAVE_STRIPPING,
                                          PLAN_GONE};

#define FOLLOWS(row, from, to) follows(row, sizeof(row) / sizeof(row)[0], from, to)
static bool follows(const enum plan_state *row, size_t count, enum plan_state from,
                    enum plan_state to)
{
    for (size_t i = 1; i < count; i++)
        if (row[i - 1] == from && row[i] == to)
            return true;
    return false;
}

static bool expected(enum plan_state from, enum plan_state to)
{
    if (from >= PLAN_STATES || to >= PLAN_STATES)
        return false;
    if (FOLLOWS(commit, from, to) || FOLLOWS(end, from, to) || FOLLOWS(release, from, to))
        return true;
    if (from == PLAN_REGISTERING && to == PLAN_MAPPING) /* the client runs all of it */
        return true;
    if (to == PLAN_BREAKING)
        return from >= PLAN_READY && from < PLAN_BREAKING;
    return to == PLAN_LEAVING && from > PLAN_NEW && from < PLAN_LEAVING;
}

Test(plan_state, every_pair)
{
    for (int from = 0; from <= PLAN_STATES; from++)
        for (int to = 0; to <= PLAN_STATES; to++)
            cr_assert_eq(plan_state_legal(from, to), expected(from, to), "%d (%s) to %d (%s)", from,
                         plan_state_name(from), to, plan_state_name(to));
}

/* A plan can be released in every state, and break once its client has it. */
Test(plan_state, ends_from_everywhere)
{
    for (int state = PLAN_PARSING; state < PLAN_LEAVING; state++) {
        cr_assert(plan_state_legal(state, PLAN_LEAVING), "%d", state);
        if (state >= PLAN_READY && state < PLAN_BREAKING)
            cr_assert(plan_state_legal(state, PLAN_BREAKING), "%d", state);
    }
    for (int state = 0; state < PLAN_STATES; state++)
        cr_assert_not(plan_state_legal(PLAN_GONE, state));
}

#ifndef NDEBUG
/* In a process of its own, because it aborts. */
static void check_aborts(struct plan plan, enum plan_state to)
{
    int status = 0;
    const pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        close(STDERR_FILENO);
        plan_enter(&plan, to);
        _exit(0);
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert_neq(status, 0, "%d to %d", plan.state, to);
}

Test(plan_state, illegal_transition_aborts)
{
    check_aborts((struct plan){.state = PLAN_BROKEN}, PLAN_READY);
    check_aborts((struct plan){.state = PLAN_NEW}, PLAN_BROKEN);
}

Test(plan_state, transition_with_something_pending_aborts)
{
    check_aborts((struct plan){.state = PLAN_BREAK_STRIPPING, .pending = 1}, PLAN_BROKEN);
}
#endif

/* A plan that waits for an event does not advance otherwise. */
Test(plan_state, waits)
{
    static const enum plan_state waiting[] = {PLAN_READY, PLAN_BROKEN};
    for (size_t i = 0; i < sizeof(waiting) / sizeof(waiting[0]); i++) {
        struct plan plan = {.state = waiting[i], .error = waiting[i] == PLAN_BROKEN ? -ESTALE : 0};
        plan_advance(&plan);
        cr_assert_eq(plan.state, waiting[i]);
    }
    struct plan resting = {.state = PLAN_READY, .move = {.state = ROUTE_RESTING}};
    plan_advance(&resting);
    cr_assert_eq(resting.move.state, ROUTE_RESTING);
    struct plan plan = {.state = PLAN_READY,
                        .move = {.state = ROUTE_PAUSING},
                        .pending = 1,
                        .error = -ESTALE,
                        .release_asked = true};
    plan_advance(&plan);
    cr_assert_eq(plan.state, PLAN_READY, "what is pending is not interrupted");
    cr_assert_eq(plan.move.state, ROUTE_PAUSING);
}

/* ---- moves ---- */

/* A row of letters per state, in their order: the legal next states. */
Test(plan_state, every_pair_of_a_move)
{
    static const char *const becomes[ROUTE_STATES] = {
        [ROUTE_SETTLED] = ".RP....B..",   [ROUTE_RESTING] = "S.PF......",
        [ROUTE_PAUSING] = "...F......",   [ROUTE_FLUSHING] = "....S.....",
        [ROUTE_STRIPPING] = ".....R...U", [ROUTE_REGISTERING] = "....S.P...",
        [ROUTE_PREPARING] = "S...S.....", [ROUTE_BINDING] = "....SR..MU",
        [ROUTE_MAPPING] = "S........U",   [ROUTE_UNBINDING] = "S.........",
    };
    for (int from = 0; from <= ROUTE_STATES; from++)
        for (int to = 0; to <= ROUTE_STATES; to++)
            cr_assert_eq(plan_move_legal(from, to),
                         from < ROUTE_STATES && to < ROUTE_STATES && becomes[from][to] != '.',
                         "%d to %d", from, to);
}

/* An attempt that fails leaves the plan in the seat that it has, without an error of its own; in
 * none, it is the plan's. */
Test(plan_state, an_attempt_that_fails)
{
    static const struct {
        unsigned seats, next; /* had, and to be had */
        enum route_state state;
        unsigned left;
    } cases[] = {
        {SEAT_BIT(SEAT_CLIENT), BOTH_SEATS, ROUTE_BINDING, SEAT_BIT(SEAT_CLIENT)},
        {SEAT_BIT(SEAT_CLIENT), BOTH_SEATS, ROUTE_REGISTERING, SEAT_BIT(SEAT_CLIENT)},
        {SEAT_BIT(SEAT_CLIENT), BOTH_SEATS, ROUTE_PREPARING, SEAT_BIT(SEAT_CLIENT)},
        {SEAT_BIT(SEAT_DAEMON), BOTH_SEATS, ROUTE_BINDING, SEAT_BIT(SEAT_DAEMON)},
        {SEAT_BIT(SEAT_DAEMON), BOTH_SEATS, ROUTE_MAPPING, SEAT_BIT(SEAT_DAEMON)},
        {BOTH_SEATS, BOTH_SEATS, ROUTE_REGISTERING, SEAT_BIT(SEAT_CLIENT)}, /* its rail was lost */
        {SEAT_BIT(SEAT_DAEMON), SEAT_BIT(SEAT_DAEMON), ROUTE_REGISTERING, 0},
        {0, 0, ROUTE_PREPARING, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct plan plan = {.seats = cases[i].seats,
                            .move = {.seats = cases[i].next, .state = cases[i].state}};
        cr_assert_eq(plan_seats_left(&plan), cases[i].left, "case %zu", i);
    }
}

static struct tcad tcad;

static void end_loop(void *context)
{
    loop_stop(tcad.loop);
}

/* The loss of a rail during a commit or a move is only noted: the plan moves when it is ready. */
Test(plan_state, a_lost_rail_ends_no_commit)
{
    static struct rails rails = {.count = 2, .last = 2, .at = {[2] = {.name = "ofi"}}};
    tcad.rails = &rails;
    cr_assert_eq(loop_new(&tcad.loop), 0);
    tcad.plan_uses.loop = tcad.loop;
    for (int state = PLAN_REGISTERING; state < PLAN_BREAKING; state++) {
        struct link link = {.node = 1, .rail = 2, .state = LINK_FAILED};
        struct plan_transfer transfer = {.node = 1, .rails = 1u << 2, .link = &link};
        struct plan plan = {.tcad = &tcad,
                            .state = state,
                            .pending = 1,
                            .transfers = &transfer,
                            .transfer_count = 1};
        struct loop_post post;
        cr_assert_eq(plan_use_transfer(&plan, &transfer), 0);
        plans_link_gone(&tcad, 1, 2, -ENETDOWN);
        loop_post_own(tcad.loop, &post, end_loop, NULL);
        cr_assert_eq(loop_run(tcad.loop), 0);
        cr_assert_eq(transfer.lost, 1u << 2, "%s", plan_state_name(state));
        cr_assert_eq(plan.error, 0, "%s: %s", plan_state_name(state), plan.error_text);
        cr_assert_eq(plan.lost_error, -ENETDOWN);
        plan_use_less(&plan, UINT32_MAX);
    }
    uses_deinit(&tcad.plan_uses);
    loop_free(tcad.loop);
}

/* A row of letters per state, in their order: the legal next states. */
Test(plan_state, every_pair_in_the_engine)
{
    static const char *const becomes[ENGINE_PLAN_STATES] = {
        [ENGINE_PLAN_OPEN] = ".RPBL",    [ENGINE_PLAN_RESTING] = "..PBL",
        [ENGINE_PLAN_PAUSED] = "O.PBL",  [ENGINE_PLAN_BROKEN] = "....L",
        [ENGINE_PLAN_LEAVING] = ".....",
    };
    for (int from = 0; from <= ENGINE_PLAN_STATES; from++)
        for (int to = 0; to <= ENGINE_PLAN_STATES; to++)
            cr_assert_eq(engine_plan_legal(from, to),
                         from < ENGINE_PLAN_STATES && to < ENGINE_PLAN_STATES &&
                             becomes[from][to] != '.',
                         "%d to %d", from, to);
}

Test(plan_state, names)
{
    for (int state = 0; state < PLAN_STATES; state++)
        cr_assert(strlen(plan_state_name(state)) > 1);
    cr_assert_str_eq(plan_state_name(PLAN_STATES), "?");
}

/* ---- errors of two threads: the worker fails while the loop receives a loss ---- */

enum { FAIL_ROUNDS = 20000 };

static struct failing {
    struct plan plan;
    _Atomic int ready; /* threads in this round */
} * failing;

static void fail_together(int error, char letter)
{
    char text[400];
    memset(text, letter, sizeof(text));
    text[sizeof(text) - 1] = 0;
    for (int round = 0; round < FAIL_ROUNDS; round++) {
        atomic_fetch_add(&failing[round].ready, 1);
        for (int looks = 0; atomic_load(&failing[round].ready) < 2; looks++)
            if (looks > 1000) /* the other thread has lost its core */
                sched_yield();
        plan_fail(&failing[round].plan, error, "%s", text);
    }
}

static void *fail_on_the_worker(void *argument)
{
    fail_together(-ENETDOWN, 'n');
    return NULL;
}

Test(plan_state, fails_once, .timeout = 60)
{
    pthread_t worker;
    failing = calloc(FAIL_ROUNDS, sizeof(*failing));
    cr_assert(failing);
    cr_assert_eq(pthread_create(&worker, NULL, fail_on_the_worker, NULL), 0);
    fail_together(-ESTALE, 's');
    pthread_join(worker, NULL);
    for (int round = 0; round < FAIL_ROUNDS; round++) {
        const struct plan *plan = &failing[round].plan;
        const char letter = plan->attempt.error == -ESTALE ? 's' : 'n';
        cr_assert(plan->attempt.error == -ESTALE || plan->attempt.error == -ENETDOWN);
        for (int i = 0; i < 399; i++)
            cr_assert_eq(plan->attempt.text[i], letter, "round %d, byte %d", round, i);
    }
    free(failing);
}
