/* Polling memory: counts polls, not times, which depend on other processes. */
#include <criterion/criterion.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/include/tca-api.h"
#include "client/include/tca.h"

enum {
    ROUNDS = 300,
    /* A time slice of polling without yielding has 50,000 polls. */
    LOOKS_EACH = 5000,
};

static void pause_natively(uint64_t round)
{
    tca_pause(round);
}

static void pause_as_the_tca_api_does(uint64_t round)
{
    if (round == 0)
        tcaReset(); /* a call between, without a session: it does nothing */
    tcaPollPause();
}

struct marks {
    _Atomic uint64_t here, there;
};

static uint64_t wait_for(_Atomic uint64_t *mark, uint64_t value, void (*pause_once)(uint64_t))
{
    uint64_t looks = 0;
    while (atomic_load_explicit(mark, memory_order_acquire) < value)
        pause_once(looks++);
    return looks;
}

static void stay_on_one_core(void)
{
    cpu_set_t cpus;
    int cpu = 0;
    cr_assert_eq(sched_getaffinity(0, sizeof(cpus), &cpus), 0);
    while (!CPU_ISSET(cpu, &cpus))
        cpu++;
    CPU_ZERO(&cpus);
    CPU_SET(cpu, &cpus);
    cr_assert_eq(sched_setaffinity(0, sizeof(cpus), &cpus), 0);
}

/* Two threads that wait for each other on one core. Returns how many polls of one were
 * unsuccessful. */
static uint64_t take_turns(void (*pause_once)(uint64_t))
{
    struct marks *marks =
        mmap(NULL, sizeof(*marks), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(marks, MAP_FAILED);
    stay_on_one_core();
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        for (uint64_t round = 1; round <= ROUNDS; round++) {
            wait_for(&marks->there, round, pause_once);
            atomic_store_explicit(&marks->here, round, memory_order_release);
        }
        _exit(0);
    }
    uint64_t looks = 0;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        atomic_store_explicit(&marks->there, round, memory_order_release);
        looks += wait_for(&marks->here, round, pause_once);
    }
    cr_assert_eq(waitpid(child, NULL, 0), child);
    munmap(marks, sizeof(*marks));
    return looks;
}

Test(pause, whoever_polls_gives_the_core_to_whom_it_waits_for)
{
    cr_assert_lt(take_turns(pause_natively), ROUNDS * LOOKS_EACH);
}

Test(pause, so_does_what_programs_of_the_tca_api_call)
{
    cr_assert_lt(take_turns(pause_as_the_tca_api_does), ROUNDS * LOOKS_EACH);
}

/* With a process that computes all the time, each yield would cost a slice: polling sleeps briefly
 * instead. */
Test(pause, beside_somebody_who_computes)
{
    stay_on_one_core();
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0)
        for (;;)
            ;
    uint64_t looks = take_turns(pause_natively);
    kill(child, SIGKILL);
    cr_assert_eq(waitpid(child, NULL, 0), child);
    cr_assert_lt(looks, ROUNDS * LOOKS_EACH);
}

Test(pause, any_round_may_come_first)
{
    tca_pause(1000000);
    tca_pause(UINT64_MAX);
    tca_pause(0);
}
