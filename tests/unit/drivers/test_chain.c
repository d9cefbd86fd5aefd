/* Chains over a scripted driver. */
#include <criterion/criterion.h>
#include <errno.h>

#include "drivers/chain.h"

enum { PUTS = 8 };

struct driver_put {
    int answer;   /* of put_post(): 0, -EAGAIN, another error */
    bool at_once; /* done() from within put_post() */
    int status;   /* that done() is given */
    unsigned posted;
    struct driver_op *op; /* in flight */
    int stopped;          /* put_stop()'s error */
};

static struct driver_put script[PUTS];
static unsigned order[64], order_count;

static int scripted_post(struct driver *driver, struct driver_put *put, struct driver_op *op)
{
    if (put->answer < 0)
        return put->answer;
    put->posted++;
    if (order_count < 64)
        order[order_count++] = (unsigned)(put - script);
    op->posted_ns = 100 + (uint64_t)(put - script);
    if (put->at_once)
        op->done(op, put->status);
    else
        put->op = op;
    return 0;
}

static void scripted_stop(struct driver *driver, struct driver_put *put, int error)
{
    put->stopped = error;
}

/* The peer is a put of the script. */
static int scripted_flush(struct driver *driver, struct driver_peer *peer, struct driver_op *op)
{
    return scripted_post(driver, (struct driver_put *)peer, op);
}

static const struct driver_ops scripted_ops = {.name = "scripted",
                                               .put_post = scripted_post,
                                               .put_stop = scripted_stop,
                                               .peer_flush = scripted_flush};
static struct driver scripted = {.ops = &scripted_ops};

static void complete(unsigned put, int status)
{
    struct driver_op *op = script[put].op;
    cr_assert(op);
    script[put].op = NULL;
    op->done(op, status);
}

static struct notify_line line;
static _Atomic uint64_t taken;

static struct chain_step put_step(unsigned put, bool fence)
{
    return (struct chain_step){.kind = CHAIN_PUT, .fence = fence, .put = {&scripted, &script[put]}};
}

static struct chain_step wait_step(uint64_t count)
{
    return (struct chain_step){.kind = CHAIN_WAIT, .wait = {&line, &taken, count}};
}

static struct chain *chain;

static void make(const struct chain_step *steps, uint32_t count)
{
    cr_assert(chain_new(steps, count, &chain) == 0);
}

static void end(void)
{
    cr_assert(chain_free(chain) == NULL);
}

TestSuite(chain, .fini = end);

static void notify(uint64_t value)
{
    atomic_store(&line.direct, value);
}

Test(chain, of_one_put_that_is_done_at_once)
{
    const struct chain_step steps[] = {put_step(0, false)};
    make(steps, 1);
    script[0].at_once = true;
    for (unsigned i = 1; i <= 3; i++) {
        cr_assert(chain_start(chain) == 1);
        cr_assert(script[0].posted == i);
    }
    cr_assert(chain_run(chain) == 1 && script[0].posted == 3);
    cr_assert(chain_posted_ns(chain) == 100);
    cr_assert(chain_retries(chain) == 0);
}

Test(chain, of_nothing)
{
    make(NULL, 0);
    cr_assert(chain_start(chain) == 1);
    cr_assert(!chain_waiting(chain));
    cr_assert(chain_free(NULL) == NULL);
}

Test(chain, keeps_several_puts_in_flight)
{
    const struct chain_step steps[] = {put_step(0, false), put_step(1, false), put_step(2, false)};
    make(steps, 3);
    cr_assert(chain_start(chain) == 0);
    cr_assert(script[2].posted == 1);
    cr_assert(chain_start(chain) == -EBUSY);
    complete(2, 0);
    complete(0, 0);
    cr_assert(chain_run(chain) == 0);
    complete(1, 0);
    cr_assert(chain_run(chain) == 1);
    cr_assert(chain_posted_ns(chain) == 102);
}

