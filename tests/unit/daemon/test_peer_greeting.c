/* Greetings that are cut when only one side, or neither, has begun the link: who waits for the
 * other node does not notice. */
#include "raw_peer.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>

TestSuite(peer_greeting, .init = test_setup, .fini = test_teardown, .timeout = 100);

/* ---- two daemons, and what passes their connections on, frame by frame ---- */

/* Passes on so many frames of its first connection each way, then cuts it; all of the later
 * ones. */
struct relay {
    int listener;
    uint16_t port, to;
    unsigned frames[2]; /* from the connecting side, and back */
    bool reset;
    int ends[64][2]; /* of its connections; -1: closed */
    unsigned count, passed[2];
    bool has_cut;
    int stop[2]; /* a pipe */
    pthread_t thread;
};

static bool read_all(int fd, void *bytes, size_t count)
{
    return recv(fd, bytes, count, MSG_WAITALL) == (ssize_t)count;
}

/* 1: passed on; 0: the side has ended. */
static int pass_frame(int from, int to)
{
    static uint8_t bytes[FRAME_PAYLOAD_MAX];
    struct frame_header header;
    if (!read_all(from, &header, sizeof(header)) || !read_all(from, bytes, header.length_bytes))
        return 0;
    return send(to, &header, sizeof(header), MSG_NOSIGNAL) == (ssize_t)sizeof(header) &&
           send(to, bytes, header.length_bytes, MSG_NOSIGNAL) == (ssize_t)header.length_bytes;
}

static void cut(struct relay *relay, unsigned at)
{
    for (unsigned side = 0; side < 2; side++) {
        const struct linger abort = {1, 0};
        if (relay->reset)
            setsockopt(relay->ends[at][side], SOL_SOCKET, SO_LINGER, &abort, sizeof(abort));
        close(relay->ends[at][side]);
        relay->ends[at][side] = -1;
    }
}

static void join(struct relay *relay)
{
    struct sockaddr_in address = own_address(relay->to);
    int *ends = relay->ends[relay->count];
    cr_assert_lt(relay->count, 64);
    ends[0] = accept(relay->listener, NULL, NULL);
    ends[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(connect(ends[1], (struct sockaddr *)&address, sizeof(address)), 0);
    relay->count++;
}

static void serve(struct relay *relay, unsigned at, unsigned side)
{
    const bool first = at == 0 && !relay->has_cut;
    if (pass_frame(relay->ends[at][side], relay->ends[at][!side]) == 0) {
        cut(relay, at);
        return;
    }
    relay->passed[side] += first;
    if (first && relay->passed[0] == relay->frames[0] && relay->passed[1] == relay->frames[1]) {
        relay->has_cut = true;
        cut(relay, at);
    }
}

/* Of the first connection, a side whose frames have all passed is not heard any more. */
static bool is_heard(const struct relay *relay, unsigned at, unsigned side)
{
    return at > 0 || relay->has_cut || relay->passed[side] < relay->frames[side];
}

static void *relay_run(void *context)
{
    struct relay *relay = context;
    for (;;) {
        struct pollfd fds[2 + 128] = {{relay->stop[0], POLLIN, 0}, {relay->listener, POLLIN, 0}};
        for (unsigned i = 0; i < 2 * relay->count; i++)
            fds[2 + i] = (struct pollfd){
                is_heard(relay, i / 2, i % 2) ? relay->ends[i / 2][i % 2] : -1, POLLIN, 0};
        const unsigned count = relay->count;
        poll(fds, 2 + 2 * count, -1);
        if (fds[0].revents)
            return NULL;
        for (unsigned i = 0; i < 2 * count; i++)
            if (fds[2 + i].revents && relay->ends[i / 2][i % 2] >= 0)
                serve(relay, i / 2, i % 2);
        if (fds[1].revents)
            join(relay);
        if (!relay->has_cut && relay->count > 0 && relay->frames[0] + relay->frames[1] == 0) {
            relay->has_cut = true;
            cut(relay, 0);
        }
    }
}

static void relay_begin(struct relay *relay, uint16_t to)
{
    struct sockaddr_in address = own_address(0);
    socklen_t bytes = sizeof(address);
    relay->to = to;
    relay->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(relay->listener, (struct sockaddr *)&address, sizeof(address)), 0);
    cr_assert_eq(listen(relay->listener, 64), 0);
    getsockname(relay->listener, (struct sockaddr *)&address, &bytes);
    relay->port = ntohs(address.sin_port);
    cr_assert_eq(pipe(relay->stop), 0);
    cr_assert_eq(pthread_create(&relay->thread, NULL, relay_run, relay), 0);
}

