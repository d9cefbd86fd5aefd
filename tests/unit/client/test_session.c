/* One session that puts to itself: starts, notifications, waits, receipts, the daemon's events and
 * its end. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/core/collective.h"
#include "proto/notify.h"
#include "proto/ring.h"
#include "proto/status.h"
#include "proto/tca.pb-c.h"
#include "tests/unit/client/kit.h"

static struct kit kit;

static void end(void)
{
    kit_deinit(&kit);
}

TestSuite(session, .fini = end);

Test(session, starts_copy_and_notify)
{
    kit_init(&kit, FAKE_HONEST);
    struct tca_plan *plan = put_plan(&kit, 0, false);
    struct tca_receipt receipt;
    cr_assert_eq(tca_plan_receipt(plan, &receipt), -ENODATA);
    for (int i = 1; i <= 100; i++) {
        kit.memory[0] = (uint8_t)i;
        cr_assert_eq(tca_notified(kit.session, 0, 1), 0);
        cr_assert_eq(tca_start(plan), 0);
        cr_assert_eq(tca_test(plan), 1);
        cr_assert_eq(tca_wait(plan, 0), 0);
        cr_assert_eq(tca_notified_count(kit.session, 0, 1), 1);
        cr_assert_eq(tca_notified_wait(kit.session, 0, 1, 0), 0);
        cr_assert_eq(tca_notified_count(kit.session, 0, 1), 0);
        cr_assert_eq(kit.memory[4096], i);
    }
    cr_assert_eq(tca_plan_receipt(plan, &receipt), 0);
    cr_assert_eq(receipt.starts, 100);
    cr_assert_eq(receipt.bytes, 8);
    cr_assert_eq(receipt.rail, TCA_RAIL_SHM);
    cr_assert_eq(receipt.seat, TCA_SEAT_CLIENT);
    cr_assert_eq(receipt.start_ns, 0);
    cr_assert_eq(kit.fake.segment->client_starts[0], 100);
    cr_assert_eq(kit.fake.notify->lines[1].landing, 0x500000000000 + 4096);
    cr_assert_eq(tca_region_free(kit.region), -EBUSY);
    cr_assert_null(tca_plan_free(plan));
    cr_assert_eq(tca_region_free(kit.region), 0);
    cr_assert_eq(kit.fake.released, 2);
}

Test(session, timed_receipts_have_times)
{
    kit_init(&kit, FAKE_HONEST);
    struct tca_plan *plan = put_plan(&kit, TCA_PLAN_TIMED, false);
    struct tca_receipt receipt;
    cr_assert_eq(tca_start(plan), 0);
    cr_assert_eq(tca_plan_receipt(plan, &receipt), 0);
    cr_assert(receipt.start_ns > 0 && receipt.start_ns <= receipt.done_ns &&
              receipt.done_ns <= receipt.seen_ns);
}

Test(session, a_wait_step_is_released_by_a_notification)
{
    kit_init(&kit, FAKE_HONEST);
    struct tca_plan *plan = put_plan(&kit, 0, true), *release = notify_plan(&kit, 0);
    for (int i = 0; i < 3; i++) {
        kit.memory[0] = (uint8_t)(i + 1);
        cr_assert_eq(tca_start(plan), 0);
        cr_assert_eq(tca_start(plan), -EBUSY);
        cr_assert_eq(tca_test(plan), 0);
        cr_assert_eq(tca_wait(plan, 1000000), -ETIMEDOUT);
        cr_assert_eq(tca_notified(kit.session, 0, 1), 0);
        cr_assert_eq(tca_start(release), 0);
        /* a wait for its result advances it */
        cr_assert_eq(tca_notified_wait(kit.session, 0, 1, TCA_DEFAULT), 0);
        cr_assert_eq(kit.memory[4096], i + 1);
        cr_assert_eq(tca_wait(plan, 0), 0);
    }
}

static void expect_words(const char *const words[])
{
    for (; *words; words++)
        cr_expect(strstr(tca_error_text(), *words), "\"%s\" is not in: %s", *words,
                  tca_error_text());
}

#define EXPECT_WORDS(...) expect_words((const char *const[]){__VA_ARGS__, NULL})

