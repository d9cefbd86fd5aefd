/* The library's thread: jobs take turns on one thread, which is there while there are jobs. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client/core/helper.h"
#include "client/forks.h"

TestSuite(helper, .timeout = 120);

enum { JOBS = 5 };

struct counted {
    struct helper_job job; /* first */
    _Atomic enum helper_next next;
    _Atomic uint64_t turns;
    _Atomic pid_t thread;
};

static enum helper_next count_turn(struct helper_job *job)
{
    struct counted *counted = (struct counted *)job;
    counted->thread = gettid();
    counted->turns++;
    return counted->next;
}

static void add(struct counted *counted, enum helper_next next, int fd)
{
    *counted = (struct counted){.job = {.turn = count_turn, .fd = fd}, .next = next};
    cr_assert_eq(helper_add(&counted->job), 0);
}

/* Threads of this process with the helper's name. */
static unsigned helpers(void)
{
    unsigned count = 0;
    DIR *threads = opendir("/proc/self/task");
    for (const struct dirent *entry; (entry = readdir(threads));) {
        char path[300], name[32] = "";
        snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
        FILE *from = fopen(path, "r");
        if (from && fgets(name, sizeof(name), from))
            count += strcmp(name, "tca-helper\n") == 0;
        if (from)
            fclose(from);
    }
    closedir(threads);
    return count;
}

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

/* A thread that was joined can be listed for a moment: the kernel wakes those who join it first. */
static void await_no_helper(void)
{
    while (helpers() > 0)
        pause_ms(1);
}

static void await_turns(const struct counted *counted, uint64_t turns)
{
    while (counted->turns < turns)
        pause_ms(1);
}

Test(helper, one_thread_for_all)
{
    static const enum helper_next kinds[JOBS] = {HELPER_GOES_ON, HELPER_LOOKS, HELPER_NAPS,
                                                 HELPER_SLEEPS, HELPER_GOES_ON};
    static struct counted jobs[JOBS];
    for (unsigned round = 0; round < 20; round++) {
        await_no_helper();
        for (unsigned i = 0; i < JOBS; i++)
            add(&jobs[i], kinds[i], -1);
        for (unsigned i = 0; i < JOBS; i++) {
            await_turns(&jobs[i], kinds[i] == HELPER_SLEEPS ? 1 : 10);
            cr_assert_eq(jobs[i].thread, jobs[0].thread);
        }
        cr_assert_eq(helpers(), 1);
        for (unsigned i = 0; i < JOBS; i++) {
            const unsigned leaves = (i + round) % JOBS;
            helper_remove(&jobs[leaves].job);
            const uint64_t turns = jobs[leaves].turns;
            sched_yield();
            cr_assert_eq(jobs[leaves].turns, turns, "a turn after the end");
        }
        helper_remove(&jobs[0].job); /* once more: no effect */
    }
}

/* It is woken by a call or by its descriptor, whatever another job does. */
Test(helper, a_job_that_sleeps)
{
    static const enum helper_next others[] = {HELPER_SLEEPS, HELPER_NAPS, HELPER_LOOKS,
                                              HELPER_GOES_ON};
    static struct counted sleeper, other;
    for (unsigned i = 0; i < sizeof(others) / sizeof(*others); i++) {
        const int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        add(&other, others[i], -1);
        add(&sleeper, HELPER_SLEEPS, fd);
        for (unsigned round = 0; round < 200; round++) {
            const uint64_t turns = sleeper.turns;
            eventfd_t value;
            if (round % 2)
                helper_wake(&sleeper.job);
            else
                eventfd_write(fd, 1); /* until it is read */
            await_turns(&sleeper, turns + 1);
            eventfd_read(fd, &value);
        }
        helper_remove(&sleeper.job);
        helper_remove(&other.job);
        close(fd);
    }
}

/* Jobs come and go in several threads, and in turns. */
static void *come_and_go(void *none)
{
    for (unsigned i = 0; i < 500; i++) {
        struct counted here;
        add(&here, i % 2 ? HELPER_SLEEPS : HELPER_GOES_ON, -1);
        if (i % 3 == 0)
            await_turns(&here, 1);
        helper_remove(&here.job);
    }
    return none;
}

static struct counted added_in_a_turn;
static enum helper_next add_another(struct helper_job *job)
{
    if (!added_in_a_turn.job.added)
        add(&added_in_a_turn, HELPER_SLEEPS, -1);
    return HELPER_SLEEPS;
}

Test(helper, jobs_come_and_go)
{
    pthread_t threads[3];
    for (unsigned i = 0; i < 3; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, come_and_go, NULL), 0);
    for (unsigned i = 0; i < 200; i++) {
        struct helper_job adds = {.turn = add_another, .fd = -1};
        added_in_a_turn = (struct counted){0};
        cr_assert_eq(helper_add(&adds), 0);
        helper_remove(&adds);
        if (added_in_a_turn.job.added)
            helper_remove(&added_in_a_turn.job);
    }
    for (unsigned i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    await_no_helper();
}

/* A child has none of its parent's jobs, and may have its own. */
Test(helper, forked_children)
{
    static struct counted parents, own;
    forks_handle();
    add(&parents, HELPER_GOES_ON, -1);
    for (unsigned i = 0; i < 50; i++) {
        int status;
        const pid_t child = fork();
        if (child == 0) {
            helper_wake(&parents.job);
            helper_remove(&parents.job);
            if (helpers() != 0)
                _exit(1);
            add(&own, HELPER_GOES_ON, -1);
            await_turns(&own, 3);
            helper_remove(&own.job);
            await_no_helper();
            _exit(0);
        }
        cr_assert_eq(waitpid(child, &status, 0), child);
        cr_assert_eq(status, 0);
        await_turns(&parents, parents.turns + 1);
    }
    helper_remove(&parents.job);
}
