/*
 * A program that wakes a job which sleeps, and waits until that has done what it was asked for,
 * while another thread adds and removes jobs. What the threads hand over is plain memory, for the
 * thread sanitizer to look at.
 */
#include <errno.h>
#include <sched.h>
#include <stddef.h>

#include "client/core/helper.h"
#include "proto/wait.h"
#include "tests/unit/proto/stress.h"

struct asked {
    struct helper_job job;
    pthread_mutex_t lock;
    uint64_t asked, done;
};

static enum helper_next answer(struct helper_job *job)
{
    struct asked *asked = (struct asked *)((char *)job - offsetof(struct asked, job));
    pthread_mutex_lock(&asked->lock);
    asked->done = asked->asked;
    pthread_mutex_unlock(&asked->lock);
    return HELPER_SLEEPS;
}

static bool is_done(struct asked *asked)
{
    pthread_mutex_lock(&asked->lock);
    const bool done = asked->done == asked->asked;
    pthread_mutex_unlock(&asked->lock);
    return done;
}

static void ask(struct stress *stress)
{
    struct asked asked = {.job = {.turn = answer, .fd = -1}, .lock = PTHREAD_MUTEX_INITIALIZER};
    if (helper_add(&asked.job) < 0)
        stress_fail("no thread");
    for (uint64_t i = 0; i < stress->iterations; i++) {
        pthread_mutex_lock(&asked.lock);
        asked.asked++;
        pthread_mutex_unlock(&asked.lock);
        helper_wake(&asked.job);
        const uint64_t end_ns = clock_now_ns() + STRESS_LOST_NS;
        while (!is_done(&asked)) {
            if (clock_now_ns() > end_ns)
                stress_fail("a job was not woken, in round %llu", (unsigned long long)i);
            sched_yield();
        }
    }
    helper_remove(&asked.job);
}

static enum helper_next go_on(struct helper_job *job)
{
    return HELPER_GOES_ON;
}

static void come_and_go(struct stress *stress)
{
    for (uint64_t i = 0; i < stress->iterations / 16; i++) {
        struct helper_job jobs[2] = {{.turn = go_on, .fd = -1}, {.turn = go_on, .fd = -1}};
        if (helper_add(&jobs[0]) < 0 || helper_add(&jobs[1]) < 0)
            stress_fail("no thread");
        if (i % 4 == 0)
            sched_yield();
        helper_remove(&jobs[i % 2]);
        helper_remove(&jobs[(i + 1) % 2]);
    }
}

int main(int argc, char **argv)
{
    struct stress stress = {.iterations = argc > 1 ? strtoull(argv[1], NULL, 0) : 20000};
    stress_threads(&stress, ask, come_and_go);
    return 0;
}