Test(session, time_outs_say_what_did_not_happen)
{
    struct tca_plan *named;
    uint32_t rank;
    kit_init(&kit, FAKE_HONEST);
    struct tca_plan *other = notify_plan(&kit, 9), *waiting = put_plan(&kit, 0, true);
    cr_assert_eq(tca_plan_new(kit.session, &(struct tca_plan_args){.name = "collect"}, &named), 0);
    cr_assert_eq(tca_plan_wait(named, 0, 6, 2), 0);
    cr_assert_eq(tca_plan_commit(named, TCA_DEFAULT), 0);

    cr_assert_eq(tca_start(waiting), 0);
    cr_assert_eq(tca_start(named), 0);
    cr_assert_eq(tca_wait(waiting, 1000000), -ETIMEDOUT);
    EXPECT_WORDS("start 1 of plan 7.1 \"p\"", "within 0.001 s", "rank 0", "slot 0");
    cr_assert_eq(tca_wait(named, 1000000), -ETIMEDOUT);
    EXPECT_WORDS("start 1 of plan 7.2 \"collect\"", "rank 0", "slot 6");

    cr_assert_eq(tca_notified_wait(kit.session, 0, 5, 2000000), -ETIMEDOUT);
    EXPECT_WORDS("rank 0", "slot 5", "within 0.002 s", "0 were taken");
    cr_assert_eq(tca_start(other), 0);
    cr_assert_eq(tca_notified_wait(kit.session, 0, 5, 2000000), -ETIMEDOUT);
    EXPECT_WORDS("rank 0", "slot 5", "its slot 9 has 1");
    cr_assert_eq(tca_notified_wait_any(kit.session, 5, 1000000, &rank), -ETIMEDOUT);
    EXPECT_WORDS("slot 5", "within 0.001 s");
}

Test(session, a_silent_daemon_is_told_with_the_question)
{
    struct tca_plan *plan;
    kit_init(&kit, FAKE_SILENT_COMMIT);
    cr_assert_eq(tca_plan_new(kit.session, &(struct tca_plan_args){.name = "collect"}, &plan), 0);
    cr_assert_eq(tca_plan_commit(plan, 0), -ETIMEDOUT);
    EXPECT_WORDS("plan \"collect\"", "committing", kit.fake.address.sun_path);
}

Test(session, a_sleeper_is_woken_by_another_process)
{
    kit_init(&kit, FAKE_HONEST);
    pid_t child = fork();
    if (child == 0) {
        usleep(20000); /* by then the parent sleeps; if not, the test shows less */
        notify_raise_direct(&kit.fake.notify->lines[3], 1, 0);
        notify_wake(kit.fake.notify);
        _exit(0);
    }
    cr_assert_eq(tca_notified_wait(kit.session, 0, 3, TCA_FOREVER), 0);
    cr_assert_eq(waitpid(child, NULL, 0), child);
    cr_assert_eq(kit.fake.notify->sleeping, 0);
}

Test(session, events_break_plans)
{
    kit_init(&kit, FAKE_HONEST);
    struct tca_plan *put = put_plan(&kit, 0, false), *waiting = put_plan(&kit, 0, true),
                    *broken = notify_plan(&kit, 2);
    cr_assert_eq(tca_start(waiting), 0);
    fake_event(&kit.fake, TCA__EVENT__KIND__PLAN_BROKEN, 2, -ENETDOWN);
    cr_assert_eq(tca_start(broken), -ENETDOWN);
    cr_assert_eq(tca_start(put), 0);
    fake_event(&kit.fake, TCA__EVENT__KIND__REGION_GONE, 3,
               0); /* it gives up only what no plan needs */
    cr_assert_eq(tca_start(put), 0);
    fake_event(&kit.fake, TCA__EVENT__KIND__PLAN_BROKEN, 0, -ESTALE);
    fake_event(&kit.fake, TCA__EVENT__KIND__PLAN_BROKEN, 1, -ESTALE);
    cr_assert_eq(tca_start(put), -ESTALE);
    cr_assert_eq(tca_wait(waiting, TCA_FOREVER), -ESTALE);
    fake_event(&kit.fake, 77, 1, 0); /* from a newer daemon */
    fake_event(&kit.fake, TCA__EVENT__KIND__PLAN_BROKEN, 123456, -ENETDOWN);
    fake_event(&kit.fake, TCA__EVENT__KIND__RANKS_GONE, 123456, 0);
    cr_assert_eq(tca_start(put), -ESTALE);
}

