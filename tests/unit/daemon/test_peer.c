#include "nodes.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "daemon/peer_internal.h"
#include "proto/frame.h"

TestSuite(peer, .init = test_setup, .fini = test_teardown, .timeout = 60);

static struct reply reply, other;

static bool answered(void)
{
    return reply.count == 1;
}

static bool both_answered(void)
{
    return reply.count == 1 && other.count == 1;
}

static void expect_answer(struct node *node, uint32_t whom, const char *name)
{
    reply = (struct reply){0};
    ask(node, whom, name, 5 * SECOND, &reply);
    run_until(answered);
    cr_assert_eq(reply.status, 0, "%s", reply.text);
    cr_assert_str_eq(reply.handle, name);
}

/* ---- the machine ---- */

Test(peer, only_these_moves_are_legal)
{
    static const char *const table[] = {
        /* to: idle, connecting, greeting, up, down */
        ".xx..", /* from idle */
        "..x.x", /* connecting */
        "...xx", /* greeting */
        "....x", /* up */
        ".xx..", /* down */
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
    ask(a, 1, "fail", 5 * SECOND, &reply);
    run_until(answered);
    cr_assert_eq(reply.status, -ENOENT);
    cr_assert_str_eq(reply.text, "nothing called fail");

    struct peer_info info;
    cr_assert_eq(peers_info(a->tcad.peers, 1, &info), 0);
    cr_assert_str_eq(info.state, "up");
    cr_assert_str_eq(info.version, "0.1.0");
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
    ask(a, 0, "fail", SECOND, &reply);
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
    ask(a, 77, "x", SECOND, &reply);
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
    ask(a, 1, name, 20 * SECOND, &reply);
    free(name);
    run_until(answered);
    cr_assert_eq(reply.status, 0, "%s", reply.text);
    cr_assert_eq(strlen(reply.handle), sizeof reply.handle - 1);
}

Test(peer, a_question_beyond_the_limit_fails_alone)
{
    node_new(1);
    struct node *a = node_new(0);
    char *name = malloc((64 << 20) + 1);
    memset(name, 'n', 64 << 20);
    name[64 << 20] = '\0';
    ask(a, 1, name, 5 * SECOND, &reply);
    free(name);
    run_until(answered);
    cr_assert_eq(reply.status, -ENOMEM);
    expect_answer(a, 1, "small");
}

/* ---- connecting ---- */

static bool settled(void)
{
    return both_answered() && peers_is_up(test.nodes[0].tcad.peers, 1) && peers_is_up(test.nodes[1].tcad.peers, 0);
}

Test(peer, connecting_at_once_leaves_one_connection)
{
    struct node *a = node_new(0), *b = node_new(1);
    ask(a, 1, "from a", 5 * SECOND, &reply);
    ask(b, 0, "from b", 5 * SECOND, &other);
    run_until(settled);
    cr_assert_eq(reply.status, 0, "%s", reply.text);
    cr_assert_eq(other.status, 0, "%s", other.text);
    run_for_ms(1300); /* what lingers is gone, heartbeats have passed */
    cr_assert_eq(a->ups, 1);
    cr_assert_eq(b->ups, 1);
    cr_assert_eq(a->downs + b->downs, 0);
    cr_assert_eq(a->tcad.peers->ungreeted_count + b->tcad.peers->ungreeted_count, 0);
    struct peer_info info;
    cr_assert_eq(peers_info(a->tcad.peers, 1, &info), 0);
    cr_assert_gt(info.rtt_ns + (peers_info(b->tcad.peers, 0, &info), info.rtt_ns), 0, "nobody has pinged");
}

Test(peer, a_node_that_is_not_there_is_down_at_once)
{
    struct node *a = node_new(0);
    ask(a, 1, "x", 5 * SECOND, &reply);
    ask(a, 1, "y", 5 * SECOND, &other);
    run_until(both_answered);
    cr_assert_eq(reply.status, -EHOSTDOWN);
    contains(reply.text, "node n1 (id 1) is down: 127.0.0.1:");
    contains(reply.text, "refused");
    cr_assert_eq(a->downs, 0, "it has never been up");

    node_new(1);
    reply = (struct reply){0};
    ask(a, 1, "too soon", 5 * SECOND, &reply);
    run_until(answered);
    cr_assert_eq(reply.status, -EHOSTDOWN, "not more often than once a second");
    run_for_ms(1050);
    expect_answer(a, 1, "now");
}

Test(peer, host_names_are_looked_up)
{
    test.cluster_text[0] = '\0';
    sprintf(test.cluster_text, "cluster = test\nn0 id=0 address=localhost:%u\nn1 id=1 address=no-such-host.invalid:7\n",
            test.ports[0]);
    struct node *a = node_new(0);
    ask(a, 1, "x", 25 * SECOND, &reply);
    run_until(answered);
    cr_assert_eq(reply.status, -EHOSTDOWN);
    contains(reply.text, "no-such-host.invalid:7");
}

/* ---- who may not ---- */

static void expect_refusal(struct node *node, uint32_t whom, const char *text)
{
    reply = (struct reply){0};
    ask(node, whom, "x", 5 * SECOND, &reply);
    run_until(answered);
    cr_assert_eq(reply.status, -EHOSTDOWN);
    contains(reply.text, text);
    cr_assert_eq(test.nodes[0].ups + test.nodes[1].ups, 0);
}

Test(peer, another_key_is_refused_and_said)
{
    char path[128];
    node_new(0);
    struct node *b = node_init(1);
    snprintf(path, sizeof path, "%s/other", test.dir);
    write_key(path, "another key, another key, another key, another key");
    b->conf.control.key_file = path;
    node_open(b);
    expect_refusal(&test.nodes[0], 1, "the cluster keys differ: compare key_file of both nodes");
    expect_refusal(b, 0, "the cluster keys differ: compare key_file of both nodes");
    unlink(path);
}

Test(peer, plain_against_tls_is_refused_and_said)
{
    node_new(0);
    struct node *b = node_init(1);
    b->conf.control.security = CONF_SECURITY_PLAIN;
    node_open(b);
    expect_refusal(&test.nodes[0], 1, "127.0.0.1:");
    expect_refusal(b, 0, "127.0.0.1:");
}

static void say(struct node *node, Tca__PeerHello hello)
{
    node_open_as(node, &hello, &node_events);
}

Test(peer, another_version_is_said_on_both_sides)
{
    node_new(0);
    struct node *b = node_init(1);
    Tca__PeerHello hello = node_hello(b);
    hello.version = 9;
    hello.daemon_version = (char *)"9.9.9";
    say(b, hello);
    expect_refusal(&test.nodes[0], 1, "version 9 (tcad 9.9.9)");
    contains(reply.text, "version 1 (tcad 0.1.0)");
    expect_refusal(b, 0, "version 1 (tcad 0.1.0)");
    contains(reply.text, "version 9");
}

Test(peer, another_cluster_is_refused)
{
    node_new(0);
    memcpy(strstr(test.cluster_text, "test"), "best", 4);
    node_new(1);
    expect_refusal(&test.nodes[0], 1, "\"best\"");
    contains(reply.text, "\"test\"");
}

Test(peer, a_wrong_name_is_refused)
{
    node_new(0);
    memcpy(strstr(test.cluster_text, "n1 "), "m1 ", 3);
    node_new(1);
    expect_refusal(&test.nodes[0], 1, "node id 1 calls itself m1");
}

Test(peer, an_unknown_node_and_our_own_id_are_refused)
{
    node_new(0);
    struct node *b = node_init(1);
    Tca__PeerHello hello = node_hello(b);
    hello.node = 77;
    say(b, hello);
    expect_refusal(b, 0, "no node with id 77");
    node_free(b);

    node_init(1);
    hello = node_hello(b);
    hello.node = 0;
    hello.node_name = (char *)"n0";
    say(b, hello);
    expect_refusal(b, 0, "both have id 0");
}

Test(peer, another_node_at_the_address_is_refused)
{
    node_new(0);
    char wrong[512];
    snprintf(wrong, sizeof wrong, "cluster = test\nn0 id=0 address=127.0.0.1:%u\nn1 id=1 address=127.0.0.1:%u\n"
                                  "n2 id=2 address=127.0.0.1:1\n", test.ports[3], test.ports[0]);
    strcpy(test.cluster_text, wrong);
    struct node *c = node_init(2);
    c->conf.control.listen.host[0] = '\0';
    node_open(c);
    reply = (struct reply){0};
    ask(c, 1, "x", 5 * SECOND, &reply);
    run_until(answered);
    contains(reply.text, "answers node n0 instead of n1");
}

/* ---- hostile bytes ---- */

static int raw_connect(unsigned id)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(test.ports[id]),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

/* Sends this and waits until the daemon has closed the connection. */
static int raw_fd;
static bool raw_closed(void)
{
    char rest[4096];
    ssize_t n;
    while ((n = recv(raw_fd, rest, sizeof rest, MSG_DONTWAIT)) > 0)
        ;
    return n == 0 || (n < 0 && errno != EAGAIN);
}

static void expect_dropped(const void *bytes, size_t count)
{
    raw_fd = raw_connect(0);
    cr_assert_eq(send(raw_fd, bytes, count, MSG_NOSIGNAL), (ssize_t)count);
    run_until(raw_closed);
    close(raw_fd);
}

static void garbage(uint32_t security)
{
    struct node *a = node_init(0), *b = node_init(1);
    a->conf.control.security = b->conf.control.security = security;
    node_open(a);
    node_open(b);
    expect_answer(b, 0, "before");

    uint8_t noise[4096];
    srand(7);
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (uint8_t)rand();
    expect_dropped(noise, sizeof noise);
    expect_dropped("GET / HTTP/1.1\r\n\r\n", 18);

    struct frame_header header;
    frame_header_fill(&header, 1, 65537);
    expect_dropped(&header, sizeof header); /* nothing of it was allocated: it need not even come */
    header.length_bytes = UINT32_MAX;
    expect_dropped(&header, sizeof header);
    header.length_bytes = 16;
    header.version = 9;
    expect_dropped(&header, sizeof header);
    header.version = PROTO_VERSION;
    header.flags = FRAME_IN_MEMFD;
    expect_dropped(&header, sizeof header);
    struct { struct frame_header header; uint8_t rest[16]; } frame;
    frame_header_fill(&frame.header, 1, sizeof frame.rest);
    memset(frame.rest, 0xff, sizeof frame.rest);
    expect_dropped(&frame, sizeof frame);

    expect_answer(b, 0, "after");
    cr_assert_eq(a->downs + b->downs, 0);
}

Test(peer, garbage_ends_only_its_connection_tls)
{
    garbage(CONF_SECURITY_TLS);
}

Test(peer, garbage_ends_only_its_connection_plain)
{
    garbage(CONF_SECURITY_PLAIN);
}

Test(peer, a_question_before_the_greeting_is_refused)
{
    struct node *a = node_init(0);
    a->conf.control.security = CONF_SECURITY_PLAIN;
    node_open(a);
    Tca__PeerLookup lookup = TCA__PEER_LOOKUP__INIT;
    Tca__Message question = TCA__MESSAGE__INIT;
    question.body_case = TCA__MESSAGE__BODY_PEER_LOOKUP;
    question.peer_lookup = &lookup;
    struct { struct frame_header header; uint8_t rest[64]; } frame;
    size_t bytes = tca__message__pack(&question, frame.rest);
    frame_header_fill(&frame.header, 1, (uint32_t)bytes);
    expect_dropped(&frame, sizeof frame.header + bytes);
    cr_assert_eq(a->asked, 0);
}

Test(peer, silent_connections_are_bounded_and_end)
{
    enum { COUNT = 2 * UNGREETED_MAX };
    int fds[COUNT];
    struct node *a = node_init(0);
    a->conf.control.request_timeout_ns = SECOND;
    node_open(a);
    for (unsigned i = 0; i < COUNT; i++) {
        fds[i] = raw_connect(0);
        run_for_ms(4);
        cr_assert_leq(a->tcad.peers->ungreeted_count, UNGREETED_MAX);
    }
    node_new(1);
    expect_answer(&test.nodes[1], 0, "through");
    for (unsigned i = 0; i < COUNT; i++) {
        raw_fd = fds[i];
        run_until(raw_closed);
        close(raw_fd);
    }
    cr_assert_eq(a->tcad.peers->ungreeted_count, 0);
}

/* ---- coming and going ---- */

static bool a_lost_b(void)
{
    return test.nodes[0].downs == 1;
}

Test(peer, questions_end_when_the_node_ends)
{
    struct node *a = node_new(0), *b = node_new(1);
    expect_answer(a, 1, "hello");
    b->hold = true;
    reply = (struct reply){0};
    ask(a, 1, "never", 60 * SECOND, &reply);
    run_for_ms(50);
    node_free(b);
    run_until(answered);
    cr_assert_eq(reply.status, -EHOSTDOWN);
    run_until(a_lost_b);
    contains(a->down_text, "node n1 (id 1) is down");

    memset(b, 0, sizeof *b);
    node_init(1)->tcad.incarnation = 5555;
    node_open(b);
    run_for_ms(1050);
    expect_answer(a, 1, "back");
    cr_assert_eq(a->ups, 2);
    cr_assert_eq(a->incarnation_seen, 5555);
}

/* A node in a process of its own, that can be stopped. */
static pid_t spawn_node(unsigned id)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* also when the test fails */
    signal(SIGPIPE, SIG_IGN);         /* as tcad does: its connection may be gone when it goes on */
    test.loop = loop_free(test.loop); /* its epoll is shared with the parent: only close it */
    cr_assert_eq(loop_new(&test.loop), 0);
    node_new(id);
    loop_run(test.loop);
    _exit(0);
}

