/* Peers without permission, and peers that send garbage. */
#include "peers.h"

#include <arpa/inet.h>

#include "proto/frame.h"

TestSuite(peer_hostile, .init = test_setup, .fini = test_teardown, .timeout = 100);

/* ---- who may not ---- */

static void expect_refusal(struct node *node, uint32_t whom, const char *text)
{
    reply = (struct reply){0};
    ask(node, whom, "x", LONG, &reply);
    run_until(answered);
    cr_assert_eq(reply.status, -EHOSTDOWN);
    contains(reply.text, text);
    cr_assert_eq(test.nodes[0].ups + test.nodes[1].ups, 0);
}

Test(peer_hostile, another_key_is_refused_and_said)
{
    char path[128];
    node_new(0);
    struct node *b = node_init(1);
    snprintf(path, sizeof(path), "%s/other", test.dir);
    write_key(path, "another key, another key, another key, another key");
    b->conf.control.key_file = path;
    node_open(b);
    expect_refusal(&test.nodes[0], 1, "the cluster keys differ: compare key_file of both nodes");
    expect_refusal(b, 0, "the cluster keys differ: compare key_file of both nodes");
    unlink(path);
}

/* For this purpose, of the cluster's key: another purpose or key has another one. */
Test(peer_hostile, nodes_share_secrets_of_their_key)
{
    uint64_t a[2], b[2], different[2];
    char path[128];
    struct node *nodes[] = {node_new(0), node_new(1), node_init(2)};
    snprintf(path, sizeof(path), "%s/other", test.dir);
    write_key(path, "another key, another key, another key, another key");
    nodes[2]->conf.control.key_file = path;
    node_open(nodes[2]);
    cr_assert_eq(peers_secret(nodes[0]->tcad.peers, "a purpose", a), 0);
    cr_assert_eq(peers_secret(nodes[1]->tcad.peers, "a purpose", b), 0);
    cr_expect_arr_eq(a, b, sizeof(a));
    cr_assert_eq(peers_secret(nodes[1]->tcad.peers, "another purpose", b), 0);
    cr_assert_eq(peers_secret(nodes[2]->tcad.peers, "a purpose", different), 0);
    const uint64_t none[2] = {0};
    cr_expect_arr_neq(a, b, sizeof(a));
    cr_expect_arr_neq(a, different, sizeof(a));
    cr_expect_arr_neq(a, none, sizeof(a));
    unlink(path);
}

Test(peer_hostile, plain_against_tls_is_refused_and_said)
{
    node_new(0);
    struct node *b = node_init(1);
    b->conf.control.security = CONF_SECURITY_PLAIN;
    node_open(b);
    expect_refusal(&test.nodes[0], 1, test.address);
    expect_refusal(b, 0, test.address);
}

static void say(struct node *node, Tca__PeerHello hello)
{
    node_open_as(node, &hello, &node_events);
}

Test(peer_hostile, another_version_is_said_on_both_sides)
{
    node_new(0);
    struct node *b = node_init(1);
    Tca__PeerHello hello = node_hello(b);
    hello.version = PROTO_VERSION + 1;
    hello.daemon_version = (char *)"9.9.9";
    say(b, hello);
    char own[64], theirs[64];
    snprintf(theirs, sizeof(theirs), "version %d (tcad 9.9.9)", PROTO_VERSION + 1);
    expect_refusal(&test.nodes[0], 1, theirs);
    snprintf(own, sizeof(own), "version %d (tcad %s)", PROTO_VERSION, TCAD_VERSION);
    contains(reply.text, own);
    expect_refusal(b, 0, own);
    contains(reply.text, theirs);
}

Test(peer_hostile, another_cluster_is_refused)
{
    node_new(0);
    memcpy(strstr(test.cluster_text, "test"), "best", 4);
    node_new(1);
    expect_refusal(&test.nodes[0], 1, "\"best\"");
    contains(reply.text, "\"test\"");
}

Test(peer_hostile, a_wrong_name_is_refused)
{
    node_new(0);
    memcpy(strstr(test.cluster_text, "n1 "), "m1 ", 3);
    node_new(1);
    expect_refusal(&test.nodes[0], 1, "node id 1 calls itself m1");
}

Test(peer_hostile, an_unknown_node_and_our_own_id_are_refused)
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

Test(peer_hostile, another_node_at_the_address_is_refused)
{
    node_new(0);
    char wrong[512];
    snprintf(wrong, sizeof(wrong),
             "cluster = test\nn0 id=0 address=%s:%u\nn1 id=1 address=%s:%u\n"
             "n2 id=2 address=127.0.0.1:1\n",
             test.address, test.ports[3], test.address, test.ports[0]);
    strcpy(test.cluster_text, wrong);
    struct node *c = node_init(2);
    c->conf.control.listen.host[0] = '\0';
    node_open(c);
    reply = (struct reply){0};
    ask(c, 1, "x", LONG, &reply);
    run_until(answered);
    contains(reply.text, "is the address of node n0, not of n1");
}

/* ---- hostile bytes ---- */