/* The error code of a failed start and its text have the same cause. */
Test(session, a_rail_notices_first)
{
    struct ring completions;
    kit_init(&kit, FAKE_DAEMON_SEAT);
    struct tca_plan *plan = put_plan(&kit, 0, false);
    cr_assert_eq(tca_start(plan), 0);
    const struct complete_entry entry = {
        .plan = 0, .sequence = 1, .status = status_to_wire(-ESTALE), .rail = FAKE_OFI};
    fake_event(&kit.fake, TCA__EVENT__KIND__PLAN_BROKEN, 0, -EOWNERDEAD);
    ring_init(&completions, &kit.fake.segment->complete, kit.fake.segment->complete_entries,
              sizeof(entry), COMPLETE_ENTRIES);
    cr_assert_eq(ring_push(&completions, &entry), 0);
    cr_assert_eq(tca_wait(plan, TCA_FOREVER), -EOWNERDEAD);
    cr_assert_not_null(strstr(tca_error_text(), "owner died"), "%s", tca_error_text());
    cr_assert_eq(tca_test(plan), -EOWNERDEAD);
    cr_assert_eq(tca_start(plan), -EOWNERDEAD);
}

Test(session, a_dead_rank_is_told_once_its_notifications_are_taken)
{
    kit_init(&kit, FAKE_HONEST);
    struct tca_plan *plan = notify_plan(&kit, 2), *waiting = put_plan(&kit, 0, true);
    cr_assert_eq(tca_start(plan), 0);
    cr_assert_eq(tca_start(waiting), 0);
    atomic_store(&kit.fake.notify->source_state[0], SOURCE_DEAD);
    fake_event(&kit.fake, TCA__EVENT__KIND__RANKS_GONE, 0, 0);
    cr_assert_eq(tca_notified_wait(kit.session, 0, 2, TCA_FOREVER), 0);
    cr_assert_eq(tca_notified_wait(kit.session, 0, 2, TCA_FOREVER), -EOWNERDEAD);
    cr_assert_eq(tca_notified(kit.session, 0, 2), -EOWNERDEAD);
    cr_assert_eq(tca_wait(waiting, TCA_FOREVER), -EOWNERDEAD);
    cr_assert_eq(tca_start(plan), -EOWNERDEAD);
}

Test(session, a_daemon_that_goes_ends_every_wait)
{
    kit_init(&kit, FAKE_HONEST);
    struct tca_plan *waiting = put_plan(&kit, 0, true);
    struct tca_region *region;
    cr_assert_eq(tca_start(waiting), 0);
    shutdown(kit.fake.fd, SHUT_RDWR);
    cr_assert_eq(tca_wait(waiting, TCA_FOREVER), -EHOSTDOWN);
    cr_assert_eq(tca_notified_wait(kit.session, 0, 2, TCA_FOREVER), -EHOSTDOWN);
    cr_assert_eq(tca_start(waiting), -EHOSTDOWN);
    cr_assert_eq(tca_region_alloc(kit.session, 1, &region), -EHOSTDOWN);
    cr_assert_not_null(strstr(tca_error_text(), kit.fake.address.sun_path));
}

Test(session, a_child_must_open_its_own)
{
    kit_init(&kit, FAKE_HONEST);
    pid_t child = fork();
    if (child == 0) {
        struct tca_region *region;
        int r = tca_region_alloc(kit.session, 1, &region);
        tca_close(kit.session); /* which leaves the parent's alone */
        _exit(r == -EINVAL ? 0 : 1);
    }
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert_eq(status, 0);
    cr_assert_eq(tca_region_free(kit.region), 0);
}

