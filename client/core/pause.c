#include "client/core/pause.h"

#include <stdbool.h>
#include <time.h>

#include "client/core/clock.h"
#include "client/core/environment.h"
#include "client/include/tca.h"
#include "proto/wait.h"

enum {
    YIELD_NS = 2000000000,    /* time of yields on an idle core, which disturb no one */
    YIELD_CROWDED_NS = 50000, /* time of yields on a shared core, where polling delays others */
    NAP_LEAST_NS = 20000,
    NAP_MOST_NS = 1000000,
    NAP_PART = 8, /* a nap is this part of the wait so far, which bounds the relative delay */
};

/* Per thread: its wait, and whether other threads want its core. */
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
            spin_ns = 0; /* tca_open() reports the error */
        waiter_init(&pausing.waiter, (uint32_t)spin_ns, YIELD_NS);
        pausing.known = true;
    }
    waiter_begin(&pausing.waiter);
    pausing.crowded = false;
}

/* Whether yields have shown for long enough that other threads want the core. */
static bool is_crowded(const struct waiter *waiter)
{
    return waiter->yields_from_ns != 0 && waiter->shrunk &&
           waiter->yielded_ns - waiter->yields_from_ns >= YIELD_CROWDED_NS;
}

static uint64_t nap_ns(const struct waiter *waiter)
{
    const uint64_t part_ns = (clock_now_ns() - waiter->started_ns) / NAP_PART;
    return part_ns < NAP_LEAST_NS ? NAP_LEAST_NS : part_ns > NAP_MOST_NS ? NAP_MOST_NS : part_ns;
}

uint64_t pause_step(uint64_t round)
{
    if (round == 0 || !pausing.known)
        begin();
    core_pause();
    if (!pausing.crowded)
        pausing.crowded =
            waiter_step(&pausing.waiter) == WAITER_SLEEP || is_crowded(&pausing.waiter);
    return pausing.crowded ? nap_ns(&pausing.waiter) : 0;
}

void tca_pause(uint64_t round)
{
    const struct timespec nap = clock_timespec(pause_step(round));
    if (nap.tv_nsec > 0)
        nanosleep(&nap, NULL);
}
