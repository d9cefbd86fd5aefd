#include "peers.h"

TestSuite(peer, .init = test_setup, .fini = test_teardown, .timeout = 100);

/* ---- the machine ---- */

Test(peer, only_these_moves_are_legal)
{
    static const char *const table[] = {
        /* to: idle, connecting, greeting, up, lost, reconnecting, resuming, down */
        ".xx.....", /* from idle */
        ".xx....x", /* connecting */
        ".x.x...x", /* greeting */
        "....x..x", /* up */
        ".....xxx", /* lost */
        "....x.xx", /* reconnecting */
        "...xx..x", /* resuming */
        ".xx.....", /* down */
    };
    for (unsigned from = 0; from < PEER_STATE_COUNT; from++)
        for (unsigned to = 0; to < PEER_STATE_COUNT; to++)
            cr_assert_eq(peer_may(from, to), table[from][to] == 'x', "from %u to %u", from, to);
}

/* ---- asking ---- */

static void greet_and_ask(uint32_t security)
{
    for (unsigned i = 0; i < 3; i++) {
        node_init(i)->conf.control.security = security;
        node_open(&test.nodes[i]);
    }
    struct node *a = &test.nodes[0], *b = &test.nodes[1];
    expect_answer(a, 1, "first");
    cr_assert_eq(a->ups, 1);
    cr_assert_eq(b->ups, 1);
    cr_assert_eq(a->incarnation_seen, 1001);
    expect_answer(b, 0, "back");
    expect_answer(b, 2, "on");
    cr_assert_eq(b->ups, 2);
    cr_assert_eq(a->ups, 1, "the one connection serves both ways");

    reply = (struct reply){0};
    ask(a, 1, "fail", LONG, &reply);
    run_until(answered);
    cr_assert_eq(reply.status, -ENOENT);
    cr_assert_str_eq(reply.text, "nothing called fail");

    struct peer_info info;
    cr_assert_eq(peers_info(a->tcad.peers, 1, &info), 0);
    cr_assert_str_eq(info.state, "up");
    cr_assert_str_eq(info.version, TCAD_VERSION);
    cr_assert_gt(info.sent_bytes, 0);
    cr_assert_gt(info.received_bytes, 0);
    cr_assert_eq(peers_info(a->tcad.peers, 3, &info), 0);
    cr_assert_str_eq(info.state, "idle");
    cr_assert_eq(peers_info(a->tcad.peers, 0, &info), 0);
    cr_assert_str_eq(info.state, "self");
    cr_assert_eq(peers_info(a->tcad.peers, 77, &info), -EINVAL);
}

Test(peer, nodes_greet_and_answer_over_tls)
{
    greet_and_ask(CONF_SECURITY_TLS);
}

Test(peer, nodes_greet_and_answer_in_plain)
{
    greet_and_ask(CONF_SECURITY_PLAIN);
}

Test(peer, asking_the_own_node_is_like_asking_another)
{
    struct node *a = node_new(0);
    expect_answer(a, 0, "me");
    cr_assert_eq(a->asked_node, 0);
    reply = (struct reply){0};
    ask(a, 0, "fail", LONG, &reply);
    run_until(answered);
    cr_assert_eq(reply.status, -ENOENT);
    a->hold = true;
    reply = (struct reply){0};
    ask(a, 0, "slow", SECOND / 5, &reply);
    run_until(answered);
    cr_assert_eq(reply.status, -ETIMEDOUT);
}

Test(peer, a_node_outside_the_cluster_is_an_error)
{
    struct node *a = node_new(0);
    ask(a, 77, "x", LONG, &reply);
    run_until(answered);
    cr_assert_eq(reply.status, -EINVAL);
    contains(reply.text, "node 77 is not in the cluster file");
}

Test(peer, a_late_answer_is_a_timeout_and_then_ignored)
{
    struct node *a = node_new(0), *b = node_new(1);
    b->hold = true;
    ask(a, 1, "slow", SECOND / 2, &reply);
    run_until(answered);
    cr_assert_eq(reply.status, -ETIMEDOUT);
    contains(reply.text, "node n1 (id 1) has not answered");
    peers_fail(b->tcad.peers, b->asked_node, b->asked_tag, -EIO, "late");
    b->hold = false;
    expect_answer(a, 1, "again");
}

Test(peer, a_big_message_passes)
{
    node_new(1);
    struct node *a = node_new(0);
    expect_answer(a, 1, "small");
    char *name = malloc((20 << 20) + 1);
    memset(name, 'n', 20 << 20);
    name[20 << 20] = '\0';
    reply = (struct reply){0};
    ask(a, 1, name, LONG, &reply);
    free(name);
    run_until(answered);
    cr_assert_eq(reply.status, 0, "%s", reply.text);
    cr_assert_eq(strlen(reply.handle), sizeof(reply.handle) - 1);
}

