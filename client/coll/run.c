/* Starting, testing and waiting. */
#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "client/coll/coll.h"
#include "client/core/error.h"
#include "client/core/timeout.h"

enum { SLICE_NS = 1000 * 1000 * 1000, TESTS_PER_WATCH = 4096 };

void coll_run_end(struct tca_coll *coll)
{
    struct tca_coll **link = coll->siblings ? &coll->siblings->open : NULL;

    coll->open = false;
    while (link && *link && *link != coll)
        link = &(*link)->next_open;
    if (link && *link)
        *link = coll->next_open;
}

static __attribute__((noinline, cold)) int failed(const struct tca_coll *coll)
{
    return error_set(coll->failed, "the collective operation has failed: %s", coll->why);
}

static __attribute__((noinline, cold)) int fail(struct tca_coll *coll, int error)
{
    coll->failed = error;
    snprintf(coll->why, sizeof(coll->why), "%s", tca_error_text());
    coll_run_end(coll);
    return error;
}

/* Ranks that have ended, which this one may not wait for directly: it would never learn of it. */
static __attribute__((noinline)) int watch(struct tca_coll *coll)
{
    int r = tca_dispatch(coll->session);

    for (uint32_t rank = 0; r >= 0 && rank < coll->shape.size; rank++)
        if (rank != tca_rank(coll->session))
            r = tca_notified(coll->session, rank, coll->watch_slot);
    return r < 0 ? fail(coll, r) : 0;
}

/* ---- items */

static void combine(const struct tca_coll *coll, const struct coll_step *step)
{
    uint64_t turn = coll->current * coll->program.scratch_bytes;
    uint8_t *to = step->to.buffer == COLL_OUT ? coll->out : coll->scratch + turn;
    const uint8_t *from = step->from.buffer == COLL_IN    ? coll->in
                          : step->from.buffer == COLL_OUT ? coll->out
                                                          : coll->scratch + turn;

    to += step->to.offset;
    from += step->from.offset;
    coll->reduction.function(step->from_left ? from : to, step->from_left ? to : from, to,
                             step->bytes / coll->shape.element_bytes, coll->reduction.context);
}

/* Does what can be done without waiting. 1: all, 0: not yet. */
static int advance(struct tca_coll *coll)
{
    const struct coll_sequence *sequence = &coll->ways[coll->current];

    for (; coll->next < sequence->count; coll->next++) {
        const struct coll_item *item = &sequence->items[coll->next];
        if (!item->plan) {
            combine(coll, item->step);
            continue;
        }
        if (!coll->item_started) {
            int r = tca_start(item->plan);
            if (r < 0)
                return r == -EAGAIN ? 0 : fail(coll, r);
            coll->item_started = true;
        }
        int r = tca_test(item->plan);
        if (r <= 0)
            return r < 0 ? fail(coll, r) : 0;
        coll->item_started = false;
    }
    coll_run_end(coll);
    return 1;
}

/* All operations of the session that need this process. Their errors are theirs. */
static void advance_siblings(const struct coll_siblings *siblings)
{
    for (struct tca_coll *coll = siblings->open, *next; coll; coll = next) {
        next = coll->next_open;
        advance(coll);
    }
}

int tca_coll_start(struct tca_coll *coll)
{
    if (coll->failed)
        return failed(coll);
    if (coll->open)
        return error_static(-EBUSY, "the last start of the collective operation is still running: "
                                    "call tca_coll_wait() or tca_coll_test()");
    coll->current = coll->way;
    coll->way = coll->program.alternate ? 1 - coll->way : 0;
    coll->next = 0;
    coll->tests = 0;
    coll->starts++;
    coll->open = true;
    coll->item_started = false;
    if (coll->ways[coll->current].count > 1) {
        coll->next_open = coll->siblings->open;
        coll->siblings->open = coll;
    }
    int r = advance(coll);
    return r < 0 ? r : 0;
}

int tca_coll_test(struct tca_coll *coll)
{
    if (coll->failed)
        return failed(coll);
    if (!coll->open)
        return 1;
    advance_siblings(coll->siblings);
    int r = coll->open ? advance(coll) : coll->failed ? failed(coll) : 1;
    if (r == 0 && ++coll->tests % TESTS_PER_WATCH == 0)
        r = watch(coll);
    return r;
}

/* ---- waiting */

static int64_t clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int timed_out(void)
{
    return error_static(-ETIMEDOUT, "the collective operation is still running: a rank has not "
                                    "started it, or is slow");
}

/* Waits for the running plan, in slices, so that the end of a rank is noticed. */
static int wait_slices(struct tca_coll *coll, struct tca_plan *plan, int64_t end_ns)
{
    for (;;) {
        int64_t slice_ns = end_ns == TCA_FOREVER ? SLICE_NS : end_ns - clock_ns();
        slice_ns = slice_ns < 0 ? 0 : slice_ns < SLICE_NS ? slice_ns : SLICE_NS;
        int r = tca_wait(plan, slice_ns);
        if (r != -ETIMEDOUT)
            return r < 0 ? fail(coll, r) : 0;
        if ((r = watch(coll)) < 0)
            return r;
        if (end_ns != TCA_FOREVER && clock_ns() >= end_ns)
            return timed_out();
    }
}

/* Nothing can be done at the moment, other than for what else is running. */
static int linger(struct tca_coll *coll, uint64_t round, int64_t end_ns)
{
    advance_siblings(coll->siblings);
    int r = tca_dispatch(coll->session);
    if (r < 0)
        return fail(coll, r);
    if (round % TESTS_PER_WATCH == TESTS_PER_WATCH - 1 && (r = watch(coll)) < 0)
        return r;
    if (end_ns != TCA_FOREVER && clock_ns() >= end_ns)
        return timed_out();
    tca_pause(round);
    return 0;
}

/* Sleeps in the wait for the plan only if no other operation needs this process. end_ns: or
 * TCA_FOREVER. */
static int wait_all(struct tca_coll *coll, int64_t end_ns)
{
    for (uint64_t round = 0;; round++) {
        uint32_t item = coll->next;
        int r = coll->open ? advance(coll) : coll->failed ? failed(coll) : 1;
        if (r != 0)
            return r < 0 ? r : 0;
        if (coll->next != item)
            round = 0;
        const struct tca_coll *other = coll->siblings->open;
        if (other == coll)
            other = coll->next_open;
        if (coll->item_started && !other)
            r = wait_slices(coll, coll->ways[coll->current].items[coll->next].plan, end_ns);
        else
            r = linger(coll, round, end_ns);
        if (r < 0)
            return r;
    }
}

int tca_coll_wait(struct tca_coll *coll, int64_t timeout_ns)
{
    if (coll->failed)
        return failed(coll);
    if (!coll->open)
        return 0;
    int r = session_timeout(coll->session, timeout_ns, &timeout_ns);
    if (r < 0)
        return r;
    return wait_all(coll, timeout_ns == TCA_FOREVER ? TCA_FOREVER : clock_ns() + timeout_ns);
}
