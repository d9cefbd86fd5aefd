/* Waiting for memory that others store into, where nobody wakes whoever waits. */
#include <stdbool.h>
#include <time.h>

#include "client/core/environment.h"
#include "client/include/tca.h"
#include "proto/wait.h"

enum {
    YIELD_NS = 2000000000,    /* where yields are free nobody misses the core; */
    YIELD_CROWDED_NS = 50000, /* where they hand it round, those who only look are in the way */
    NAP_LEAST_NS = 20000,
    NAP_MOST_NS = 1000000,
    NAP_PART = 8, /* of the wait so far: how much later than at once one learns of the store */
};

/* What each thread has learnt about who else wants its core. */
static _Thread_local struct {
    struct waiter waiter;
    bool known;
    bool crowded; /* in this wait */
} pausing;

static void begin(void)
{
    uint64_t spin_ns;
    if (!pausing.known) {
        if (variable_duration(VARIABLE_SPIN, 0, SPIN_NS_MOST, &spin_ns) < 0)
            spin_ns = 0; /* tca_open() has said so, or will */
        waiter_init(&pausing.waiter, (uint32_t)spin_ns, YIELD_NS);
        pausing.known = true;
    }
    waiter_begin(&pausing.waiter);
    pausing.crowded = false;
}

/* Whether yields have shown others who want the core, for long enough. */
static bool is_crowded(const struct waiter *waiter)
{
    return waiter->yields_from_ns != 0 && waiter->shrunk &&
           waiter->yielded_ns - waiter->yields_from_ns >= YIELD_CROWDED_NS;
}

/* Instead of the sleep that somebody would end. */
static void nap(const struct waiter *waiter)
{
    uint64_t nap_ns = (clock_now_ns() - waiter->started_ns) / NAP_PART;
    nap_ns = nap_ns < NAP_LEAST_NS ? NAP_LEAST_NS : nap_ns > NAP_MOST_NS ? NAP_MOST_NS : nap_ns;
    nanosleep(&(struct timespec){.tv_nsec = (long)nap_ns}, NULL);
}

void tca_pause(uint64_t round)
{
    if (round == 0 || !pausing.known)
        begin();
    core_pause();
    if (!pausing.crowded)
        pausing.crowded =
            waiter_step(&pausing.waiter) == WAITER_SLEEP || is_crowded(&pausing.waiter);
    if (pausing.crowded)
        nap(&pausing.waiter);
}