Test(peer, a_question_beyond_the_limit_fails_alone)
{
    node_new(1);
    struct node *a = node_new(0);
    char *name = malloc((64 << 20) + 1);
    memset(name, 'n', 64 << 20);
    name[64 << 20] = '\0';
    ask(a, 1, name, LONG, &reply);
    free(name);
    run_until(answered);
    cr_assert_eq(reply.status, -ENOMEM);
    expect_answer(a, 1, "small");
}

/* ---- connecting ---- */

static bool settled(void)
{
    return both_answered() && peers_is_up(test.nodes[0].tcad.peers, 1) &&
           peers_is_up(test.nodes[1].tcad.peers, 0);
}

/* Lingering connections are gone, and one node has pinged the other. */
static bool quiet(void)
{
    const struct peers *a = test.nodes[0].tcad.peers, *b = test.nodes[1].tcad.peers;
    struct peer_info to_b, to_a;
    return peers_info(a, 1, &to_b) == 0 && peers_info(b, 0, &to_a) == 0 &&
           to_b.rtt_ns + to_a.rtt_ns > 0 && a->ungreeted_count + b->ungreeted_count == 0;
}

Test(peer, connecting_at_once_leaves_one_connection)
{
    struct node *a = node_init(0), *b = node_init(1);
    a->conf.control.heartbeat_interval_ns = b->conf.control.heartbeat_interval_ns = SECOND / 10;
    node_open(a);
    node_open(b);
    ask(a, 1, "from a", LONG, &reply);
    ask(b, 0, "from b", LONG, &other);
    run_until(settled);
    cr_assert_eq(reply.status, 0, "%s", reply.text);
    cr_assert_eq(other.status, 0, "%s", other.text);
    run_until(quiet);
    cr_assert_eq(a->ups, 1);
    cr_assert_eq(b->ups, 1);
    cr_assert_eq(a->downs + b->downs, 0);
}

Test(peer, a_node_that_is_not_there_is_down_at_once)
{
    struct node *a = node_new(0);
    uint64_t begin_ns = test_now_ns();
    ask(a, 1, "x", LONG, &reply);
    ask(a, 1, "y", LONG, &other);
    run_until(both_answered);
    cr_assert_eq(reply.status, -EHOSTDOWN);
    contains(reply.text, "node n1 (id 1) is down: 127.");
    contains(reply.text, "refused");
    cr_assert_eq(a->downs, 0, "it has never been up");

    node_new(1);
    reply = (struct reply){0};
    ask(a, 1, "too soon", LONG, &reply);
    bool too_soon = test_now_ns() - begin_ns < SECOND; /* otherwise this machine is too busy for
                                                          the test */
    run_until(answered);
    cr_assert(!too_soon || reply.status == -EHOSTDOWN, "not more often than once a second");
    run_for_ms(1050);
    expect_answer(a, 1, "now");
}

/* A node that has no others yet, and so has not loaded the key. */
static struct node *node_alone(void)
{
    char text[128];
    struct node *a = node_init(0);
    cluster_free(a->tcad.cluster);
    snprintf(text, sizeof(text), "cluster = test\nn0 id=0 address=%s:%u\n", test.address,
             test.ports[0]);
    a->tcad.cluster = make_cluster(text);
    node_open(a);
    cr_assert_null(a->tcad.peers->tls);
    return a;
}

static void add_nodes(struct node *node)
{
    cluster_free(node->tcad.cluster);
    node->tcad.cluster = make_cluster(test.cluster_text);
}

Test(peer, without_the_key_a_node_is_down)
{
    struct node *a = node_alone();
    add_nodes(a);
    ask(a, 1, "x", LONG, &reply);
    run_until(answered);
    cr_assert_eq(reply.status, -EHOSTDOWN);
    contains(reply.text, "node n1 (id 1) is down: 127.");
}

/* Before the look-up of where this node listens is over. */
Test(peer, an_added_node_can_be_asked_at_once)
{
    struct node *a = node_alone();
    node_new(1);
    add_nodes(a);
    strcpy(a->conf.control.listen.host, "localhost");
    peers_reload(a->tcad.peers);
    cr_assert_null(a->tcad.own);
    expect_answer(a, 1, "first");
}

Test(peer, host_names_are_looked_up)
{
    test.cluster_text[0] = '\0';
    sprintf(
        test.cluster_text,
        "cluster = test\nn0 id=0 address=localhost:%u\nn1 id=1 address=no-such-host.invalid:7\n",
        test.ports[0]);
    struct node *a = node_init(0);
    a->conf.control.request_timeout_ns = 3 * SECOND; /* there may be no name server */
    node_open(a);
    ask(a, 1, "x", LONG, &reply);
    run_until(answered);
    cr_assert_eq(reply.status, -EHOSTDOWN);
    contains(reply.text, "no-such-host.invalid:7");
}
