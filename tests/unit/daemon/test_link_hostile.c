/* Offers and replies that no correct daemon sends. */
#include "linked.h"

TestSuite(link_hostile, .init = setup, .fini = teardown);

static void offer_raw(const char *driver, const char *plane, uint64_t generation, size_t bytes)
{
    static uint8_t data[4 * OFFER_MAX_BYTES] = {0xff};
    Tca__RailKey key = BODY_OF(rail_key, .driver = (char *)driver, .plane = (char *)plane);
    Tca__PeerOffer offer =
        BODY_OF(peer_offer, .rail = driver ? &key : NULL, .generation = generation,
                .offer = (ProtobufCBinaryData){bytes, data});
    links_offered(nodes[1].links, 0, ++question_count, &offer);
}

static void expect_refused(int error)
{
    last_failure = 0;
    cr_assert(deliver(1));
    cr_assert_eq(last_failure, error, "%d", last_failure);
    cr_assert_eq(link_at(1, 0)->state, LINK_IDLE);
    cr_assert_eq(job_count, 0);
}

Test(link_hostile, offers_beyond_the_limits)
{
    offer_raw(NULL, NULL, 1, OFFER_BYTES);
    expect_refused(-ENETDOWN);
    offer_raw("ofi", "b", 1, OFFER_BYTES);
    expect_refused(-ENETDOWN);
    offer_raw("nothing", "a", 1, OFFER_BYTES);
    expect_refused(-ENETDOWN);
    offer_raw("ofi", "a", 0, OFFER_BYTES);
    expect_refused(-EPROTO);
    offer_raw("ofi", "a", 1, 0);
    expect_refused(-EPROTO);
    offer_raw("ofi", "a", 1, OFFER_MAX_BYTES + 1);
    expect_refused(-EPROTO);
    links_down(nodes[1].links, 0);
    offer_raw("ofi", "a", 1, OFFER_BYTES);
    last_failure = 0;
    cr_assert(deliver(1));
    cr_assert_eq(last_failure, -ENETDOWN);
}

/* An offer that the driver rejects as malformed. */
Test(link_hostile, an_offer_of_another_length)
{
    offer_raw("ofi", "a", 1, OFFER_BYTES - 1);
    cr_assert(work() && work());
    expect_refused(-EPROTO);
    cr_assert_eq(peers_alive, 0);
}

Test(link_hostile, an_offer_is_taken_once)
{
    struct waiter waiter;
    begin(0, 1, &waiter);
    settle();
    offer_raw("ofi", "a", link_at(0, 1)->own.generation, OFFER_BYTES);
    cr_assert(deliver(1));
    cr_assert_eq(last_failure, -ESTALE);
    expect_pair();
    cr_assert_eq(nodes[1].lost, 0);
}

/* A flood occupies the worker with at most two jobs at a time. */
Test(link_hostile, a_flood)
{
    for (uint64_t generation = 1; generation <= 1000; generation++) {
        offer_raw("ofi", "a", generation, OFFER_BYTES);
        question_count--;
        cr_assert_leq(job_count, 2);
        if (generation % 7 == 0)
            work();
        while (deliver(1))
            ;
        cr_assert_leq(peers_alive, 3);
    }
    settle();
    cr_assert_eq(peers_alive, 1);
    struct waiter waiter; /* its own generations begin below */
    begin(0, 1, &waiter);
    settle();
    cr_assert_eq(waiter.status, -ESTALE);
}

Test(link_hostile, replies_that_nobody_may_send)
{
    static const size_t bytes[] = {0, OFFER_MAX_BYTES + 1, OFFER_BYTES};
    for (unsigned i = 0; i < 3; i++) {
        struct waiter waiter;
        uint8_t data[2 * OFFER_MAX_BYTES] = {0};
        Tca__Done done = TCA__DONE__INIT;
        Tca__PeerOffered offered = BODY_OF(
            peer_offered, .offer = (ProtobufCBinaryData){bytes[i], data}, .generation = i < 2);
        const Tca__Message message = MESSAGE_OF(PEER_OFFERED, peer_offered, &offered);
        const Tca__Message other = MESSAGE_OF(DONE, done, &done);
        begin(0, 1, &waiter);
        cr_assert(work());
        end_question(&questions[question_count], 0, &message, "");
        cr_assert_eq(waiter.status, -EPROTO);
        begin(0, 1, &waiter);
        cr_assert(work());
        end_question(&questions[question_count], 0, &other, "");
        cr_assert_eq(waiter.status, -EPROTO);
    }
    settle();
}
