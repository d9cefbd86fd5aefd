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

/* As in the comment of plan.h; the code has its own table. Every row may be left for the next one
 * where the plan breaks or is released. */
static const enum plan_state commit[] = {PLAN_NEW,         PLAN_PARSING,   PLAN_BINDING,
                                         PLAN_REGISTERING, PLAN_PREPARING, PLAN_MAPPING,
                                         PLAN_READY};
static const enum plan_state move[] = {PLAN_PAUSING,        PLAN_MOVE_FLUSHING,
                                       PLAN_MOVE_STRIPPING, PLAN_MOVE_REGISTERING,
                                       PLAN_MOVE_PREPARING, PLAN_READY};
/* A plan that its client puts itself gets tcad's seat, too, and loses it. */
static const enum plan_state join[] = {PLAN_READY, PLAN_MOVE_BINDING, PLAN_MOVE_REGISTERING,
                                       PLAN_MOVE_PREPARING, PLAN_READY};
static const enum plan_state rise[] = {PLAN_READY, PLAN_MOVE_BINDING, PLAN_MOVE_MAPPING,
                                       PLAN_READY};
static const enum plan_state part[] = {PLAN_MOVE_STRIPPING, PLAN_MOVE_UNBINDING, PLAN_READY};
static const enum plan_state end[] = {PLAN_BREAKING, PLAN_BREAK_FLUSHING, PLAN_BREAK_STRIPPING,
                                      PLAN_BROKEN};
static const enum plan_state release[] = {PLAN_LEAVING, PLAN_LEAVE_FLUSHING, PLAN_LEAVE_STRIPPING,
                                          PLAN_GONE};

static bool follows(const enum plan_state *row, size_t count, enum plan_state from,
                    enum plan_state to)
{
    for (size_t i = 1; i < count; i++)
        if (row[i - 1] == from && row[i] == to)
            return true;
    return false;
}

#define FOLLOWS(row, from, to) follows(row, sizeof(row) / sizeof(row)[0], from, to)

static bool expected(enum plan_state from, enum plan_state to)
{
    if (from >= PLAN_STATES || to >= PLAN_STATES)
        return false;
    if (FOLLOWS(commit, from, to) || FOLLOWS(move, from, to) || FOLLOWS(join, from, to) ||
        FOLLOWS(part, from, to) || FOLLOWS(rise, from, to) || FOLLOWS(end, from, to) ||
        FOLLOWS(release, from, to))
        return true;
    if (to == PLAN_MOVE_STRIPPING) /* tcad's seat cannot be had after all */
        return from == PLAN_MOVE_BINDING || from == PLAN_MOVE_REGISTERING ||
               from == PLAN_MOVE_PREPARING || from == PLAN_MOVE_FLUSHING;
    if (from == PLAN_REGISTERING && to == PLAN_MAPPING) /* the client runs all of it */
        return true;
    if (from == PLAN_FALLING_BACK && to == PLAN_REGISTERING)
        return true;
    if (from == PLAN_MOVE_BINDING && to == PLAN_READY) /* the client can have no pair yet */
        return true;
    if (from == PLAN_BINDING && to == PLAN_FALLING_BACK) /* it had better not */
        return true;
    if (from == PLAN_READY && (to == PLAN_PAUSING || to == PLAN_RESTING))
        return true;
    if (from == PLAN_RESTING &&
        (to == PLAN_READY || to == PLAN_MOVE_FLUSHING || to == PLAN_PAUSING))
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
    static const enum plan_state waiting[] = {PLAN_READY, PLAN_RESTING, PLAN_BROKEN};
    for (size_t i = 0; i < sizeof waiting / sizeof waiting[0]; i++) {
        struct plan plan = {.state = waiting[i], .error = waiting[i] == PLAN_BROKEN ? -ESTALE : 0};
        plan_advance(&plan);
        cr_assert_eq(plan.state, waiting[i]);
    }
    struct plan plan = {
        .state = PLAN_PAUSING, .pending = 1, .error = -ESTALE, .release_asked = true};
    plan_advance(&plan);
    cr_assert_eq(plan.state, PLAN_PAUSING, "what is pending is not interrupted");
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
        struct plan_unit unit = {.node = 1, .rails = 1u << 2, .link = &link};
        struct plan plan = {
            .tcad = &tcad, .state = state, .pending = 1, .units = &unit, .unit_count = 1};
        struct loop_post post;
        cr_assert_eq(plan_use_unit(&plan, &unit), 0);
        plans_link_gone(&tcad, 1, 2, -ENETDOWN);
        loop_post_own(tcad.loop, &post, end_loop, NULL);
        cr_assert_eq(loop_run(tcad.loop), 0);
        cr_assert_eq(unit.lost, 1u << 2, "%s", plan_state_name(state));
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
    memset(text, letter, sizeof text);
    text[sizeof text - 1] = 0;
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
    failing = calloc(FAIL_ROUNDS, sizeof *failing);
    cr_assert(failing);
    cr_assert_eq(pthread_create(&worker, NULL, fail_on_the_worker, NULL), 0);
    fail_together(-ESTALE, 's');
    pthread_join(worker, NULL);
    for (int round = 0; round < FAIL_ROUNDS; round++) {
        const struct plan *plan = &failing[round].plan;
        const char letter = plan->error == -ESTALE ? 's' : 'n';
        cr_assert(plan->error == -ESTALE || plan->error == -ENETDOWN);
        for (int i = 0; i < 399; i++)
            cr_assert_eq(plan->error_text[i], letter, "round %d, byte %d", round, i);
    }
    free(failing);
}