static void relay_end(struct relay *relay)
{
    cr_assert_eq(write(relay->stop[1], "", 1), 1);
    pthread_join(relay->thread, NULL);
    for (unsigned i = 0; i < relay->count; i++)
        if (relay->ends[i][0] >= 0)
            cut(relay, i);
    close(relay->listener);
    close(relay->stop[0]);
    close(relay->stop[1]);
}

/* A node to which another's cluster file leads through the relay. */
static struct node *node_of(unsigned id, unsigned other_node, const struct relay *relay)
{
    struct node *node = node_init(id);
    char text[512], *at = text;
    node->conf.control.security = CONF_SECURITY_PLAIN;
    node->tcad.cluster = cluster_free(node->tcad.cluster);
    at += sprintf(at, "cluster = test\n");
    for (unsigned i = 0; i < 2; i++)
        at += sprintf(at, "n%u id=%u address=%s:%u\n", i, i, test.address,
                      i == other_node ? relay->port : test.ports[i]);
    node->tcad.cluster = make_cluster(text);
    node_open(node);
    return node;
}

/* The node `asking` connects, and waits for an answer; with `both`, so does the other. */
static void ask_through(struct relay *relay, unsigned asking, bool both)
{
    signal(SIGPIPE, SIG_IGN); /* as tcad does */
    relay_begin(relay, test.ports[!asking]);
    struct node *node = node_of(asking, !asking, relay);
    struct node *far = node_of(!asking, 2, relay);
    reply = other = (struct reply){0};
    ask(node, !asking, "there", LONG, &reply);
    if (both)
        ask(far, asking, "back", LONG, &other);
    else
        other.count = 1;
    run_until(both_answered);
    cr_assert_eq(reply.status, 0, "%s", reply.text);
    cr_assert_eq(other.status, 0, "%s", other.text);
    cr_assert_eq(node->ups, 1);
    cr_assert_eq(node->downs + far->downs, 0, "%s%s", node->down_text, far->down_text);
    cr_assert(relay->has_cut || both, "with `both`, the other connection may have come first");
    relay_end(relay);
    node_free(node);
    node_free(far);
    for (unsigned i = 0; i < 2; i++)
        test.nodes[i] = (struct node){0};
}

/* A side that has passed 2 frames has sent its welcome, and who has got 2 has begun the link. */
static void every_cut(unsigned asking, bool both)
{
    static const unsigned frames[][2] = {{0, 0}, {1, 0}, {0, 1}, {1, 1}, {2, 1}, {1, 2}, {2, 2}};
    for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++)
        for (unsigned reset = 0; reset < 2; reset++) {
            struct relay relay = {.frames = {frames[i][0], frames[i][1]}, .reset = reset};
            ask_through(&relay, asking, both);
        }
}

Test(peer_greeting, cut_wherever_the_lower_node_connects)
{
    every_cut(0, false);
}

Test(peer_greeting, cut_wherever_the_higher_node_connects)
{
    every_cut(1, false);
}

Test(peer_greeting, cut_wherever_both_connect)
{
    every_cut(0, true);
    every_cut(1, true);
}