Test(chain, ends_with_its_flushes)
{
    const struct chain_step steps[] = {
        put_step(0, false),
        {.kind = CHAIN_FLUSH, .flush = {&scripted, (struct driver_peer *)&script[1]}},
        {.kind = CHAIN_FLUSH, .flush = {&scripted, (struct driver_peer *)&script[2]}}};
    make(steps, 3);
    script[0].at_once = true;
    script[2].answer = -EAGAIN;
    cr_assert(chain_start(chain) == 0);
    cr_assert(script[1].posted == 1 && script[2].posted == 0);
    cr_assert(!chain_all_posted(chain));
    script[2].answer = 0;
    cr_assert(chain_run(chain) == 0 && script[2].posted == 1);
    complete(2, 0);
    cr_assert(chain_run(chain) == 0 && chain_all_posted(chain));
    complete(1, 0);
    cr_assert(chain_run(chain) == 1);
    cr_assert(chain_posted_ns(chain) == 100);
    cr_assert(chain_start(chain) == 0);
    complete(1, -ETIMEDOUT);
    complete(2, 0);
    cr_assert(chain_run(chain) == -ETIMEDOUT);
}

Test(chain, is_not_all_posted_before_a_fence_step)
{
    const struct chain_step steps[] = {
        put_step(0, false),
        {.kind = CHAIN_FLUSH, .flush = {&scripted, (struct driver_peer *)&script[1]}},
        {.kind = CHAIN_FENCE, .fence = true}};
    make(steps, 3);
    for (int start = 0; start < 2; start++) {
        cr_assert(chain_start(chain) == 0);
        complete(0, 0);
        cr_assert(chain_run(chain) == 0 && !chain_all_posted(chain));
        complete(1, 0);
        cr_assert(chain_run(chain) == 1 && chain_all_posted(chain));
    }
    cr_assert(chain_start(chain) == 0);
    complete(1, -ETIMEDOUT);
    complete(0, 0);
    cr_assert(chain_run(chain) == -ETIMEDOUT);
}

Test(chain, waits_at_a_fence)
{
    const struct chain_step steps[] = {put_step(0, false), put_step(1, false), put_step(2, true)};
    make(steps, 3);
    cr_assert(chain_start(chain) == 0);
    cr_assert(script[1].posted == 1 && script[2].posted == 0);
    complete(1, 0);
    cr_assert(chain_run(chain) == 0 && script[2].posted == 0);
    complete(0, 0);
    cr_assert(chain_run(chain) == 0 && script[2].posted == 1);
    complete(2, 0);
    cr_assert(chain_run(chain) == 1);
}

Test(chain, waits_for_notifications)
{
    const struct chain_step steps[] = {wait_step(2), put_step(0, false), wait_step(1),
                                       put_step(1, false)};
    make(steps, 4);
    script[0].at_once = script[1].at_once = true;
    cr_assert(chain_start(chain) == 0);
    cr_assert(chain_waiting(chain) && script[0].posted == 0);
    notify(1);
    cr_assert(chain_run(chain) == 0 && chain_waiting(chain));
    notify(2);
    cr_assert(chain_run(chain) == 0 && chain_waiting(chain) && script[0].posted == 1);
    notify(3);
    cr_assert(chain_run(chain) == 1 && script[1].posted == 1);
    cr_assert(!chain_waiting(chain));
    cr_assert(atomic_load(&taken) == 3);
    /* again, with all notifications already there */
    notify(6);
    cr_assert(chain_start(chain) == 1 && script[1].posted == 2);
}

Test(chain, tries_again_what_was_refused)
{
    const struct chain_step steps[] = {put_step(0, false), put_step(1, false)};
    make(steps, 2);
    script[0].at_once = script[1].at_once = true;
    script[1].answer = -EAGAIN;
    cr_assert(chain_start(chain) == 0);
    cr_assert(chain_run(chain) == 0 && chain_run(chain) == 0);
    cr_assert(script[0].posted == 1 && script[1].posted == 0);
    cr_assert(!chain_waiting(chain));
    script[1].answer = 0;
    cr_assert(chain_run(chain) == 1);
    cr_assert(script[0].posted == 1 && script[1].posted == 1);
    cr_assert(chain_retries(chain) == 1);
    cr_assert(chain_start(chain) == 1);
    cr_assert(chain_retries(chain) == 0, "of an earlier start");
}

