/* When a plan tries copy modes and when it tries again. The clock, the distance to the receiver and
 * the cost of each mode are the test's: its struct trial_effects. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "client/core/session.h"
#include "client/core/wisdom.h"
#include "client/plan/plan.h"
#include "client/plan/trial.h"
#include "drivers/shm/copy_modes.h"
#include "tests/unit/client/own_clock.h"

enum {
    NEAR_NS = 40,
    FAR_NS = 200,
    STARTS_MAX = 4000,
    MOVED_REVIEWS = 3, /* as in trial.c */
};

static uint32_t distance_ns;
static struct copy_mode mode, twin_mode;
static struct tca session;
static struct process process;
static struct transfer transfer, twin_transfer;
static struct step step;
static struct tca_plan plan, twin; /* which puts the same */
static struct tca_layout *layout;

static void probe(struct lane *lane)
{
    lane->distance_ns = distance_ns;
}

static void set_mode(struct driver_put *put, const struct copy_mode *new_mode)
{
    *(put ? &twin_mode : &mode) = *new_mode;
}

static const struct trial_effects effects = {
    .now_ns = own_clock, .probe = probe, .set_mode = set_mode};

/* Near, RING is fastest, and far, HALF. */
static uint64_t cost_ns(const struct copy_mode *used)
{
    const enum copy_method best = distance_ns < FAR_NS ? COPY_RING : COPY_HALF;
    return used->method == best ? 10000 : 15000;
}

static void starts(unsigned count)
{
    while (count--) {
        if (plan.flags & PLAN_TRIES)
            trial_start(&plan);
        now_ns += cost_ns(&mode);
    }
}

static bool tries(void)
{
    return (plan.flags & PLAN_TRIES) != 0;
}

static void settle(void)
{
    for (unsigned i = 0; i < STARTS_MAX && tries(); i++)
        starts(1);
    cr_assert(!tries(), "still trying after %d starts", STARTS_MAX);
}

static void reviews(unsigned count)
{
    while (count--)
        trials_review(&session);
}

/* A plan with a put of 60,000 bytes, just committed. */
static void begin(void)
{
    plan = (struct tca_plan){.session = &session, .transfers = &transfer, .transfer_count = 1};
    session.plans = &plan;
    trial_begin(&plan);
}

static void setup(void)
{
    now_ns = 1000000000;
    distance_ns = NEAR_NS;
    session.settings.tune = TUNE_ON;
    session.trial_effects = &effects;
    session.segment = calloc(1, sizeof(*session.segment));
    session.wisdom = calloc(1, sizeof(*session.wisdom));
    cr_assert(session.segment && session.wisdom);
    cr_assert_eq(tca_layout_contiguous(60000, &layout), 0);
    step.put.source_layout = step.put.target_layout = layout;
    transfer = (struct transfer){.process = &process, .tried = &step};
    begin();
}

static void teardown(void)
{
    trial_end(&plan);
    tca_layout_free(layout);
    free(session.segment);
    free(session.wisdom);
}

TestSuite(trial, .init = setup, .fini = teardown);

Test(trial, finds_the_fastest_mode)
{
    cr_expect(tries());
    settle();
    cr_expect_eq(mode.method, COPY_RING);
    starts(100);
    cr_expect_eq(mode.method, COPY_RING);
}

Test(trial, tries_again_when_the_distance_has_changed)
{
    settle();
    distance_ns = FAR_NS;
    reviews(MOVED_REVIEWS - 1);
    cr_expect(!tries(), "too early");
    reviews(1);
    cr_assert(tries());
    settle();
    cr_expect_eq(mode.method, COPY_HALF);
    cr_expect_eq(session.wisdom->count, 2, "an entry for each distance, not %u",
                 session.wisdom->count);
}

Test(trial, a_disturbed_measurement_is_no_reason)
{
    settle();
    for (unsigned i = 0; i < 100; i++) {
        distance_ns = i % MOVED_REVIEWS == 0 ? NEAR_NS : FAR_NS;
        reviews(1);
        cr_assert(!tries(), "review %u", i);
    }
}

Test(trial, stays_as_it_is_at_the_same_distance)
{
    settle();
    reviews(1000);
    cr_expect(!tries());
}

Test(trial, coming_back_takes_what_was_found_there)
{
    settle();
    distance_ns = FAR_NS;
    reviews(MOVED_REVIEWS);
    settle();
    distance_ns = NEAR_NS;
    reviews(10);
    cr_assert(tries());
    starts(20);
    cr_expect(!tries(), "not tried a second time");
    cr_expect_eq(mode.method, COPY_RING);
}

/* Processors that change all the time cost less and less. */
Test(trial, tries_again_less_and_less_often)
{
    unsigned before = 0;
    settle();
    for (unsigned i = 0; i < 6; i++) {
        unsigned count = 0;
        distance_ns = distance_ns == NEAR_NS ? FAR_NS : NEAR_NS;
        for (; !tries(); count++) {
            cr_assert(count < 1000);
            reviews(1);
        }
        cr_expect_gt(count, before);
        before = count;
        settle();
    }
}

