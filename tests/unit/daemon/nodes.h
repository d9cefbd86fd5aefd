/* Daemons of a cluster in one process and on one loop, with what peers and groups need. */
#pragma once

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "config/cluster.h"
#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "daemon/base/worker.h"
#include "daemon/peers/peer.h"
#include "daemon/tcad.h"
#include "proto/limits.h"

enum { NODES_MAX = 4, PATIENCE_S = 40 };

#define SECOND UINT64_C(1000000000)
/* The time within which events must come, and that of late ones. Neither requires a fast
 * machine. */
#define LONG  (30 * SECOND)
#define SHORT (SECOND / 3)

struct node {
    struct tcad tcad;
    struct tcad_conf conf;
    unsigned ups, downs;
    uint64_t incarnation_seen;
    int down_error;
    char down_text[512];
    /* the last request, for tests that reply later */
    uint32_t asked_node, asked_tag;
    unsigned asked;
    unsigned heard_of_gone;   /* messages that report ended sessions */
    unsigned heard_of_joins;  /* requests to join groups */
    bool (*stop_after)(void); /* stops the loop after the message for which it is true */
    bool hold;                /* do not answer */
};

struct test {
    struct loop *loop;
    struct worker *worker, *dialler, *names;
    struct node nodes[NODES_MAX];
    char address[16]; /* this process's own address: no other process takes its ports */
    uint16_t ports[NODES_MAX];
    char dir[64];
    char key[96];
    char cluster_text[512];
};

static struct test test;

/* ---- driving the loop ---- */

struct patience {
    bool (*done)(void);
    uint64_t deadline_ns;
    bool in_time;
};

static inline uint64_t test_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static inline void patience_look(void *context)
{
    struct patience *patience = context;
    patience->in_time = patience->done && patience->done();
    if (patience->in_time || test_now_ns() > patience->deadline_ns)
        loop_stop(test.loop);
}

static inline bool run_until_for(bool (*done)(void), uint64_t ns)
{
    struct patience patience = {.done = done, .deadline_ns = test_now_ns() + ns};
    struct loop_timer *timer;
    cr_assert_eq(loop_timer_new(test.loop, patience_look, &patience, &timer), 0);
    loop_timer_set(timer, 0, 2000000);
    cr_assert_eq(loop_run(test.loop), 0);
    loop_timer_free(timer);
    return patience.in_time;
}

/* Waits for a condition; the test fails if it does not become true. */
#define run_until(done) cr_assert(run_until_for(done, PATIENCE_S *SECOND), "waited in vain: " #done)

static inline void run_for_ms(unsigned ms)
{
    run_until_for(NULL, ms * UINT64_C(1000000));
}

/* ---- files and ports ---- */

static inline struct sockaddr_in own_address(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    cr_assert_eq(inet_pton(AF_INET, test.address, &address.sin_addr), 1);
    return address;
}

/* The socket keeps the port from others until the process ends: from a second call, or a listener
 * that takes any free port. Those that set SO_REUSEADDR, as tcad does, may listen on it. */
static inline uint16_t free_port(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int one = 1;
    struct sockaddr_in address = own_address(0);
    socklen_t bytes = sizeof(address);
    cr_assert_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&address, &bytes), 0);
    cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)), 0);
    return ntohs(address.sin_port);
}

