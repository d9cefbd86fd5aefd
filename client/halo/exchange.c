/* Starting, testing and waiting: what an exchange does in every step. */
#include <errno.h>
#include <stdio.h>

#include "client/core/error.h"
#include "client/halo/halo.h"

static __attribute__((noinline, cold)) int failed(const struct tca_halo *halo)
{
    return error_set(halo->failed, "the halo exchange has failed: %s", halo->why);
}

/* Errors after which the exchange cannot continue; a call with a wrong argument changes nothing. */
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

/* A plan that has failed: its neighbour, which waits for it, may never notify this rank. 0:
 * none. */
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
    return arrive(halo, neighbour, session_take(halo->session, &neighbour->data[halo->running]));
}

/* The same, for a neighbour that may have ended. */
static int look_at(struct tca_halo *halo, struct halo_neighbour *neighbour)
{
    if (neighbour->arrived)
        return 1;
    return arrive(halo, neighbour,
                  tca_notified(halo->session, group_to_session(halo->group, neighbour->rank),
                               halo->slot + halo->running));
}

/* ---- all of them, and the own data */

/* 1: complete, 0: not yet. */
static int test_all(void *context)
{
    struct tca_halo *halo = context;

    if (halo->failed)
        return failed(halo);
    for (uint32_t n = 0; halo->missing > 0 && n < halo->neighbour_count; n++) {
        int r = test_neighbour(halo, &halo->neighbours[n]);
        if (r < 0)
            return r;
    }
    for (uint32_t n = 0; halo->missing == 0 && n < halo->neighbour_count; n++) {
        int r = tca_test(halo->neighbours[n].plans[halo->running]);
        if (r <= 0)
            return r < 0 ? fail(halo, r) : 0;
    }
    halo->open = halo->missing > 0;
    return !halo->open;
}

/* Fails the exchange if a neighbour has ended, or a plan has failed. */
static void look_around(void *context)
{
    struct tca_halo *halo = context;
    int r = 0;

    for (uint32_t n = 0; r >= 0 && n < halo->neighbour_count; n++)
        r = look_at(halo, &halo->neighbours[n]);
    if (r >= 0 && (r = failed_plan(halo)) < 0)
        fail(halo, r);
}

static int overdue(const void *context, int64_t timeout_ns)
{
    const struct tca_halo *halo = context;
    char waited[TIMEOUT_TEXT_BYTES];

    session_timeout_text(halo->session, timeout_ns, waited);
    for (uint32_t n = 0; n < halo->neighbour_count; n++)
        if (!halo->neighbours[n].arrived)
            return error_set(-ETIMEDOUT,
                             "the halo exchange is still running: rank %u has not sent %s",
                             halo->neighbours[n].rank, waited);
    return error_set(-ETIMEDOUT, "the halo exchange is still running: this rank has not sent %s",
                     waited);
}

int tca_halo_test(struct tca_halo *halo)
{
    if (halo->failed)
        return failed(halo);
    if (!halo->open)
        return 1;
    int r = test_all(halo);
    if (r != 0)
        return r;
    look_around(halo);
    return test_all(halo);
}

int tca_halo_wait(struct tca_halo *halo, int64_t timeout_ns)
{
    const struct session_wait wait = {
        .ready = test_all, .rare = look_around, .overdue = overdue, .context = halo};
    int r = halo->failed ? failed(halo) : halo->open ? test_all(halo) : 1;

    if (r == 0)
        r = session_wait_until(halo->session, &wait, timeout_ns);
    return r < 0 ? r : 0;
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
    if (!halo->open || halo->neighbour_of[face] == HALO_QUIET)
        return 1;
    r = look_at(halo, &halo->neighbours[halo->neighbour_of[face]]);
    if (r == 0 && (r = failed_plan(halo)) < 0)
        fail(halo, r);
    return r;
}

struct one_face {
    struct tca_halo *halo;
    struct halo_neighbour *neighbour;
    uint32_t face;
};

static int test_one(void *context)
{
    const struct one_face *face = context;

    return face->halo->failed ? failed(face->halo) : test_neighbour(face->halo, face->neighbour);
}

static void look_for_one(void *context)
{
    const struct one_face *face = context;
    int r = look_at(face->halo, face->neighbour);

    if (r == 0 && (r = failed_plan(face->halo)) < 0)
        fail(face->halo, r);
}

static int face_overdue(const void *context, int64_t timeout_ns)
{
    const struct one_face *one = context;
    char waited[TIMEOUT_TEXT_BYTES];

    return error_set(-ETIMEDOUT, "face %u of the halo exchange: rank %u has not sent %s", one->face,
                     one->neighbour->rank,
                     session_timeout_text(one->halo->session, timeout_ns, waited));
}

int tca_halo_wait_face(struct tca_halo *halo, uint32_t face, int64_t timeout_ns)
{
    int r = check_face(halo, face);

    if (r < 0 || !halo->open || halo->neighbour_of[face] == HALO_QUIET)
        return r;
    struct one_face one = {halo, &halo->neighbours[halo->neighbour_of[face]], face};
    const struct session_wait wait = {
        .ready = test_one, .rare = look_for_one, .overdue = face_overdue, .context = &one};
    r = session_wait_until(halo->session, &wait, timeout_ns);
    return r < 0 ? r : 0;
}
