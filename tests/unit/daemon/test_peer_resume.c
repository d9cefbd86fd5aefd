/* Connections that end without a goodbye. */
#include "raw_peer.h"

#include <signal.h>

TestSuite(peer_resume, .init = test_setup, .fini = test_teardown, .timeout = 100);

/* ---- what is kept ---- */

static void add(struct outbox *outbox, size_t count)
{
    struct kept *kept;
    cr_assert_eq(outbox_add(outbox, 1, count, &kept), 0);
    memset(kept->bytes, 0, count);
}

Test(peer_resume, what_is_acknowledged_is_not_kept)
{
    struct outbox outbox;
    outbox_init(&outbox);
    cr_assert_eq(outbox_acknowledge(&outbox, 0), 0);
    cr_assert_eq(outbox_acknowledge(&outbox, 1), -EPROTO, "nothing was sent");
    for (size_t i = 0; i < 3; i++)
        add(&outbox, i);
    cr_assert_eq(outbox_acknowledge(&outbox, 4), -EPROTO);
    cr_assert_eq(outbox_acknowledge(&outbox, UINT64_MAX), -EPROTO);
    cr_assert_eq(outbox_acknowledge(&outbox, 2), 0);
    cr_assert_eq(outbox.first->count, 2);
    cr_assert_null(outbox.first->next);
    cr_assert_eq(outbox_acknowledge(&outbox, 1), -EPROTO, "it had more");
    cr_assert_eq(outbox_acknowledge(&outbox, 2), 0);
    cr_assert_eq(outbox_acknowledge(&outbox, 3), 0);
    cr_assert_null(outbox.first);
    cr_assert_eq(outbox.bytes, 0);
    add(&outbox, 7);
    cr_assert_eq(outbox.first->count, 7);
    outbox_deinit(&outbox);
}

Test(peer_resume, what_is_kept_is_bounded)
{
    struct outbox outbox;
    struct kept *kept;
    outbox_init(&outbox);
    cr_assert_eq(outbox_add(&outbox, 1, OUTBOX_MAX_BYTES, &kept), -ENOBUFS);
    cr_assert_eq(outbox_add(&outbox, 1, SIZE_MAX / 2, &kept), -ENOBUFS);
    cr_assert_eq(outbox_add(&outbox, 1, FRAME_PAYLOAD_MAX, &kept), 0);
    size_t empty = 0; /* cost, too */
    while (outbox_add(&outbox, 1, 0, &kept) == 0)
        empty++;
    cr_assert_leq(empty * sizeof(struct kept), OUTBOX_MAX_BYTES);
    cr_assert_leq(outbox.bytes, OUTBOX_MAX_BYTES);
    outbox_deinit(&outbox);
    cr_assert_eq(outbox.bytes, 0);
}

/* ---- two daemons, whose connections are cut ---- */

enum { QUESTIONS = 400, CUT_EVERY = 7 };
static struct reply replies[2][QUESTIONS];
static unsigned next_question[2]; /* that a node has to be asked */

static void asked_in_order(void *context, uint32_t peer, uint32_t tag, const Tca__Message *question)
{
    struct node *node = context;
    const unsigned number = question->body_case == TCA__MESSAGE__BODY_PEER_OFFER
                                ? (unsigned)question->peer_offer->generation
                                : (unsigned)atoi(question->peer_lookup->name);
    cr_assert_eq(number, next_question[node->tcad.node], "%u instead of %u", number,
                 next_question[node->tcad.node]);
    next_question[node->tcad.node]++;
    node_asked(context, peer, tag, question);
}

static bool all_answered(void)
{
    for (unsigned i = 0; i < QUESTIONS; i++)
        if (!replies[0][i].count || !replies[1][i].count)
            return false;
    return true;
}

