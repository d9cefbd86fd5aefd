#include "client/compat/poll.h"

#include <stdbool.h>
#include <time.h>

#include "client/compat/compat.h"

/* Between two calls in vain that are further apart something is computed. */
enum { APART_NS = 20000 };

static _Thread_local struct {
    uint64_t rounds; /* looks in vain, one after the other */
    uint64_t before; /* the last call */
    uint64_t vain;   /* at the last call in vain, */
    int64_t vain_ns; /* and when that was */
} polling;

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

TCA_API void tcaPollPause(void)
{
    tca_pause(polling.rounds++);
}

void polls_end(void)
{
    polling.before = polling.rounds;
    polling.rounds = 0;
}

void poll_in_vain(void)
{
    const bool paused = polling.before > polling.vain;
    if (paused || now_ns() - polling.vain_ns < APART_NS)
        polling.rounds = polling.before + 1;
    tca_pause(polling.rounds);
    polling.vain = polling.rounds;
    polling.vain_ns = now_ns();
}