Test(chain, ends_when_a_put_is_impossible)
{
    const struct chain_step steps[] = {put_step(0, false), put_step(1, false), put_step(2, false)};
    make(steps, 3);
    script[1].answer = -EHOSTDOWN;
    cr_assert(chain_start(chain) == 0, "one is still in flight");
    cr_assert(script[2].posted == 0);
    complete(0, 0);
    cr_assert(chain_run(chain) == -EHOSTDOWN);
    cr_assert(chain_run(chain) == -EHOSTDOWN, "the error persists");
    script[1].answer = 0;
    script[0].at_once = script[1].at_once = script[2].at_once = true;
    cr_assert(chain_start(chain) == 1, "and can be started again");
}

Test(chain, ends_when_a_put_fails_later)
{
    const struct chain_step steps[] = {put_step(0, false), wait_step(1), put_step(1, false)};
    make(steps, 3);
    cr_assert(chain_start(chain) == 0);
    complete(0, -ESTALE);
    notify(1);
    cr_assert(chain_run(chain) == -ESTALE);
    cr_assert(script[1].posted == 0);
    cr_assert(atomic_load(&taken) == 0, "a failed chain takes no notification");
}

Test(chain, the_first_error_counts)
{
    const struct chain_step steps[] = {put_step(0, false), put_step(1, false)};
    make(steps, 2);
    cr_assert(chain_start(chain) == 0);
    script[1].op->fault = 7;
    script[0].op->fault = 8;
    complete(1, -EHOSTDOWN);
    complete(0, -ESTALE);
    cr_assert(chain_run(chain) == -EHOSTDOWN);
    cr_assert(chain_fault(chain) == 7);

    cr_assert(chain_start(chain) == 0);
    complete(1, 0);
    complete(0, -ESTALE);
    cr_assert(chain_run(chain) == -ESTALE);
    cr_assert(chain_fault(chain) == 0, "what was said of another failure");
}

Test(chain, is_cancelled)
{
    const struct chain_step steps[] = {put_step(0, false), wait_step(1), put_step(1, false)};
    make(steps, 3);
    chain_cancel(chain, -ECANCELED); /* not running: nothing to cancel */
    cr_assert(chain_start(chain) == 0);
    chain_cancel(chain, -EOWNERDEAD);
    cr_assert(!chain_waiting(chain));
    notify(1);
    cr_assert(chain_run(chain) == 0, "one is still in flight");
    complete(0, 0);
    cr_assert(chain_run(chain) == -EOWNERDEAD);
    cr_assert(script[1].posted == 0);

    cr_assert(chain_start(chain) == 0);
    cr_assert(script[1].posted == 1, "the notification was still there");
    chain_cancel(chain, 0);
    complete(0, 0);
    complete(1, 0);
    cr_assert(chain_run(chain) == 1, "nothing was left to cancel");
}

Test(chain, posts_in_order_whatever_happens)
{
    struct chain_step steps[PUTS];
    for (unsigned i = 0; i < PUTS; i++)
        steps[i] = put_step(i, i % 3 == 2);
    make(steps, PUTS);
    int r = chain_start(chain);
    for (unsigned round = 0; r == 0; round++) {
        for (unsigned i = 0; i < PUTS; i++) {
            script[i].answer = (round + i) % 2 ? -EAGAIN : 0;
            if (script[i].op && round % 3 == i % 3)
                complete(i, 0);
        }
        r = chain_run(chain);
    }
    cr_assert(r == 1 && order_count == PUTS);
    for (unsigned i = 0; i < PUTS; i++)
        cr_assert(order[i] == i);
}

/* ---- starts that end early ---- */

static struct chain_step flush_step(unsigned put)
{
    return (struct chain_step){.kind = CHAIN_FLUSH,
                               .flush = {&scripted, (struct driver_peer *)&script[put]}};
}