/* Whether this process has sockets to and from these ports. */
static unsigned cut_some(void)
{
    unsigned cuts = 0;
    for (int fd = 3; fd < 256; fd++) {
        struct sockaddr_in near, far;
        socklen_t near_bytes = sizeof(near), far_bytes = sizeof(far);
        if (getsockname(fd, (struct sockaddr *)&near, &near_bytes) < 0 ||
            getpeername(fd, (struct sockaddr *)&far, &far_bytes) < 0 ||
            near.sin_family != AF_INET || rand() % 2)
            continue;
        const struct linger abort = {1, 0};
        if (rand() % 2)
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &abort, sizeof(abort));
        shutdown(fd, rand() % 2 ? SHUT_RD : SHUT_RDWR);
        cuts++;
    }
    return cuts;
}

static void offer(struct node *node, uint32_t whom, unsigned generation, struct reply *taken)
{
    uint8_t bytes[OFFER_MAX_BYTES] = {0};
    Tca__PeerOffer offer = BODY_OF(peer_offer, .generation = generation,
                                   .offer = (ProtobufCBinaryData){sizeof(bytes), bytes});
    const Tca__Message question = MESSAGE_OF(PEER_OFFER, peer_offer, &offer);
    peers_request(node->tcad.peers, whom, &question, LONG, reply_take, taken);
}

static void ask_and_cut(uint32_t security)
{
    struct peers_events events = node_events;
    events.asked = asked_in_order;
    signal(SIGPIPE, SIG_IGN); /* as tcad does */
    for (unsigned i = 0; i < 2; i++) {
        struct node *node = node_init(i);
        Tca__PeerHello hello = node_hello(node);
        node->conf.control.security = security;
        node_open_as(node, &hello, &events);
    }
    expect_answer(&test.nodes[0], 1, "0");
    expect_answer(&test.nodes[1], 0, "0");
    srand(5);
    for (unsigned i = 0; i < QUESTIONS; i++) {
        char name[16];
        snprintf(name, sizeof(name), "%u", i + 1);
        ask(&test.nodes[0], 1, name, LONG, &replies[0][i]);
        if (i % 2)
            offer(&test.nodes[1], 0, i + 1, &replies[1][i]);
        else
            ask(&test.nodes[1], 0, name, LONG, &replies[1][i]);
        if (i % CUT_EVERY == 0)
            cut_some();
        if (i % 3 == 0)
            run_for_ms((unsigned)rand() % 8);
    }
    run_until(all_answered);
    for (unsigned node = 0; node < 2; node++) {
        struct peer_info info;
        for (unsigned i = 0; i < QUESTIONS; i++) {
            cr_assert_eq(replies[node][i].status, 0, "%s", replies[node][i].text);
            cr_assert_eq(atoi(replies[node][i].handle), (int)i + 1);
            cr_assert_eq(replies[node][i].count, 1);
        }
        cr_assert_eq(test.nodes[node].downs, 0, "%s", test.nodes[node].down_text);
        cr_assert_eq(test.nodes[node].ups, 1);
        cr_assert_eq(peers_info(test.nodes[node].tcad.peers, 1 - node, &info), 0);
        cr_assert_gt(info.reconnects, 3);
        cr_assert_neq(info.last_loss[0], '\0');
        cr_assert_eq(peers_refused_resumes(test.nodes[node].tcad.peers), 0);
    }
}

Test(peer_resume, every_message_arrives_once_and_in_order_tls)
{
    ask_and_cut(CONF_SECURITY_TLS);
}

Test(peer_resume, every_message_arrives_once_and_in_order_plain)
{
    ask_and_cut(CONF_SECURITY_PLAIN);
}

/* What a gather of the largest size sends to a node, sent at once. */
Test(peer_resume, large_bursts_follow_each_other)
{
    enum { PARTS = 5, PART_BYTES = PEER_BURST_MAX_BYTES / PARTS - 4096 };
    struct node *a = node_new(0);
    node_new(1);
    char *name = malloc(PART_BYTES + 1);
    memset(name, 'n', PART_BYTES);
    name[PART_BYTES] = '\0';
    for (unsigned burst = 0; burst < 3; burst++) {
        for (unsigned i = 0; i + 1 < PARTS; i++)
            ask(a, 1, name, LONG, &other);
        reply = (struct reply){0};
        ask(a, 1, name, LONG, &reply);
        run_until(answered);
        cr_assert_eq(reply.status, 0, "%s", reply.text);
    }
    free(name);
    cr_assert_eq(a->downs + test.nodes[1].downs, 0, "%s", a->down_text);
}

