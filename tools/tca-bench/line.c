#include "tools/tca-bench/line.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tools/tca-bench/work.h"

#define BATCHES 101
#define ROUNDS  200
#define STOP    UINT64_MAX
#define ENOUGH  50000000u /* ns; the processors are busy */

struct cpus cpus_default(void)
{
    struct cpus cpus = {{-1, -1}};
    cpu_set_t set;
    int found = 0;

    if (sched_getaffinity(0, sizeof(set), &set) < 0)
        return cpus;
    for (int cpu = 0; cpu < CPU_SETSIZE && found < 2; cpu++)
        if (CPU_ISSET(cpu, &set))
            cpus.cpu[found++] = cpu;
    if (found == 1)
        cpus.cpu[1] = cpus.cpu[0];
    return cpus;
}

int cpus_parse(const char *text, struct cpus *ret_cpus)
{
    struct cpus cpus = {{-1, -1}};
    int end = -1;

    if (strcmp(text, "none") != 0) {
        if (sscanf(text, "%4d,%4d%n", &cpus.cpu[0], &cpus.cpu[1], &end) != 2 || end < 0 ||
            text[end])
            return -EINVAL;
        for (int i = 0; i < 2; i++)
            if (cpus.cpu[i] < 0 || cpus.cpu[i] >= CPU_SETSIZE)
                return -EINVAL;
    }
    *ret_cpus = cpus;
    return 0;
}

int cpu_pin(int cpu)
{
    cpu_set_t set;

    if (cpu < 0)
        return 0;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    return sched_setaffinity(0, sizeof(set), &set) < 0 ? -errno : 0;
}

/* What one of the two threads writes and the other reads. */
struct way {
    _Alignas(128) _Atomic uint64_t turn;
    _Alignas(128) _Atomic uint64_t data;
};

struct side {
    struct way *in, *out; /* the same one: the threads share a line */
    bool data;
    int cpu;
};

/* The acquire of each side pairs with the other side's release. Returns false if the other side has
 * stopped. Yields only after many spins, when the other side apparently has no processor. */
static bool pass(const struct side *side, uint64_t turn)
{
    uint64_t seen;

    for (unsigned spins = 1;; spins++) {
        seen = atomic_load_explicit(&side->in->turn, memory_order_acquire);
        if (seen == turn || seen == STOP)
            break;
        if (spins % 16384 == 0)
            sched_yield();
    }
    if (seen == STOP)
        return false;
    if (side->data) {
        uint64_t data = atomic_load_explicit(&side->in->data, memory_order_relaxed);
        atomic_store_explicit(&side->out->data, data + 1, memory_order_relaxed);
    }
    atomic_store_explicit(&side->out->turn, turn + 1, memory_order_release);
    return true;
}

static void *answer(void *argument)
{
    const struct side *side = argument;

    cpu_pin(side->cpu);
    for (uint64_t turn = 1; pass(side, turn); turn += 2)
        ;
    return NULL;
}

/* `here` is this thread's side, `there` that of a second thread. */
static double measure(const struct side *here, struct side *there)
{
    uint64_t samples[BATCHES];
    uint64_t turn = 0;
    int batches = 0;
    cpu_set_t before;
    pthread_t thread;

    if (here->cpu == there->cpu || sched_getaffinity(0, sizeof(before), &before) < 0)
        return 0;
    if (pthread_create(&thread, NULL, answer, there) != 0)
        return 0;
    cpu_pin(here->cpu);
    for (uint64_t begin_ns = now_ns(), start_ns = begin_ns;
         batches < BATCHES && start_ns - begin_ns < ENOUGH; start_ns = now_ns()) {
        for (int round = 0; round < ROUNDS; round++, turn += 2)
            pass(here, turn);
        samples[batches++] = now_ns() - start_ns;
    }
    /* the second thread has stored its last turn and waits */
    while (atomic_load_explicit(&here->in->turn, memory_order_acquire) != turn)
        ;
    atomic_store_explicit(&here->out->turn, STOP, memory_order_release);
    pthread_join(thread, NULL);
    sched_setaffinity(0, sizeof(before), &before);
    return (double)median_of(samples, (uint64_t)batches) / (2 * ROUNDS);
}

static struct cpus cpus_or_default(const struct cpus *wanted)
{
    return wanted->cpu[0] < 0 ? cpus_default() : *wanted;
}

double line_ns(const struct cpus *wanted)
{
    const struct cpus cpus = cpus_or_default(wanted);
    struct way line = {0};
    const struct side here = {.in = &line, .out = &line, .cpu = cpus.cpu[0]};
    struct side there = {.in = &line, .out = &line, .cpu = cpus.cpu[1]};

    return measure(&here, &there);
}

double stores_ns(const struct cpus *wanted)
{
    const struct cpus cpus = cpus_or_default(wanted);
    struct way ways[2] = {0};
    const struct side here = {.in = &ways[1], .out = &ways[0], .data = true, .cpu = cpus.cpu[0]};
    struct side there = {.in = &ways[0], .out = &ways[1], .data = true, .cpu = cpus.cpu[1]};

    return measure(&here, &there);
}
