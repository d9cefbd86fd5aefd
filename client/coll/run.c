/* Starting, testing and waiting. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "client/coll/coll.h"
#include "client/coll/thread.h"
#include "client/core/clock.h"
#include "client/core/error.h"
#include "client/core/seats.h"
#include "client/core/timeout.h"

enum { SLICE_NS = 1000 * 1000 * 1000, TESTS_PER_WATCH = 4096 };

static inline void close_start(struct tca_coll *coll)
{
    if (coll->open)
        coll->siblings->running--;
    coll->open = false;
}

/* The current start is complete, but for what it has received. */
static inline void take(const struct tca_coll *coll)
{
    const struct coll_copies *copies = &coll->copies;

    const uint8_t *from = copies->take_from + coll->current * copies->take_turn;

    if (__builtin_expect(copies->by_blocks, 0))
        coll_copies_take_blocks(coll, from);
    else
        coll_copies_move(copies->take, from, copies->take_bytes);
}

void coll_run_end(struct tca_coll *coll)
{
    struct tca_coll **link = coll->siblings ? &coll->siblings->open : NULL;

    close_start(coll);
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
    coll->quick = false;
    snprintf(coll->why, sizeof(coll->why), "%s", tca_error_text());
    coll_run_end(coll);
    return error;
}

/* Also checks ranks that this one does not wait for directly: it would not notice their end
 * otherwise. */