/* A relay takes any free port, but not one that a node listens on later. */
Test(peer_greeting, ports_of_nodes_stay_theirs)
{
    const int one = 1;
    for (unsigned i = 0; i < NODES_MAX; i++) {
        const struct sockaddr_in address = own_address(test.ports[i]);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        cr_assert_lt(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
        cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)), 0);
        cr_assert_eq(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
        cr_assert_eq(listen(fd, 1), 0);
        close(fd);
    }
}

/* ---- one daemon, and every message by hand ---- */

/* A node that has sent its welcome, and whose connection ends before it has another; it waits for
 * an answer. */
static struct node *half_begin(void)
{
    struct node *node = raw_begin_half();
    reply = (struct reply){0};
    ask(node, 0, "one", LONG, &reply);
    raw_cut();
    return node;
}

static void expect_the_answer(struct node *node)
{
    run_until(raw_is_up);
    raw_expect_question("one");
    raw_answer(raw.tag);
    run_until(answered);
    cr_assert_eq(reply.status, 0, "%s", reply.text);
    cr_assert_eq(node->ups, 1);
    cr_assert_eq(node->downs, 0, "%s", node->down_text);
}

Test(peer_greeting, the_link_of_the_other_side_goes_on)
{
    struct node *node = half_begin();
    for (unsigned again = 0; again < 3; again++) { /* cut again, and again */
        raw_hello(RAW_INCARNATION, raw.their_key);
        cr_assert_eq(raw_welcomed(), 0);
        if (again < 2)
            raw_cut();
    }
    raw_welcome(raw.their_key, 0);
    expect_the_answer(node);
    raw_cut();
    cr_assert_eq(raw_resume(1), 1, "now it is a link like any other");
    cr_assert_eq(peers_refused_resumes(node->tcad.peers), 0);
}

Test(peer_greeting, who_has_begun_no_link_begins_another)
{
    struct node *node = half_begin();
    raw_hello(RAW_INCARNATION, NULL);
    cr_assert_eq(raw_welcomed(), -1);
    raw_welcome(NULL, 0);
    expect_the_answer(node);
}

Test(peer_greeting, another_key_or_incarnation_begins_another)
{
    static const uint8_t wrong[LINK_KEY_BYTES] = "not the key of 1";
    const uint8_t zero[LINK_KEY_BYTES] = {0};
    struct node *node = half_begin();
    uint8_t key[LINK_KEY_BYTES];
    memcpy(key, raw.their_key, sizeof(key));
    for (unsigned i = 0; i < 2; i++) {
        raw_hello(RAW_INCARNATION, wrong);
        cr_assert_eq(raw_welcomed(), -1);
        raw_cut();
    }
    raw_hello(RAW_INCARNATION, key);
    cr_assert_eq(raw_welcomed(), -1, "the link of the last two greetings, not of one before");
    raw_cut();
    raw_hello(RAW_INCARNATION, NULL);
    cr_assert_eq(raw_welcomed(), -1);
    raw_cut();
    raw_hello(RAW_INCARNATION + 1, raw.their_key);
    cr_assert_eq(raw_welcomed(), -1, "the daemon has restarted");
    raw_welcome(NULL, 0);
    expect_the_answer(node);
    raw_cut();
    raw_hello(RAW_INCARNATION + 1, zero);
    raw_expect_failure(-EACCES, "does not have the key");
}

Test(peer_greeting, liars_are_refused)
{
    struct node *node = half_begin();
    raw_hello(RAW_INCARNATION, raw.their_key);
    cr_assert_eq(raw_welcomed(), 0);
    raw_welcome(raw.their_key, 1);
    raw_expect_failure(-EPROTO, "acknowledges 1 messages, of 0 that were sent");
    run_until(answered);
    cr_assert_eq(reply.status, -EHOSTDOWN);
    raw_end();
    raw_hello(RAW_INCARNATION, raw.their_key);
    cr_assert_eq(raw_welcomed(), 0);
    raw_welcome(NULL, 0);
    raw_expect_failure(-EACCES, "does not have the key");
    cr_assert_eq(peers_refused_resumes(node->tcad.peers), 2);
}
