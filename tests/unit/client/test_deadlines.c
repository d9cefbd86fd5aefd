/* Calls that wait several times have one deadline. The clock goes on by a step whenever it is read,
 * so that it counts what a wait has done. */
#include <errno.h>

#include "client/core/session.h"
#include "client/core/timeout.h"
#include "client/core/wait.h"
#include "tests/unit/client/kit.h"

#define TIMEOUT_NS INT64_C(2000000000)
#define STEP_NS    UINT64_C(100000000)
enum { PLANS = 4 };

static uint64_t now_ns;

int __wrap_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
    const uint64_t now = __atomic_add_fetch(&now_ns, STEP_NS, __ATOMIC_RELAXED);
    (void)clock;
    *time = (struct timespec){.tv_sec = (time_t)(now / 1000000000),
                              .tv_nsec = (long)(now % 1000000000)};
    return 0;
}

static struct kit kit;
static struct tca_plan *plans[PLANS];

/* Starts that do not end. */
static void setup(void)
{
    kit_init(&kit, FAKE_DAEMON_SEAT);
    kit.session->settings.timeout_ns = TIMEOUT_NS;
    for (int i = 0; i < PLANS; i++) {
        plans[i] = put_plan(&kit, 0, false);
        cr_assert_eq(tca_start(plans[i]), 0);
    }
}

static void teardown(void)
{
    kit.session->settings.timeout_ns = 0;
    kit_deinit(&kit);
}

TestSuite(deadlines, .init = setup, .fini = teardown);

static uint64_t release_all(void)
{
    const uint64_t begin_ns = now_ns;
    for (int i = 0; i < PLANS; i++)
        tca_plan_free(plans[i]);
    return now_ns - begin_ns;
}

Test(deadlines, several_waits_share_one)
{
    const uint64_t outer_ns = session_limit_begin(kit.session);
    const uint64_t spent_ns = release_all();
    session_limit_end(kit.session, outer_ns);
    cr_assert_gt(spent_ns, (uint64_t)TIMEOUT_NS / 2);
    cr_assert_lt(spent_ns, 2 * (uint64_t)TIMEOUT_NS, "%lu", spent_ns);
}

Test(deadlines, the_outer_one_counts)
{
    int64_t first_ns, left_ns;
    const uint64_t outer_ns = session_limit_begin(kit.session);
    cr_assert_eq(session_timeout(kit.session, TCA_DEFAULT, &first_ns), 0);
    const uint64_t inner_ns = session_limit_begin(kit.session);
    cr_assert_eq(session_timeout(kit.session, TCA_DEFAULT, &left_ns), 0);
    cr_assert(first_ns < TIMEOUT_NS && left_ns < first_ns);
    cr_assert_eq(session_timeout(kit.session, 5, &left_ns), 0);
    cr_assert_eq(left_ns, 5, "other time-outs are as they were");
    session_limit_end(kit.session, inner_ns);
    cr_assert_eq(session_timeout(kit.session, TCA_DEFAULT, &left_ns), 0);
    cr_assert(left_ns < first_ns);
    session_limit_end(kit.session, outer_ns);
    cr_assert_eq(session_timeout(kit.session, TCA_DEFAULT, &left_ns), 0);
    cr_assert_eq(left_ns, TIMEOUT_NS);
}