__attribute__((noinline)) int coll_run_watch(struct tca_coll *coll, bool look)
{
    int r = tca_dispatch(coll->session);

    for (uint32_t rank = 0; look && r >= 0 && rank < coll->shape.places.size; rank++)
        if (rank != coll_rank(coll))
            r = tca_notified(coll->session, group_to_session(coll->group, rank), coll->watch_slot);
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

/* 1: done, 0: not yet. */
static int run_item(struct tca_coll *coll, struct coll_sequence *sequence)
{
    const struct coll_item *item = &sequence->items[sequence->next];

    if (!item->plan && item->step->kind == COLL_WAIT) {
        int r = tca_notified(coll->session, group_to_session(coll->group, item->step->peer),
                             coll->slot + item->step->slot);
        return r < 0 ? fail(coll, r) : r;
    }
    if (!item->plan) {
        combine(coll, item->step);
        return 1;
    }
    int r = sequence->started ? tca_test(item->plan) : plan_start_and_test(item->plan);
    if (r == -EAGAIN && !sequence->started)
        return 0;
    sequence->started = r == 0;
    return r < 0 ? fail(coll, r) : r;
}

/* Does what can be done without waiting. 1: all, 0: not yet. */
static int advance(struct tca_coll *coll)
{
    struct coll_set *set = &coll->sets[coll->current];
    bool all = true;

    if (coll->leaf.credit) {
        int r = coll_leaf_test(&coll->leaf, coll->session);
        if (r <= 0)
            return r < 0 ? fail(coll, r) : 0;
        coll->done++;
    }
    for (uint32_t i = 0; i < set->count; i++) {
        struct coll_sequence *sequence = &set->sequences[i];
        for (; sequence->next < sequence->count; sequence->next++) {
            int r = run_item(coll, sequence);
            if (r < 0)
                return r;
            if (r == 0) {
                all = false;
                break;
            }
            coll->done++;
        }
    }
    if (!all)
        return 0;
    take(coll);
    coll_run_end(coll);
    return 1;
}

uint64_t coll_run_all(const struct coll_siblings *siblings)
{
    uint64_t done = 0;

    for (struct tca_coll *coll = siblings->open, *next; coll; coll = next) {
        next = coll->next_open;
        done -= coll->done;
        advance(coll);
        done += coll->done;
    }
    return done;
}

/* ---- starting and testing */

static bool needs_process(const struct tca_coll *coll)
{
    return coll->siblings->thread || coll->sets[coll->current].sequences[0].count > 1;
}

static inline void turn(struct tca_coll *coll)
{
    coll->current = coll->set;
    coll->set = coll->set + 1 < coll->program.sets ? coll->set + 1 : 0;
    coll->starts++;
}

/* The start that has begun is not complete. */
static inline void leave_open(struct tca_coll *coll)
{
    coll->tests = 0;
    coll->open = true;
    coll->siblings->running++;
}

static int still_running(void)
{
    return error_static(-EBUSY, "the last start of the collective operation is still running: "
                                "call tca_coll_wait() or tca_coll_test()");
}

/* 0, or an error with which nothing has begun. */
static int begin(struct tca_coll *coll)
{
    if (coll->failed)
        return failed(coll);
    if (coll->open)
        return still_running();
    turn(coll);
    coll_copies_give(&coll->copies);
    if (coll->leaf.credit) {
        int r = coll_leaf_begin(&coll->leaf, coll->current);
        if (r < 0)
            return fail(coll, r);
    }
    for (uint32_t i = 0; i < coll->sets[coll->current].count; i++) {
        coll->sets[coll->current].sequences[i].next = 0;
        coll->sets[coll->current].sequences[i].started = false;
    }
    leave_open(coll);
    if (needs_process(coll)) {
        coll->next_open = coll->siblings->open;
        coll->siblings->open = coll;
    }
    return 0;
}

/* Starts an operation of one plan, which often completes at once, or that of a leaf. */
static inline int start_quickly(struct tca_coll *coll)
{
    struct coll_sequence *only = &coll->sets[coll->set].sequences[0];
    int r;

    turn(coll);
    coll_copies_give(&coll->copies);
    if (coll->leaf.credit) {
        r = coll_leaf_begin(&coll->leaf, coll->current);
    } else {
        r = plan_start_and_test(only->items[0].plan);
        if (__builtin_expect(r > 0, 1)) {
            take(coll);
            return 0;
        }
        only->next = 0;
        only->started = r == 0;
    }
    if (__builtin_expect(r < 0 && r != -EAGAIN, 0))
        return fail(coll, r);
    leave_open(coll);
    return 0;
}

int tca_coll_rebind(struct tca_coll *coll, const void *in, void *out)
{
    struct coll_thread *thread = coll->siblings->thread;
    int r = 0;

    coll_thread_lock(thread);
    if (coll->failed)
        r = failed(coll);
    else if (coll->open)
        r = still_running();
    else if (!coll->copies.used)
        r = error_set(-EINVAL,
                      "this operation moves data straight between the memory of ranks: only those "
                      "of at most %d bytes, or with any_memory, can be given other memory",
                      COLL_SHORT_BYTES);
    else
        r = coll_copies_bind(coll, in, out);
    coll_thread_unlock(thread);
    return r;
}

int tca_coll_start(struct tca_coll *coll)
{
    struct coll_thread *thread = coll->siblings->thread;

    if (coll->quick && !coll->open && !thread)
        return start_quickly(coll);
    if (thread) {
        coll_thread_lock(thread);
        int r = begin(coll);
        if (r >= 0)
            coll_thread_wake(thread);
        coll_thread_unlock(thread);
        return r;
    }
    int r = begin(coll);
    if (r >= 0)
        r = advance(coll);
    return r < 0 ? r : 0;
}

/* Of an operation that a thread advances. */
static int state(struct tca_coll *coll)
{
    coll_thread_lock(coll->siblings->thread);
    int r = coll->failed ? failed(coll) : !coll->open;
    coll_thread_unlock(coll->siblings->thread);
    return r;
}

int tca_coll_test(struct tca_coll *coll)
{
    if (coll->siblings->thread)
        return state(coll);
    if (coll->failed)
        return failed(coll);
    if (!coll->open)
        return 1;
    coll_run_all(coll->siblings);
    int r = coll->open ? advance(coll) : coll->failed ? failed(coll) : 1;
    if (r == 0 && ++coll->tests % TESTS_PER_WATCH == 0)
        r = coll_run_watch(coll, true);
    return r;
}

/* ---- waiting */

/* What this rank waits for itself, if it is known: "; it waits for rank 3". */
static void describe_part(const struct tca_coll *coll, char *text, size_t text_bytes)
{
    const struct coll_sequence *sequence = &coll->sets[coll->current].sequences[0];

    text[0] = '\0';
    if (coll->by_thread || !coll->open)
        return;
    if (coll->leaf.credit) {
        snprintf(text, text_bytes, "; it waits for rank %u", coll->leaf.parent);
    } else if (sequence->started) {
        memcpy(text, "; ", 3);
        plan_waits_for(sequence->items[sequence->next].plan, text + 2, text_bytes - 2);
    }
}

static int overdue(const void *context, int64_t timeout_ns)
{
    const struct tca_coll *coll = context;
    char waited[TIMEOUT_TEXT_BYTES], part[512];

    describe_part(coll, part, sizeof(part));
    return error_set(-ETIMEDOUT,
                     "the collective operation (%s) is still running, and has not completed %s: a "
                     "rank has not started it, or is slow%s",
                     coll_operation_name(coll->shape.operation),
                     session_timeout_text(coll->session, timeout_ns, waited), part);
}

/* For the running plan, or what a leaf waits for. */
static int wait_slice(struct tca_coll *coll, int64_t slice_ns)
{
    const struct coll_sequence *sequence = &coll->sets[coll->current].sequences[0];

    return coll->leaf.credit ? coll_leaf_wait(&coll->leaf, coll->session, slice_ns)
                             : tca_wait(sequence->items[sequence->next].plan, slice_ns);
}

/* Waits in slices, so that the end of a rank is noticed. */
static int wait_slices(struct tca_coll *coll, uint64_t end_ns, struct session_hang *hang)
{
    const uint64_t hang_ns = hang->due_ns - hang->since_ns, /* parts are shorter */
        slice_ns = hang_ns < SLICE_NS ? hang_ns / 2 + 1 : SLICE_NS;

    for (;;) {
        const uint64_t left_ns = clock_left(end_ns);
        int r = wait_slice(coll, (int64_t)(left_ns < slice_ns ? left_ns : slice_ns));
        if (r != -ETIMEDOUT)
            return r < 0 ? fail(coll, r) : 0;
        if ((r = coll_run_watch(coll, true)) < 0)
            return r;
        session_hang_look(coll->session, hang, overdue, coll);
        if (clock_left(end_ns) == 0)
            return -ETIMEDOUT;
    }
}

/* This operation cannot advance at the moment: advances the others that run. */
static int linger(struct tca_coll *coll, uint64_t round, uint64_t end_ns, struct session_hang *hang)
{
    coll_run_all(coll->siblings);
    int r = coll_run_watch(coll, round % TESTS_PER_WATCH == TESTS_PER_WATCH - 1);
    if (r < 0)
        return r;
    session_hang_look(coll->session, hang, overdue, coll);
    if (clock_left(end_ns) == 0)
        return -ETIMEDOUT;
    tca_pause(round);
    return 0;
}

/* Sleeps in the wait for the plan only if no other operation needs this process. */
static int wait_all(struct tca_coll *coll, uint64_t end_ns)
{
    struct session_hang hang = session_hang_begin();

    for (uint64_t round = 0;; round++) {
        const struct coll_sequence *sequence = &coll->sets[coll->current].sequences[0];
        uint64_t done = coll->done;
        int r = coll->open ? advance(coll) : coll->failed ? failed(coll) : 1;
        if (r != 0)
            return r < 0 ? r : 0;
        if (coll->done != done)
            round = 0;
        const struct tca_coll *other = coll->siblings->open;
        if (other == coll)
            other = coll->next_open;
        if ((sequence->started || coll->leaf.credit) && !other)
            r = wait_slices(coll, end_ns, &hang);
        else
            r = linger(coll, round, end_ns, &hang);
        if (r < 0)
            return r;
    }
}

/* The thread advances it. */
static int wait_thread(struct tca_coll *coll, uint64_t end_ns)
{
    struct coll_thread *thread = coll->siblings->thread;
    struct session_hang hang = session_hang_begin();
    int slept = 0;

    coll_thread_lock(thread);
    while (coll->open && slept >= 0) {
        const bool to_tell = hang.due_ns < end_ns;
        slept = coll_thread_sleep(thread, to_tell ? hang.due_ns : end_ns);
        if (coll->open && to_tell && slept == -ETIMEDOUT && clock_left(hang.due_ns) == 0) {
            session_hang_look(coll->session, &hang, overdue, coll);
            slept = 0;
        }
    }
    int r = coll->failed ? failed(coll) : coll->open ? -ETIMEDOUT : 0;
    coll_thread_unlock(thread);
    return r;
}

static __attribute__((noinline)) int wait_open(struct tca_coll *coll, int64_t timeout_ns)
{
    bool by_thread = coll->siblings->thread;

    if (!by_thread && coll->failed)
        return failed(coll);
    int r = by_thread ? 0 : coll->open ? advance(coll) : 1;
    if (r != 0) /* complete or failed, without reading the clock */
        return r < 0 ? r : 0;
    int64_t left_ns;
    r = session_timeout(coll->session, timeout_ns, &left_ns);
    if (r < 0)
        return r;
    const uint64_t end_ns = clock_end(left_ns);
    r = by_thread ? wait_thread(coll, end_ns) : wait_all(coll, end_ns);
    return r == -ETIMEDOUT && !coll->failed ? overdue(coll, timeout_ns) : r;
}

int tca_coll_wait(struct tca_coll *coll, int64_t timeout_ns)
{
    if (coll->quick && !coll->siblings->thread) {
        if (!coll->open)
            return 0;
        if (coll->leaf.credit &&
            coll_leaf_take(&coll->leaf, coll->session,
                           coll->copies.take_from + coll->current * coll->copies.take_turn)) {
            take(coll);
            close_start(coll); /* a leaf is in no list */
            return 0;
        }
    }
    return wait_open(coll, timeout_ns);
}