/* ---- one daemon, and messages made by hand ---- */

Test(peer_resume, what_has_not_arrived_is_sent_again)
{
    struct node *node = raw_begin();
    reply = other = (struct reply){0};
    ask(node, 0, "one", LONG, &reply);
    raw_expect_question("one");
    uint32_t first = raw.tag;
    raw_cut();
    cr_assert(peers_is_up(node->tcad.peers, 0), "nobody is told");
    ask(node, 0, "two", LONG, &other);

    cr_assert_eq(raw_resume(0), 0);
    raw_expect_question("one");
    cr_assert_eq(raw.tag, first);
    raw_expect_question("two");
    raw_cut();
    cr_assert_eq(raw_resume(1), 0);
    raw_expect_question("two");
    raw_answer(first);
    raw_answer(raw.tag);
    run_until(both_answered);
    raw_cut();
    cr_assert_eq(raw_resume(2), 2, "both answers");
    cr_assert_eq(reply.status + other.status, 0);
    cr_assert_eq(node->ups, 1);
    cr_assert_eq(node->downs, 0);
    raw_ping(2);
    Tca__Message *pong = raw_expect(TCA__MESSAGE__BODY_PEER_PONG); /* nothing was sent again */
    cr_assert_eq(pong->peer_pong->received, 2);
    tca__message__free_unpacked(pong, NULL);
    cr_assert_null(raw_seen()->link.outbox.first);
}

Test(peer_resume, much_is_acknowledged_at_once)
{
    raw_begin();
    for (uint32_t tag = 1; tag <= 300; tag++)
        raw_answer(tag); /* without a request: it counts nevertheless */
    Tca__Message *pong = raw_expect(TCA__MESSAGE__BODY_PEER_PONG);
    cr_assert_eq(pong->peer_pong->sequence, 0);
    cr_assert_eq(pong->peer_pong->received, 256);
    tca__message__free_unpacked(pong, NULL);
}

Test(peer_resume, who_does_not_have_the_key_is_refused)
{
    struct node *node = raw_begin();
    struct raw good = raw;
    const uint8_t wrong[LINK_KEY_BYTES] = "not the key of 1";
    for (unsigned lost = 0; lost < 2; lost++) { /* beside the good connection, and in its place */
        raw = (struct raw){.fd = -1};
        raw_hello(RAW_INCARNATION, wrong);
        raw_expect_failure(-EACCES, "does not have the key");
        raw_end();
        cr_assert_eq(peers_refused_resumes(node->tcad.peers), lost + 1);
        raw = good;
        if (!lost)
            raw_cut();
        good = raw;
    }
    cr_assert_eq(raw_resume(0), 0);

    /* Nor is it sufficient to have it in the hello only. */
    raw_cut();
    raw_hello(RAW_INCARNATION, raw.their_key);
    raw_welcomed();
    raw_welcome(wrong, 0);
    raw_expect_failure(-EACCES, "does not have the key");
    raw_end();
    cr_assert_eq(peers_refused_resumes(node->tcad.peers), 3);
    cr_assert_eq(raw_resume(0), 0);
    cr_assert_eq(node->downs, 0);
}

static void expect_down(const char *text)
{
    run_until(raw_is_down);
    contains(raw_node()->down_text, text);
    raw_end();
}

Test(peer_resume, impossible_numbers_are_refused)
{
    struct node *node = raw_begin();
    ask(node, 0, "one", LONG, &reply);
    raw_expect_question("one");
    raw_cut();
    raw_hello(RAW_INCARNATION, raw.their_key);
    raw_welcomed();
    raw_welcome(raw.their_key, 2);
    raw_expect_failure(-EPROTO, "acknowledges 2 messages, of 1 that were sent");
    cr_assert_eq(peers_refused_resumes(node->tcad.peers), 1);
    expect_down("acknowledges 2 messages");
    cr_assert_eq(reply.status, -EHOSTDOWN);
}

