/*
 * waits message|condition|failure|late: rank 0 of a group of three waits for rank 1, which takes a
 * second.
 *   message    by tca_msg_wait(): it sleeps until the message arrives
 *   condition  by tca_wait_until() for a notification: likewise
 *   failure    likewise, for a notification that does not come, while a start fails because rank 2
 *              kills itself
 *   late       starts of plans that wait for rank 2, committed after its end, fail
 * Ends with 0, or prints what was wrong.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "client/include/tca-msg.h"
#include "tests/integration/expect.h"

enum { BYTES = 8, MILLISECONDS_PER_SLEEP = 50, SLEEPS_ANYWAY = 20, TRIES = 20 };

static struct tca *session;

static long sleeps(void)
{
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;
}

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* A sleep ends by a wake-up or after a tenth of a second: there are few, however long it took. */
static void few_sleeps(long count, uint64_t ms, const char *what)
{
    const long most = SLEEPS_ANYWAY + (long)(ms / MILLISECONDS_PER_SLEEP);
    if (count <= most)
        return;
    printf("rank %u: %s slept %ld times in %llu ms, more than %ld\n", rank, what, count,
           (unsigned long long)ms, most);
    wrong = 1;
}

static void delay(void)
{
    nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
}

/* ---- a message */

static void message(void)
{
    uint8_t data[BYTES] = {0};
    const struct tca_msg_buffer buffer = {.address = data, .bytes = BYTES};
    struct tca_msg *msg;
    struct tca_msg_request *request;
    check(tca_msg_new(session, NULL, &msg), "messenger");
    if (rank == 0) {
        const long before = sleeps();
        const uint64_t before_ms = now_ms();
        check(tca_msg_recv(msg, 1, 0, &buffer, &request), "receive");
        check(tca_msg_wait(request, TCA_DEFAULT), "wait");
        few_sleeps(sleeps() - before, now_ms() - before_ms, "tca_msg_wait()");
        tca_msg_release(request);
    } else if (rank == 1) {
        delay();
        check(tca_msg_send(msg, 0, 0, &buffer, &request), "send");
        check(tca_msg_wait(request, TCA_DEFAULT), "wait");
        tca_msg_release(request);
    }
    check(tca_barrier(session, TCA_DEFAULT), "barrier");
    tca_msg_free(msg);
}

/* ---- conditions */

static struct tca_plan *notifier(uint32_t to)
{
    struct tca_plan *plan;
    check(tca_plan_new(session, NULL, &plan), "plan");
    check(tca_plan_notify(plan, to, 0), "notify");
    check(tca_plan_commit(plan, TCA_DEFAULT), "commit");
    return plan;
}

static int arrived(void *context)
{
    (void)context;
    return tca_notified(session, 1, 0);
}

static int arrived_or_failed(void *context)
{
    int r = tca_test(context);
    return r < 0 ? r : tca_notified(session, 1, 0);
}

/* A start that waits for a rank. */
static struct tca_plan *waiter(uint32_t from)
{
    struct tca_plan *plan;
    check(tca_plan_new(session, NULL, &plan), "plan");
    check(tca_plan_wait(plan, from, 1, 1), "wait step");
    check(tca_plan_commit(plan, TCA_DEFAULT), "commit");
    check(tca_start(plan), "start");
    return plan;
}

/* A condition that itself waits, unsuccessfully. */
static int fifth_time(void *context)
{
    static int calls;
    int r = tca_wait(context, 1000000);
    if (r == -ETIMEDOUT)
        return ++calls == 5;
    printf("the wait in a wait returned %d\n", r);
    return -EPROTO;
}

static void nested(void)
{
    struct tca_plan *plan = waiter(1);
    check(tca_wait_until(session, fifth_time, plan, TCA_DEFAULT), "nested waits");
    check(tca_plan_cancel(plan), "cancel");
}

static void condition(void)
{
    struct tca_plan *plan = notifier(0);
    if (rank == 1) {
        delay();
        check(tca_start(plan), "start");
    }
    if (rank == 0) {
        const long before = sleeps();
        const uint64_t before_ms = now_ms();
        int r = tca_wait_until(session, arrived, NULL, 0);
        if (r != -ETIMEDOUT) {
            printf("without time it returned %d\n", r);
            wrong = 1;
        }
        check(tca_wait_until(session, arrived, NULL, TCA_FOREVER), "wait");
        few_sleeps(sleeps() - before, now_ms() - before_ms, "tca_wait_until()");
        nested();
    }
    check(tca_barrier(session, TCA_DEFAULT), "barrier");
}

static void run(struct tca_plan *plan)
{
    check(tca_start(plan), "start");
    check(tca_wait(plan, TCA_DEFAULT), "wait");
}

/* Rank 2 kills itself; rank 1 stays until rank 0 has run the plan that it gets. NULL: the other
 * ranks. */
static struct tca_plan *last_dies(void)
{
    struct tca_plan *done = notifier(1);
    check(tca_barrier(session, TCA_DEFAULT), "barrier");
    if (rank == 2)
        kill(getpid(), SIGKILL);
    if (rank == 0)
        return done;
    check(tca_notified_wait(session, 0, 0, TCA_DEFAULT), "the end");
    return NULL;
}

static void failure(void)
{
    struct tca_plan *from_last = rank == 0 ? waiter(2) : NULL;
    struct tca_plan *done = last_dies();
    if (!done)
        return;
    expect(tca_wait_until(session, arrived_or_failed, from_last, TCA_DEFAULT), -EOWNERDEAD, NULL,
           "tca_wait_until()");
    run(done);
}

static void late(void)
{
    struct tca_plan *done = last_dies();
    if (!done)
        return;
    int r = tca_notified_wait(session, 2, 0, TCA_DEFAULT);
    for (int i = 0; i < TRIES && r == -EOWNERDEAD; i++) {
        struct tca_plan *plan;
        check(tca_plan_new(session, NULL, &plan), "plan");
        check(tca_plan_wait(plan, 2, 1, 1), "wait step");
        r = tca_plan_commit(plan, TCA_DEFAULT);
        if (r >= 0)
            r = tca_start(plan); /* before or after tcad has reported that it is broken */
        if (r >= 0)
            r = tca_wait(plan, TCA_DEFAULT);
        tca_plan_free(plan);
    }
    expect(r, -EOWNERDEAD, NULL, "a plan that waits for an ended process");
    run(done);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 1;
    check(tca_open(NULL, &session), "open");
    rank = tca_rank(session);
    if (strcmp(argv[1], "message") == 0)
        message();
    else if (strcmp(argv[1], "condition") == 0)
        condition();
    else if (strcmp(argv[1], "failure") == 0)
        failure();
    else
        late();
    tca_close(session);
    return wrong;
}