Test(session, a_group_of_one_needs_no_daemon)
{
    uint64_t one = 42, all = 0;
    kit_init(&kit, FAKE_HONEST);
    cr_assert_eq(tca_allgather(kit.session, &one, sizeof(one), &all, TCA_DEFAULT), 0);
    cr_assert_eq(all, 42);
    cr_assert_eq(tca_barrier(kit.session, TCA_DEFAULT), 0);
    cr_assert_eq(tca_allgather(kit.session, &one, 4097, &all, TCA_DEFAULT), -EINVAL);
    cr_assert_eq(tca_node_of(kit.session, 0), 1);
    cr_assert_eq(tca_node_of(kit.session, 1), -EINVAL);
    cr_assert_str_eq(tca_node_name(kit.session), "fake");
}

/* The result of a commit that has timed out is released when it arrives. */
Test(session, a_late_answer_is_released)
{
    struct tca_plan *plan;
    kit_init(&kit, FAKE_LATE_COMMIT);
    cr_assert_eq(tca_plan_new(kit.session, NULL, &plan), 0);
    cr_assert_eq(tca_plan_notify(plan, 0, 0), 0);
    cr_assert_eq(tca_plan_commit(plan, 0), -ETIMEDOUT);
    kit.fake.go = true;
    cr_assert_eq(tca_plan_commit(plan, TCA_DEFAULT), 0, "it can be tried again: %s",
                 tca_error_text());
    cr_assert_eq(tca_start(plan), 0);
    cr_assert_eq(tca_notified(kit.session, 0, 0), 1);
    cr_assert_eq(tca_region_free(kit.region), 0);
    cr_assert_eq(kit.fake.released, 2, "the first plan and the region");
}

static void begin_plans(struct tca_plan *plans[], unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        cr_assert_eq(tca_plan_new(kit.session, NULL, &plans[i]), 0);
        cr_assert_eq(tca_plan_notify(plans[i], 0, i), 0);
        cr_assert_eq(plan_commit_begin(plans[i]), 0, "%s", tca_error_text());
    }
}

/* Their replies are taken in any order. */
Test(session, several_commits_are_under_way)
{
    enum { PLANS = 20 };
    struct tca_plan *plans[PLANS];
    kit_init(&kit, FAKE_LATE_COMMIT);
    begin_plans(plans, PLANS);
    cr_assert_eq(tca_start(plans[0]), -EINVAL, "it is not committed");
    kit.fake.go = true;
    for (unsigned i = PLANS; i-- > 0;)
        cr_assert_eq(plan_commit_end(plans[i]), 0, "%s", tca_error_text());
    for (unsigned i = 0; i < PLANS; i++) {
        cr_assert_eq(tca_start(plans[i]), 0);
        cr_assert_eq(tca_notified(kit.session, 0, i), 1);
        tca_plan_free(plans[i]);
    }
    cr_assert_eq(tca_region_free(kit.region), 0);
    cr_assert_eq(kit.fake.released, PLANS + 1);
}

Test(session, commits_under_way_when_tcad_ends)
{
    struct tca_plan *plans[2];
    kit_init(&kit, FAKE_LATE_COMMIT);
    begin_plans(plans, 2);
    shutdown(kit.fake.fd, SHUT_RDWR);
    for (unsigned i = 0; i < 2; i++)
        cr_assert_eq(plan_commit_end(plans[i]), -EHOSTDOWN);
    kit.fake.go = true;
    cr_assert_eq(tca_plan_commit(plans[0], TCA_DEFAULT), -EHOSTDOWN);
}

/* What is said of a plan before its reply is taken, which has come, is handled then. */
Test(session, an_event_between_replies)
{
    struct tca_plan *plans[3];
    kit_init(&kit, FAKE_HONEST);
    begin_plans(plans, 2);
    cr_assert_eq(plan_commit_end(plans[1]), 0); /* the reply of the first has come before it */
    fake_event(&kit.fake, TCA__EVENT__KIND__PLAN_BROKEN, 0, -ESTALE);
    begin_plans(plans + 2, 1);
    cr_assert_eq(plan_commit_end(plans[2]), 0);
    cr_assert_eq(plan_commit_end(plans[0]), 0);
    cr_assert_eq(tca_dispatch(kit.session), 0);
    cr_assert_eq(tca_start(plans[0]), -ESTALE);
    cr_assert_eq(tca_start(plans[1]), 0);
    for (unsigned i = 0; i < 3; i++)
        tca_plan_free(plans[i]);
}
