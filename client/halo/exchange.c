/* Starting, testing and waiting: what an exchange does in every step. */
#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "client/core/error.h"
#include "client/halo/halo.h"

enum { SLICE_NS = 1000 * 1000 * 1000 };

static __attribute__((noinline, cold)) int failed(const struct tca_halo *halo)
{
    return error_set(halo->failed, "the halo exchange has failed: %s", halo->why);
}

/* Errors after which the exchange cannot go on; a call with a wrong argument changes nothing. */
static __attribute__((noinline, cold)) int fail(struct tca_halo *halo, int error)
{
    if (error != -ETIMEDOUT && error != -EINVAL) {
        halo->failed = error;
        snprintf(halo->why, sizeof(halo->why), "%s", tca_error_text());
    }
    return error;
}

static __attribute__((noinline, cold)) int not_startable(const struct tca_halo *halo)
{
    if (halo->failed)
        return failed(halo);
    return error_static(-EBUSY, "the last halo exchange is still running: call tca_halo_wait() or "
                                "tca_halo_test()");
}

/* The submission ring is full of starts that the daemon takes in microseconds. */
static __attribute__((noinline, cold)) int start_again(struct tca_halo *halo, struct tca_plan *plan)
{
    int r = -EAGAIN;

    for (uint64_t round = 0; r == -EAGAIN; round++) {
        tca_pause(round);
        r = tca_dispatch(halo->session);
        if (r >= 0)
            r = tca_start(plan);
    }
    return r;
}

int tca_halo_start(struct tca_halo *halo)
{
    if (halo->open || halo->failed)
        return not_startable(halo);
    for (uint32_t n = 0; n < halo->neighbour_count; n++) {
        struct halo_neighbour *neighbour = &halo->neighbours[n];
        struct tca_plan *plan = neighbour->plans[halo->buffer];
        neighbour->arrived = false;
        int r = tca_start(plan);
        if (r == -EAGAIN)
            r = start_again(halo, plan);
        if (r < 0)
            return fail(halo, r);
    }
    halo->missing = halo->neighbour_count;
    halo->open = true;
    halo->running = halo->buffer;
    halo->buffer = halo->buffers - 1 - halo->buffer;
    return 0;
}

/* ---- one neighbour. 1: arrived, 0: not yet, < 0: it cannot any more */

static inline int arrive(struct tca_halo *halo, struct halo_neighbour *neighbour, int r)
{
    if (r > 0) {
        neighbour->arrived = true;
        halo->missing--;
    } else if (r < 0) {
        fail(halo, r);
    }
    return r;
}

/* A plan that has failed: its neighbour, which waits for it, may never notify this rank. 0: none. */
static int failed_plan(const struct tca_halo *halo)
{
    int r = 0;

    for (uint32_t n = 0; n < halo->neighbour_count && r >= 0; n++)
        r = tca_test(halo->neighbours[n].plans[halo->running]);
    return r < 0 ? r : 0;
}

static inline int test_neighbour(struct tca_halo *halo, struct halo_neighbour *neighbour)
{
    if (neighbour->arrived)
        return 1;
    return arrive(halo, neighbour,
                  tca_notified(halo->session, neighbour->rank, halo->slot + halo->running));
}

/* In slices, so that a failed plan is noticed. */
static int wait_neighbour(struct tca_halo *halo, struct halo_neighbour *neighbour,
                          int64_t timeout_ns)
{
    int64_t slice_ns = timeout_ns == TCA_FOREVER ? SLICE_NS : timeout_ns;

    if (neighbour->arrived)
        return 1;
    for (;;) {
        int r =
            tca_notified_wait(halo->session, neighbour->rank, halo->slot + halo->running, slice_ns);
        if (r != -ETIMEDOUT)
            return arrive(halo, neighbour, r < 0 ? r : 1);
        r = failed_plan(halo);
        if (r < 0)
            return fail(halo, r);
        if (timeout_ns != TCA_FOREVER)
            return -ETIMEDOUT; /* with the text of tca_notified_wait() */
    }
}

/* ---- all of them, and the own data */

/* The end of a wait, of a time-out that is not one of tca.h's constants. */
static int64_t clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int64_t left_ns(int64_t end_ns)
{
    int64_t left = end_ns - clock_ns();

    return left > 0 ? left : 0;
}

int tca_halo_test(struct tca_halo *halo)
{
    if (halo->failed)
        return failed(halo);
    if (!halo->open)
        return 1;
    for (uint32_t n = 0; halo->missing > 0 && n < halo->neighbour_count; n++) {
        int r = test_neighbour(halo, &halo->neighbours[n]);
        if (r < 0)
            return r;
    }
    for (uint32_t n = 0; n < halo->neighbour_count; n++) {
        int r = tca_test(halo->neighbours[n].plans[halo->running]);
        if (r <= 0)
            return r < 0 ? fail(halo, r) : 0;
    }
    halo->open = halo->missing > 0;
    return !halo->open;
}

/* The neighbours first: while this rank waits for them, it copies its half of what they send. */
static int wait_all(struct tca_halo *halo, int64_t timeout_ns)
{
    bool limited = timeout_ns > 0;
    int64_t end_ns = limited ? clock_ns() + timeout_ns : 0;

    for (uint32_t n = 0; halo->missing > 0 && n < halo->neighbour_count; n++) {
        int r = wait_neighbour(halo, &halo->neighbours[n], limited ? left_ns(end_ns) : timeout_ns);
        if (r < 0)
            return r;
    }
    for (uint32_t n = 0; n < halo->neighbour_count; n++) {
        int r = tca_wait(halo->neighbours[n].plans[halo->running],
                         limited ? left_ns(end_ns) : timeout_ns);
        if (r < 0)
            return fail(halo, r);
    }
    halo->open = false;
    return 0;
}

int tca_halo_wait(struct tca_halo *halo, int64_t timeout_ns)
{
    if (halo->failed)
        return failed(halo);
    return halo->open ? wait_all(halo, timeout_ns) : 0;
}

uint32_t tca_halo_buffer(const struct tca_halo *halo)
{
    return halo->buffer;
}

/* ---- single faces */

static int check_face(const struct tca_halo *halo, uint32_t face)
{
    if (face >= halo->face_count)
        return error_set(-EINVAL, "face %u: the halo exchange has %u", face, halo->face_count);
    return halo->failed ? failed(halo) : 0;
}

int tca_halo_test_face(struct tca_halo *halo, uint32_t face)
{
    int r = check_face(halo, face);

    if (r < 0)
        return r;
    if (!halo->open)
        return 1;
    r = test_neighbour(halo, &halo->neighbours[halo->neighbour_of[face]]);
    if (r == 0 && (r = failed_plan(halo)) < 0)
        fail(halo, r);
    return r;
}

int tca_halo_wait_face(struct tca_halo *halo, uint32_t face, int64_t timeout_ns)
{
    int r = check_face(halo, face);

    if (r < 0 || !halo->open)
        return r;
    r = wait_neighbour(halo, &halo->neighbours[halo->neighbour_of[face]], timeout_ns);
    return r < 0 ? r : 0;
}
