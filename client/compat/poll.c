#include "client/compat/poll.h"

#include <stdbool.h>
#include <time.h>

#include "client/compat/compat.h"

/* If polls are further apart than this, the program computes in between. */
enum { APART_NS = 20000 };

static _Thread_local struct {
    uint64_t rounds; /* consecutive polls without success */
    uint64_t before; /* number of the last call */
    uint64_t vain;   /* number of the last poll without success */
    int64_t vain_ns; /* its time */
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

void poll_found_nothing(void)
{
    const bool paused = polling.before > polling.vain;
    if (paused || now_ns() - polling.vain_ns < APART_NS)
        polling.rounds = polling.before + 1;
    tca_pause(polling.rounds);
    polling.vain = polling.rounds;
    polling.vain_ns = now_ns();
}