Test(trial, a_running_or_broken_plan_is_left_alone)
{
    settle();
    distance_ns = FAR_NS;
    plan.state = PLAN_RUNNING;
    reviews(10);
    cr_expect(!tries());
    plan.state = PLAN_IDLE;
    plan.broken = -1;
    reviews(10);
    cr_expect(!tries());
    plan.broken = 0;
    reviews(MOVED_REVIEWS);
    cr_expect(tries());
}

Test(trial, what_is_known_at_this_distance_is_not_tried)
{
    settle();
    trial_end(&plan);
    begin();
    starts(20);
    cr_expect(!tries());
    cr_expect_eq(mode.method, COPY_RING);
    trial_end(&plan);
    distance_ns = FAR_NS;
    begin();
    starts(20);
    cr_expect(tries(), "not known at this distance");
}

/* ---- two plans that put alike, in turn */

static void start_twin(void)
{
    if (twin.flags & PLAN_TRIES)
        trial_start(&twin);
    now_ns += cost_ns(&twin_mode);
}

static void begin_twin(void)
{
    twin_transfer = transfer;
    twin_transfer.put = (struct driver_put *)&twin_mode; /* tells it from the other one's */
    twin = (struct tca_plan){
        .session = &session, .next = &plan, .transfers = &twin_transfer, .transfer_count = 1};
    session.plans = &twin;
    trial_begin(&twin);
    for (unsigned i = 0; i < 20; i++) {
        starts(1);
        start_twin();
    }
    cr_assert(tries() && twin.flags & PLAN_TRIES);
}

static void settle_twin(void)
{
    for (unsigned i = 0; i < STARTS_MAX && twin.flags & PLAN_TRIES; i++)
        start_twin();
    cr_assert(!(twin.flags & PLAN_TRIES));
    cr_expect_eq(twin_mode.method, COPY_RING);
}

Test(trial, only_one_of_two_tries)
{
    begin_twin();
    for (unsigned i = 0; i < STARTS_MAX && tries(); i++) {
        starts(1);
        start_twin();
        cr_assert(copy_mode_equal(&mode, &twin_mode));
    }
    cr_expect(!tries());
    cr_expect_eq(mode.method, COPY_RING);
    settle_twin();
    trial_end(&twin);
}

Test(trial, the_one_that_tried_is_released)
{
    begin_twin();
    trial_end(&plan);
    twin.next = NULL;
    memset(&plan, 0xa5, sizeof(plan)); /* nobody looks at it any more */
    settle_twin();
    trial_end(&twin);
    plan = (struct tca_plan){0};
}

Test(trial, the_one_that_tried_is_started_no_more)
{
    begin_twin();
    settle_twin();
    trial_end(&twin);
}

/* Measurements near the boundary of two classes of distance: what is known in one of them is
 * known. */
Test(trial, distances_vary)
{
    distance_ns = 45;
    trial_end(&plan);
    begin();
    settle();
    trial_end(&plan);
    distance_ns = 52;
    begin();
    starts(20);
    cr_expect(!tries());
    reviews(1000);
    cr_expect(!tries());
}

/* ---- puts that differ in where they begin */

Test(trial, puts_of_one_shape_try_together)
{
    static struct transfer transfers[2];
    static struct step steps[2];
    struct tca_layout *full, *low, *high;
    const uint64_t sizes[] = {66, 20000}, face[] = {1, 20000};
    cr_assert_eq(tca_layout_contiguous(8, &full), 0);
    cr_assert_eq(tca_layout_subarray(full, 2, sizes, face, (uint64_t[]){1, 0}, TCA_ORDER_C, &low),
                 0);
    cr_assert_eq(tca_layout_subarray(full, 2, sizes, face, (uint64_t[]){64, 0}, TCA_ORDER_C, &high),
                 0);
    trial_end(&plan);
    steps[0].put.source_layout = steps[1].put.target_layout = low;
    steps[1].put.source_layout = steps[0].put.target_layout = high;
    for (unsigned i = 0; i < 2; i++)
        transfers[i] = (struct transfer){.process = &process, .tried = &steps[i]};
    transfers[1].put = (struct driver_put *)&twin_mode;
    plan = (struct tca_plan){.session = &session, .transfers = transfers, .transfer_count = 2};
    trial_begin(&plan);
    starts(20);
    for (unsigned i = 0; i < STARTS_MAX && tries(); i++) {
        starts(1);
        cr_assert(copy_mode_equal(&mode, &twin_mode));
    }
    cr_expect(!tries());
    cr_expect_eq(session.wisdom->count, 1);
    tca_layout_free(full);
    tca_layout_free(low);
    tca_layout_free(high);
}
