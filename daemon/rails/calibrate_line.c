/* Measures the time to pass a cache line between two cores. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "daemon/base/sort.h"
#include "daemon/rails/calibrate.h"
#include "proto/wait.h"

enum {
    LINE_ROUNDS = 2000,
    LINE_LOOKS = 1024, /* polls before yielding: there may be only one processor */
    LINE_UNKNOWN_NS = 100,
    LINE_MAX_NS = 2000, /* between processors; more is a switch of threads */
};
#define ENOUGH_NS 30000000ull

struct line_pair {
    _Alignas(64) _Atomic uint32_t value;
    _Atomic bool stop;
};

static void *line_other(void *context)
{
    struct line_pair *pair = context;
    uint32_t seen = 0;
    unsigned looks = 0;
    while (!atomic_load_explicit(&pair->stop, memory_order_relaxed)) {
        uint32_t value = atomic_load_explicit(&pair->value, memory_order_acquire);
        if (value == seen && ++looks % LINE_LOOKS == 0)
            sched_yield();
        if (value != seen && value % 2 == 1) {
            seen = value + 1;
            atomic_store_explicit(&pair->value, seen, memory_order_release);
        }
    }
    return NULL;
}

/* Other threads on these cores only add time, on busy ones to most rounds: nearly the shortest, but
 * not one that a clock of too coarse steps made short. */
double calibrate_undisturbed_ns(int64_t *ns, size_t count)
{
    if (count == 0)
        return LINE_UNKNOWN_NS;
    sort_ns(ns, count);
    return (double)ns[count / 100];
}

double calibrate_way_ns(double line_ns, unsigned processors)
{
    return processors > 1 && line_ns > LINE_MAX_NS ? LINE_UNKNOWN_NS : line_ns;
}

static unsigned processors(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof(set), &set) == 0 ? (unsigned)CPU_COUNT(&set) : 0;
}

double calibrate_line_ns(void)
{
    struct line_pair pair = {0};
    pthread_t thread;
    int64_t ns[LINE_ROUNDS];
    int count = 0;
    uint64_t started = clock_now_ns();
    unsigned looks = 0;

    if (pthread_create(&thread, NULL, line_other, &pair))
        return LINE_UNKNOWN_NS;
    for (; count < LINE_ROUNDS && clock_now_ns() - started < ENOUGH_NS; count++) {
        uint64_t sent = clock_now_ns(), now = sent;
        atomic_store_explicit(&pair.value, (uint32_t)(2 * count + 1), memory_order_release);
        while (atomic_load_explicit(&pair.value, memory_order_acquire) !=
                   (uint32_t)(2 * count + 2) &&
               now - started < 2 * ENOUGH_NS) {
            if (++looks % LINE_LOOKS == 0)
                sched_yield();
            now = clock_now_ns();
        }
        ns[count] = (int64_t)(clock_now_ns() - sent) / 2;
    }
    atomic_store_explicit(&pair.stop, true, memory_order_relaxed);
    pthread_join(thread, NULL);
    return calibrate_way_ns(calibrate_undisturbed_ns(ns, (size_t)count), processors());
}