Test(peer, a_stopped_node_is_noticed)
{
    pid_t pid = spawn_node(1);
    struct node *a = node_new(0);
    do { /* it may not listen yet */
        run_for_ms(1050);
        reply = (struct reply){0};
        ask(a, 1, "there?", 5 * SECOND, &reply);
        run_until(answered);
    } while (reply.status == -EHOSTDOWN && a->ups == 0);
    cr_assert_eq(reply.status, 0, "%s", reply.text);
    run_for_ms(900);
    cr_assert_eq(a->downs, 0, "silence with heartbeats is no silence: %s", a->down_text);

    kill(pid, SIGSTOP);
    reply = (struct reply){0};
    ask(a, 1, "hello?", 60 * SECOND, &reply);
    run_until(a_lost_b);
    cr_assert_eq(a->down_error, -EHOSTDOWN);
    contains(a->down_text, "silent for");
    cr_assert_eq(reply.status, -EHOSTDOWN);

    kill(pid, SIGCONT);
    run_for_ms(1050);
    expect_answer(a, 1, "again");
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* The other daemon is replaced without our noticing: its old socket stays open in a stopped process. */
Test(peer, a_new_incarnation_takes_the_place_of_the_old)
{
    pid_t pid = spawn_node(1);
    struct node *a = node_init(0);
    a->conf.control.heartbeat_timeout_ns = 60 * SECOND;
    a->conf.control.heartbeat_interval_ns = 20 * SECOND;
    node_open(a);
    do {
        run_for_ms(1050);
        reply = (struct reply){0};
        ask(a, 1, "there?", 5 * SECOND, &reply);
        run_until(answered);
    } while (reply.status == -EHOSTDOWN && a->ups == 0);
    kill(pid, SIGSTOP);

    test.ports[1] = free_port();
    struct node *b = node_init(1);
    b->tcad.incarnation = 7777;
    node_open(b);
    expect_answer(b, 0, "new here");
    cr_assert_eq(a->downs, 1);
    contains(a->down_text, "restarted");
    cr_assert_eq(a->ups, 2);
    cr_assert_eq(a->incarnation_seen, 7777);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

Test(peer, a_reload_drops_who_has_left_or_moved)
{
    struct node *a = node_new(0);
    node_new(1);
    node_new(2);
    expect_answer(a, 1, "one");
    expect_answer(a, 2, "two");

    char next[512];
    test.ports[3] = free_port();
    snprintf(next, sizeof next, "cluster = test\nn0 id=0 address=127.0.0.1:%u\nn2 id=2 address=127.0.0.1:%u\n",
             test.ports[0], test.ports[3]);
    struct cluster *former = a->tcad.cluster;
    a->tcad.cluster = make_cluster(next);
    peers_reload(a->tcad.peers);
    cluster_free(former);
    cr_assert_eq(a->downs, 2);
    cr_assert(!peers_is_up(a->tcad.peers, 1));
    reply = (struct reply){0};
    ask(a, 1, "gone", SECOND, &reply);
    run_until(answered);
    cr_assert_eq(reply.status, -EINVAL);
    reply = (struct reply){0};
    ask(a, 2, "moved", SECOND, &reply);
    run_until(answered);
    cr_assert_eq(reply.status, -EHOSTDOWN);
    contains(reply.text, "refused");
}

Test(peer, a_taken_port_is_an_error_that_says_so)
{
    node_new(0);
    struct node *b = node_init(1);
    b->conf.control.listen.port = test.ports[0];
    char text[512];
    struct peers *peers;
    Tca__PeerHello hello = node_hello(b);
    cr_assert_eq(peers_new(&b->tcad, &hello, &node_events, text, sizeof text, &peers), -EADDRINUSE);
    contains(text, "control.listen");
}