Test(chain, that_has_put_everything_is_not_failed_by_a_cancel)
{
    const struct chain_step steps[] = {put_step(0, false), flush_step(1)};
    make(steps, 2);
    script[1].answer = -EAGAIN;
    cr_assert(chain_start(chain) == 0);
    chain_cancel(chain, -EOWNERDEAD);
    complete(0, 0);
    script[1].answer = 0;
    cr_assert(chain_run(chain) == 0 && script[1].posted == 1);
    complete(1, 0);
    cr_assert(chain_run(chain) == 1);
    /* a put in flight reports its own result */
    cr_assert(chain_start(chain) == 0);
    chain_cancel(chain, -EOWNERDEAD);
    complete(0, -ESTALE);
    complete(1, 0);
    cr_assert(chain_run(chain) == -ESTALE);
}

Test(chain, loses_what_is_behind_without_harm)
{
    _Atomic bool gone[3] = {false};
    struct chain_step steps[] = {put_step(0, false), put_step(1, true), put_step(2, true)};
    for (int i = 0; i < 3; i++)
        steps[i].gone = &gone[i];
    make(steps, 3);
    cr_assert(chain_start(chain) == 0); /* 0 is in flight, the others wait for it */
    gone[0] = true;
    chain_lose(chain, -ESTALE);
    complete(0, 0);
    cr_assert(chain_run(chain) == 0 && script[1].posted == 1);
    gone[2] = true;
    chain_lose(chain, -EOWNERDEAD);
    cr_assert(chain_run(chain) == 0 && script[2].posted == 0);
    complete(1, 0);
    cr_assert(chain_run(chain) == -EOWNERDEAD);
    cr_assert(script[2].posted == 0);
}

Test(chain, stops_what_it_has_posted_in_vain)
{
    _Atomic bool gone[3] = {false};
    struct chain_step steps[] = {put_step(0, false), put_step(1, false), put_step(2, true)};
    for (int i = 0; i < 3; i++)
        steps[i].gone = &gone[i];
    make(steps, 3);
    cr_assert(chain_start(chain) == 0); /* 2 waits for the others */
    gone[1] = gone[2] = true;
    chain_lose(chain, -ESTALE);
    cr_assert(script[0].stopped == 0 && script[1].stopped == -ESTALE && script[2].stopped == 0);
    complete(1, -ESTALE);
    complete(0, 0);
    cr_assert(chain_run(chain) == -ESTALE && script[2].posted == 0);
}

Test(chain, loses_who_would_notify)
{
    _Atomic bool gone[2] = {false};
    struct chain_step steps[] = {put_step(0, false), wait_step(1), wait_step(1),
                                 put_step(1, false)};
    steps[1].gone = steps[2].gone = &gone[0];
    make(steps, 4);
    script[0].at_once = script[1].at_once = true;
    cr_assert(chain_start(chain) == 0 && chain_waiting(chain));
    notify(1);
    gone[0] = true;
    chain_lose(chain, -EOWNERDEAD); /* it has notified once before */
    cr_assert(chain_run(chain) == -EOWNERDEAD);
    cr_assert(atomic_load(&taken) == 1 && script[1].posted == 0);
}

Test(chain, in_a_hurry_waits_for_nothing)
{
    const struct chain_step steps[] = {put_step(0, false), put_step(1, true), wait_step(1),
                                       put_step(2, false)};
    make(steps, 4);
    script[1].at_once = script[2].at_once = true;
    cr_assert(chain_start(chain) == 0);
    chain_hurry(chain, -ECANCELED);
    complete(0, 0); /* puts before the wait are still posted */
    cr_assert(chain_run(chain) == -ECANCELED && script[1].posted == 1 && script[2].posted == 0);
    notify(1);
    cr_assert(chain_start(chain) == 0);
    complete(0, 0);
    cr_assert(chain_run(chain) == 1 && script[2].posted == 1);
}

Test(chain, too_many_steps)
{
    const struct chain_step none = {0};
    cr_assert(chain_new(&none, CHAIN_STEPS_MAX + 1, &chain) == -E2BIG);
    cr_assert(chain_new(&none, UINT32_MAX, &chain) == -E2BIG);
    cr_assert(chain == NULL);
}