Test(peer_resume, impossible_heartbeats_end_the_link)
{
    raw_begin();
    raw_ping(UINT64_MAX);
    expect_down("acknowledges 18446744073709551615 messages, of 0");
}

Test(peer_resume, acknowledgements_do_not_go_back)
{
    struct node *node = raw_begin();
    ask(node, 0, "one", LONG, &reply);
    raw_expect_question("one");
    raw_ping(1);
    raw_ping(0);
    expect_down("acknowledges 0 messages, of 1 that were sent and 1 that it has acknowledged");
}

Test(peer_resume, who_has_given_up_the_link_begins_another)
{
    struct node *node = raw_begin();
    ask(node, 0, "one", LONG, &reply);
    raw_expect_question("one");
    raw_cut();
    raw_hello(RAW_INCARNATION, NULL);
    cr_assert_eq(raw_welcomed(), -1);
    contains(node->down_text, "given up the link");
    cr_assert_eq(reply.status, -EHOSTDOWN);
    raw_welcome(NULL, 0);
    run_until(raw_is_up);
    cr_assert_eq(node->ups, 2);
    ask(node, 0, "two", LONG, &other);
    raw_expect_question("two");
}

Test(peer_resume, another_incarnation_does_not_resume)
{
    struct node *node = raw_begin();
    raw_cut();
    raw_hello(RAW_INCARNATION + 1, raw.their_key);
    cr_assert_eq(raw_welcomed(), -1);
    contains(node->down_text, "restarted");
    raw_welcome(NULL, 0);
    run_until(raw_is_up);
    cr_assert_eq(node->incarnation_seen, RAW_INCARNATION + 1);
}

Test(peer_resume, a_link_that_there_is_not_is_not_resumed)
{
    struct node *node = raw_begin();
    raw_end();
    close(raw_listener); /* and so it is down */
    run_until(raw_is_down);
    contains(node->down_text, "reconnecting failed: 127.");
    contains(node->down_text, "refused");
    raw_hello(RAW_INCARNATION, raw.their_key);
    cr_assert_eq(raw_welcomed(), -1);
    raw_welcome(raw.their_key, 0);
    raw_expect_failure(-EPROTO, "resumes a link that does not exist");
    cr_assert_eq(peers_refused_resumes(node->tcad.peers), 1);
}

Test(peer_resume, what_is_never_acknowledged_ends_the_link)
{
    enum { NAME_BYTES = 1 << 20 };
    struct node *node = raw_begin();
    char *name = malloc(NAME_BYTES + 1);
    memset(name, 'n', NAME_BYTES);
    name[NAME_BYTES] = '\0';
    for (unsigned i = 0; i < 2 * (OUTBOX_MAX_BYTES >> 20); i++) {
        ask(node, 0, name, LONG, &reply);
        if (i == 8) /* connected or not */
            raw_cut();
        cr_assert_leq(raw_seen()->link.outbox.bytes, OUTBOX_MAX_BYTES);
    }
    free(name);
    expect_down("no more than 95 MiB can be kept");
}

Test(peer_resume, a_link_without_a_connection_ends_in_time)
{
    struct node *node = raw_begin();
    node->conf.control.heartbeat_interval_ns = SECOND / 10;
    node->conf.control.heartbeat_timeout_ns = SECOND;
    raw_cut();
    expect_down("not reached again within");
}

Test(peer_resume, a_goodbye_is_no_loss)
{
    struct node *node = raw_begin();
    Tca__PeerLeave leave = TCA__PEER_LEAVE__INIT;
    const Tca__Message message = MESSAGE_OF(PEER_LEAVE, peer_leave, &leave);
    raw_say(0, &message);
    expect_down("its daemon has ended");
    cr_assert_eq(raw_seen()->reconnects, 0);

    raw_hello(RAW_INCARNATION, NULL);
    raw_welcomed();
    raw_welcome(NULL, 0);
    run_until(raw_is_up);
    peers_leave(node->tcad.peers);
    tca__message__free_unpacked(raw_expect(TCA__MESSAGE__BODY_PEER_LEAVE), NULL);
    cr_assert(peers_have_left(node->tcad.peers));
}
