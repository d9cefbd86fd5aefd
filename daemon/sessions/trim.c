#include "daemon/sessions/trim.h"

#include <errno.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdlib.h>

#include "daemon/base/loop.h"
#include "daemon/base/worker.h"
#include "daemon/tcad.h"

/* Less than this, or than half, is kept for the next session. Once for many releases: they come in
 * bursts. */
#define TRIM_BYTES    (UINT64_C(16) << 20)
#define TRIM_AFTER_NS UINT64_C(1000000000)

struct trim {
    struct tcad *tcad;
    struct loop_timer *timer;
    bool due; /* the timer runs, or the worker */
};

/* Any thread. Takes a lock of malloc() for as long as it gives pages back, but not on the loop. */
static void work(void *context)
{
    malloc_trim(0);
}

static void done(void *context)
{
    struct trim *trim = context;
    trim->due = false;
    trim_consider(trim); /* of what was released meanwhile */
}

static void dropped(void *context)
{
}

static void expired(void *context)
{
    struct trim *trim = context;
    trim->tcad->users.peak = trim->tcad->users.total;
    trim->due = worker_submit(trim->tcad->worker, WORKER_TRIM, work, done, dropped, trim) == 0;
}

void trim_consider(struct trim *trim)
{
    const struct users *users = &trim->tcad->users;
    if (!trim->due && users->peak - users->total >= TRIM_BYTES && users->total <= users->peak / 2)
        trim->due = loop_timer_set(trim->timer, TRIM_AFTER_NS, 0) == 0;
}

int trim_new(struct tcad *tcad, struct trim **ret_trim)
{
    struct trim *trim = calloc(1, sizeof(*trim));
    if (!trim)
        return -ENOMEM;
    trim->tcad = tcad;
    int r = loop_timer_new(tcad->loop, expired, trim, &trim->timer);
    if (r < 0) {
        free(trim);
        return r;
    }
    *ret_trim = trim;
    return 0;
}

struct trim *trim_free(struct trim *trim)
{
    if (!trim)
        return NULL;
    loop_timer_free(trim->timer);
    free(trim);
    return NULL;
}