static inline void write_key(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    cr_assert_geq(fd, 0);
    cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static inline struct cluster *make_cluster(const char *text)
{
    struct config_errors errors = {0};
    struct cluster *cluster = NULL;
    cr_assert_eq(cluster_parse("cluster", text, strlen(text), &cluster, &errors), 0);
    return cluster;
}

static inline void test_setup(void)
{
    log_init(getenv("TEST_DEBUG") ? LOG_LEVEL_DEBUG : LOG_LEVEL_ERROR, "stderr");
    strcpy(test.dir, "/tmp/tcad-test-XXXXXX");
    cr_assert_not_null(mkdtemp(test.dir));
    snprintf(test.key, sizeof(test.key), "%s/key", test.dir);
    write_key(test.key, "0123456789abcdef0123456789abcdef0123456789abcdef\n");
    cr_assert_eq(loop_new(&test.loop), 0);
    cr_assert_eq(worker_new(test.loop, "worker", 4, &test.worker), 0);
    cr_assert_eq(worker_new(test.loop, "dialler", 4, &test.dialler), 0);
    cr_assert_eq(worker_new(test.loop, "names", 4, &test.names), 0);
    unsigned pid = (unsigned)getpid();
    sprintf(test.address, "127.%u.%u.%u", 1 + (pid >> 16 & 0x7f), pid >> 8 & 0xff, pid & 0xff);
    char *at = test.cluster_text;
    at += sprintf(at, "cluster = test\n");
    for (unsigned i = 0; i < NODES_MAX; i++) {
        test.ports[i] = free_port();
        at += sprintf(at, "n%u id=%u address=%s:%u\n", i, i, test.address, test.ports[i]);
    }
}

/* ---- nodes ---- */

static inline void node_up(void *context, uint32_t peer, uint64_t incarnation,
                           const Tca__PeerHello *hello)
{
    struct node *node = context;
    cr_assert_eq(hello->node, peer);
    cr_assert_eq(hello->incarnation, incarnation);
    node->ups++;
    node->incarnation_seen = incarnation;
}

static inline void node_down(void *context, uint32_t peer, int error, const char *text)
{
    struct node *node = context;
    cr_assert(!peers_is_up(node->tcad.peers, peer));
    node->downs++;
    node->down_error = error;
    snprintf(node->down_text, sizeof(node->down_text), "%s", text);
}

static inline void node_take_offer(struct node *node, uint32_t peer, uint32_t tag,
                                   const Tca__PeerOffer *offer)
{
    Tca__PeerOffered offered =
        BODY_OF(peer_offered, .generation = offer->generation, .offer = offer->offer);
    const Tca__Message answer = MESSAGE_OF(PEER_OFFERED, peer_offered, &offered);
    peers_reply(node->tcad.peers, peer, tag, &answer);
}

/* Replies to a lookup with its name as the handle; "fail" fails. Returns an offer unchanged. */
static inline void node_asked(void *context, uint32_t peer, uint32_t tag,
                              const Tca__Message *question)
{
    struct node *node = context;
    node->asked++;
    node->asked_node = peer;
    node->asked_tag = tag;
    if (question->body_case == TCA__MESSAGE__BODY_PEER_OFFER)
        node_take_offer(node, peer, tag, question->peer_offer);
    if (node->hold || question->body_case != TCA__MESSAGE__BODY_PEER_LOOKUP)
        return;
    if (strcmp(question->peer_lookup->name, "fail") == 0) {
        peers_fail(node->tcad.peers, peer, tag, -ENOENT, "nothing called %s",
                   question->peer_lookup->name);
        return;
    }
    Tca__Found found = TCA__FOUND__INIT;
    found.handle.data = (uint8_t *)question->peer_lookup->name;
    found.handle.len = strlen(question->peer_lookup->name);
    const Tca__Message answer = MESSAGE_OF(FOUND, found, &found);
    peers_reply(node->tcad.peers, peer, tag, &answer);
}

static const struct peers_events node_events = {
    .asked = node_asked, .up = node_up, .down = node_down};

/* Sets everything but the peers; a test may change it before node_open(). */
static inline struct node *node_init(unsigned id)
{
    struct node *node = &test.nodes[id];
    node->conf.control.listen.port = test.ports[id];
    strcpy(node->conf.control.listen.host, test.address);
    node->conf.control.security = CONF_SECURITY_TLS;
    node->conf.control.key_file = test.key;
    node->conf.control.heartbeat_interval_ns = 5 * SECOND;
    node->conf.control.heartbeat_timeout_ns = LONG;
    node->conf.control.request_timeout_ns = LONG;
    node->conf.limits.groups_per_user = 8;
    node->conf.limits.bytes = node->conf.limits.bytes_per_user = 1 << 30;
    node->conf.limits.published_per_group = 8;
    node->tcad.conf = &node->conf;
    node->tcad.cluster = make_cluster(test.cluster_text);
    node->tcad.node = id;
    node->tcad.incarnation = 1000 + id;
    node->tcad.loop = test.loop;
    node->tcad.worker = test.worker;
    node->tcad.dialler = test.dialler;
    node->tcad.names = test.names;
    return node;
}

static inline void node_open_as(struct node *node, const Tca__PeerHello *hello,
                                const struct peers_events *events)
{
    char text[512] = "";
    struct peers_events own = *events;
    own.context = node;
    int r = peers_find_own(&node->tcad, text, sizeof(text));
    cr_assert_eq(r, 0, "%s", text);
    r = peers_new(&node->tcad, hello, &own, text, sizeof(text), &node->tcad.peers);
    cr_assert_eq(r, 0, "%s", text);
}

static inline Tca__PeerHello node_hello(const struct node *node)
{
    Tca__PeerHello hello =
        BODY_OF(peer_hello, .version = PROTO_VERSION, .node = node->tcad.node,
                .node_name = cluster_by_id(node->tcad.cluster, node->tcad.node)->name,
                .incarnation = node->tcad.incarnation, .cluster = node->tcad.cluster->name,
                .daemon_version = (char *)TCAD_VERSION);
    return hello;
}

static inline void node_open(struct node *node)
{
    Tca__PeerHello hello = node_hello(node);
    node_open_as(node, &hello, &node_events);
}

static inline struct node *node_new(unsigned id)
{
    struct node *node = node_init(id);
    node_open(node);
    return node;
}

static inline void node_free(struct node *node)
{
    node->tcad.peers = peers_free(node->tcad.peers);
    node->tcad.cluster = cluster_free(node->tcad.cluster);
    free(node->tcad.own);
    node->tcad.own = NULL;
}

static inline void test_teardown(void)
{
    for (unsigned i = 0; i < NODES_MAX; i++)
        node_free(&test.nodes[i]);
    test.worker = worker_free(test.worker);
    test.dialler = worker_free(test.dialler);
    test.names = worker_leave(test.names);
    test.loop = loop_free(test.loop);
    unlink(test.key);
    rmdir(test.dir);
}

/* ---- asking ---- */

struct reply {
    unsigned count;
    int status;
    char text[512];
    char handle[64];
};

static inline void reply_take(void *context, int status, const Tca__Message *answer,
                              const char *text)
{
    struct reply *reply = context;
    reply->count++;
    reply->status = status;
    snprintf(reply->text, sizeof(reply->text), "%s", text);
    cr_assert((status < 0) == (answer == NULL));
    if (answer && answer->body_case == TCA__MESSAGE__BODY_FOUND)
        snprintf(reply->handle, sizeof(reply->handle), "%.*s", (int)answer->found->handle.len,
                 (const char *)answer->found->handle.data);
    if (answer && answer->body_case == TCA__MESSAGE__BODY_PEER_OFFERED)
        snprintf(reply->handle, sizeof(reply->handle), "%u",
                 (unsigned)answer->peer_offered->generation);
}

static inline void ask(struct node *node, uint32_t whom, const char *name, uint64_t timeout_ns,
                       struct reply *reply)
{
    Tca__PeerLookup lookup = BODY_OF(peer_lookup, .team = 1, .name = (char *)name);
    const Tca__Message question = MESSAGE_OF(PEER_LOOKUP, peer_lookup, &lookup);
    unsigned before = reply->count;
    peers_request(node->tcad.peers, whom, &question, timeout_ns, reply_take, reply);
    cr_assert_eq(reply->count, before, "answered from within the call");
}

static inline void contains(const char *text, const char *part)
{
    cr_assert(strstr(text, part), "\"%s\" does not say \"%s\"", text, part);
}