static int raw_connect(unsigned id)
{
    struct sockaddr_in address = own_address(test.ports[id]);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

/* Sends this and waits until the daemon has closed the connection. */
static int raw_fd;
static bool raw_closed(void)
{
    char rest[4096];
    ssize_t n;
    while ((n = recv(raw_fd, rest, sizeof(rest), MSG_DONTWAIT)) > 0)
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
    for (size_t i = 0; i < sizeof(noise); i++)
        noise[i] = (uint8_t)rand();
    expect_dropped(noise, sizeof(noise));
    expect_dropped("GET / HTTP/1.1\r\n\r\n", 18);

    struct frame_header header;
    frame_header_fill(&header, 1, 65537);
    expect_dropped(&header, sizeof(header)); /* it is rejected by its length, before anything is
                                               allocated */
    header.length_bytes = UINT32_MAX;
    expect_dropped(&header, sizeof(header));
    header.length_bytes = 16;
    header.version = PROTO_VERSION + 1;
    expect_dropped(&header, sizeof(header));
    header.version = PROTO_VERSION;
    header.flags = FRAME_IN_MEMFD;
    expect_dropped(&header, sizeof(header));
    struct {
        struct frame_header header;
        uint8_t rest[16];
    } frame;
    frame_header_fill(&frame.header, 1, sizeof(frame.rest));
    memset(frame.rest, 0xff, sizeof(frame.rest));
    expect_dropped(&frame, sizeof(frame));

    expect_answer(b, 0, "after");
    cr_assert_eq(a->downs + b->downs, 0);
}

Test(peer_hostile, garbage_ends_only_its_connection_tls)
{
    garbage(CONF_SECURITY_TLS);
}

Test(peer_hostile, garbage_ends_only_its_connection_plain)
{
    garbage(CONF_SECURITY_PLAIN);
}

Test(peer_hostile, a_question_before_the_greeting_is_refused)
{
    struct node *a = node_init(0);
    a->conf.control.security = CONF_SECURITY_PLAIN;
    node_open(a);
    Tca__PeerLookup lookup = TCA__PEER_LOOKUP__INIT;
    const Tca__Message question = MESSAGE_OF(PEER_LOOKUP, peer_lookup, &lookup);
    struct {
        struct frame_header header;
        uint8_t rest[64];
    } frame;
    size_t bytes = tca__message__pack(&question, frame.rest);
    frame_header_fill(&frame.header, 1, (uint32_t)bytes);
    expect_dropped(&frame, sizeof(frame.header) + bytes);
    cr_assert_eq(a->asked, 0);
}

static int connect_from(const char *host)
{
    struct sockaddr_in from = {.sin_family = AF_INET}, to = {.sin_family = AF_INET};
    inet_pton(AF_INET, host, &from.sin_addr);
    inet_pton(AF_INET, test.address, &to.sin_addr);
    to.sin_port = htons((uint16_t)test.ports[0]);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert_eq(bind(fd, (const struct sockaddr *)&from, sizeof(from)), 0);
    cr_assert_eq(connect(fd, (const struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

static bool is_open(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) != 0;
}

enum { CLUSTER_MAX = 16 }; /* more than the nodes of a test */

static struct node *watched;

static bool none_ungreeted(void)
{
    return watched->tcad.peers->ungreeted_count == 0;
}

static bool full(void)
{
    const struct peers *peers = watched->tcad.peers;
    return peers->ungreeted_count ==
           UNGREETED_ADDRESSES * (UNGREETED_MIN + (unsigned)watched->tcad.cluster->count);
}

/* All nodes may connect at once, also from one address; more of them take no places of other
 * addresses. */
Test(peer_hostile, silent_connections_are_bounded_and_end)
{
    struct node *a = node_init(0);
    a->conf.control.request_timeout_ns = 4 * SECOND;
    node_open(a);
    const unsigned most = UNGREETED_MIN + (unsigned)a->tcad.cluster->count;
    int first = connect_from("127.77.0.1"), fds[2 * UNGREETED_MIN];
    for (unsigned i = 0; i < 2 * UNGREETED_MIN; i++) {
        fds[i] = connect_from("127.77.0.2");
        run_for_ms(4);
        cr_assert_leq(a->tcad.peers->ungreeted_count, most + 1);
        cr_assert(i >= most || is_open(fds[0]), "%u of %u", i, most);
    }
    cr_assert(is_open(first));
    cr_assert(!is_open(fds[0]));
    node_new(1);
    expect_answer(&test.nodes[1], 0, "through");
    for (unsigned i = 0; i < 2 * UNGREETED_MIN; i++) {
        raw_fd = fds[i];
        run_until(raw_closed);
        close(raw_fd);
    }
    close(first);
    watched = a;
    run_until(none_ungreeted);
}

/* Of many addresses: those who come wait until the silent ones have had their time. */
Test(peer_hostile, silent_connections_of_many_addresses_hold_others_up)
{
    struct node *a = node_init(0);
    a->conf.control.request_timeout_ns = 2 * SECOND;
    node_open(a);
    const unsigned most = UNGREETED_ADDRESSES * (UNGREETED_MIN + (unsigned)a->tcad.cluster->count);
    int fds[UNGREETED_ADDRESSES * (UNGREETED_MIN + CLUSTER_MAX)];
    cr_assert_leq(most, sizeof(fds) / sizeof(fds[0]));
    for (unsigned i = 0; i < most; i++) {
        char host[32];
        snprintf(host, sizeof(host), "127.77.0.%u", 1 + i % 16);
        fds[i] = connect_from(host);
        if (i % 64 == 0)
            run_for_ms(20); /* so few fit into the backlog */
    }
    watched = a;
    run_until(full);
    for (unsigned i = 0; i < most; i++)
        cr_assert(is_open(fds[i]));
    node_new(1);
    expect_answer(&test.nodes[1], 0, "through");
    for (unsigned i = 0; i < most; i++)
        close(fds[i]);
    watched = a;
    run_until(none_ungreeted);
}
