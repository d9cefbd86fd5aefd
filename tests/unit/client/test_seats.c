/* Plans with chains in the daemon's seat: entries in the session's rings. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "proto/notify.h"
#include "proto/ring.h"
#include "proto/status.h"
#include "tests/unit/client/kit.h"

static struct kit kit;

static void end(void)
{
    kit_deinit(&kit);
}

TestSuite(seats, .fini = end);

/* What an engine would do with the next entry of channel 0. */
static struct submit_entry engine_take(void)
{
    static struct ring ring;
    struct submit_entry entry;
    if (!ring.shared)
        ring_init(&ring, &kit.fake.segment->submit[0], kit.fake.segment->submit_entries[0],
                  sizeof(entry), SUBMIT_ENTRIES);
    cr_assert_eq(ring_pop(&ring, &entry), 1);
    return entry;
}

static void engine_complete(const struct complete_entry *entry)
{
    static struct ring ring;
    if (!ring.shared)
        ring_init(&ring, &kit.fake.segment->complete, kit.fake.segment->complete_entries,
                  sizeof(*entry), COMPLETE_ENTRIES);
    cr_assert_eq(ring_push(&ring, entry), 0);
}

Test(seats, the_daemon_seat_goes_through_the_rings)
{
    kit_init(&kit, FAKE_DAEMON_SEAT);
    struct tca_plan *plan = put_plan(&kit, 0, false);
    struct tca_receipt receipt;
    uint64_t rung;

    atomic_store(&kit.fake.segment->engine_armed, 1);
    cr_assert_eq(tca_start(plan), 0);
    cr_assert_eq(kit.fake.segment->engine_armed, 0);
    cr_assert_eq(read(kit.fake.engine_fd, &rung, sizeof(rung)), sizeof(rung));
    struct submit_entry entry = engine_take();
    cr_assert_eq(tca_test(plan), 0);
    cr_assert_eq(tca_wait(plan, 1000), -ETIMEDOUT);
    cr_expect(strstr(tca_error_text(), "tcactl plan explain 7.0"), "%s", tca_error_text());

    struct complete_entry answer = {
        .plan = entry.plan, .sequence = entry.sequence + 1, .rail = FAKE_OFI};
    engine_complete(&answer); /* of a start that never was */
    answer.plan = 4000;
    engine_complete(&answer); /* of a plan that never was */
    cr_assert_eq(tca_test(plan), 0);
    answer = (struct complete_entry){.plan = entry.plan,
                                     .sequence = entry.sequence,
                                     .rail = FAKE_OFI,
                                     .bytes = 8,
                                     .descriptors = 1,
                                     .retries = 2,
                                     .hops = 3,
                                     .start_ns = entry.start_ns,
                                     .taken_ns = entry.start_ns + 1,
                                     .posted_ns = entry.start_ns + 2,
                                     .done_ns = entry.start_ns + 3};
    engine_complete(&answer);
    cr_assert_eq(tca_wait(plan, 0), 0);
    cr_assert_eq(tca_plan_receipt(plan, &receipt), 0);
    cr_assert_eq(receipt.rail, TCA_RAIL_OFI);
    cr_assert_str_eq(receipt.rail_name, "ofi:tcp:lo");
    cr_assert_eq(receipt.seat, TCA_SEAT_DAEMON);
    cr_assert_eq(receipt.bytes, 8);
    cr_assert_eq(receipt.retries, 2);
    cr_assert_eq(receipt.hops, 3);
    cr_assert_eq(receipt.taken_ns, receipt.start_ns + 1);
    cr_assert_eq(receipt.done_ns, receipt.start_ns + 3);
    cr_assert_neq(receipt.seen_ns, 0);

    cr_assert_eq(tca_start(plan), 0); /* and one that fails */
    entry = engine_take();
    answer = (struct complete_entry){
        .plan = entry.plan, .sequence = entry.sequence, .status = status_to_wire(-ENETDOWN)};
    engine_complete(&answer);
    cr_assert_eq(tca_wait(plan, 0), -ENETDOWN);
    cr_assert_eq(tca_test(plan), -ENETDOWN);
}

Test(seats, a_full_ring_says_so)
{
    struct tca_plan *plans[SUBMIT_ENTRIES + 1];
    kit_init(&kit, FAKE_DAEMON_SEAT);
    for (int i = 0; i <= SUBMIT_ENTRIES; i++)
        plans[i] = put_plan(&kit, 0, false);
    for (int i = 0; i < SUBMIT_ENTRIES; i++)
        cr_assert_eq(tca_start(plans[i]), 0);
    cr_assert_eq(tca_start(plans[SUBMIT_ENTRIES]), -EAGAIN);
    engine_take();
    cr_assert_eq(tca_start(plans[SUBMIT_ENTRIES]), 0);
}

Test(seats, a_ring_that_makes_no_sense_ends_the_session)
{
    kit_init(&kit, FAKE_DAEMON_SEAT);
    struct tca_plan *plan = put_plan(&kit, 0, false);
    cr_assert_eq(tca_start(plan), 0);
    atomic_store(&kit.fake.segment->complete.tail, 5000);
    cr_assert_eq(tca_wait(plan, TCA_FOREVER), -EPROTO);
    cr_assert_eq(tca_start(plan), -EPROTO);
}

Test(seats, both_seats_have_to_end)
{
    struct tca_plan *plan;
    struct tca_receipt receipt;
    kit_init(&kit, FAKE_MIXED_SEATS);
    cr_assert_eq(tca_plan_new(kit.session, NULL, &plan), 0);
    cr_assert_eq(tca_plan_wait(plan, 0, 0, 1), 0);
    cr_assert_eq(
        tca_plan_put(plan,
                     &(struct tca_put){.source = kit.region, .target = kit.handle, .bytes = 8}),
        0);
    cr_assert_eq(tca_plan_chain(plan), 0);
    cr_assert_eq(
        tca_plan_put(plan,
                     &(struct tca_put){.source = kit.region, .target = kit.handle, .bytes = 16}),
        0);
    cr_assert_eq(tca_plan_commit(plan, TCA_DEFAULT), 0, "%s", tca_error_text());

    for (int daemon_first = 0; daemon_first < 2; daemon_first++) {
        cr_assert_eq(tca_start(plan), 0);
        struct submit_entry entry = engine_take();
        struct complete_entry answer = {.plan = entry.plan,
                                        .sequence = entry.sequence,
                                        .rail = FAKE_OFI,
                                        .bytes = 16,
                                        .descriptors = 3,
                                        .done_ns = 1};
        if (daemon_first)
            engine_complete(&answer);
        else
            notify_raise_direct(&kit.fake.notify->lines[0], 1, 0);
        cr_assert_eq(tca_test(plan), 0);
        if (daemon_first)
            notify_raise_direct(&kit.fake.notify->lines[0], 2, 0);
        else
            engine_complete(&answer);
        cr_assert_eq(tca_test(plan), 1);
        cr_assert_eq(tca_plan_receipt(plan, &receipt), 0);
        cr_assert_eq(receipt.bytes, 24);
        cr_assert_eq(receipt.descriptors, 4);
        cr_assert_eq(receipt.rail, TCA_RAIL_SHM, "of the first chain");
        cr_assert_eq(receipt.seat, TCA_SEAT_CLIENT);
    }
}
