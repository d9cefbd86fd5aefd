/* Two daemons with one rail each, whose driver needs both ends. The test runs each step of the
 * worker, the engine and the connection. */
#pragma once

#include <criterion/criterion.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/worker.h"
#include "daemon/engine/engine.h"
#include "daemon/peers/peer.h"
#include "daemon/rails/link.h"
#include "daemon/rails/rails.h"
#include "daemon/sessions/region.h"
#include "daemon/tcad.h"

enum { NODES = 2, RAIL = 2, OFFER_BYTES = 8 };

static struct node {
    struct tcad tcad;
    struct tcad_conf conf;
    struct driver driver;
    struct links *links;
    unsigned lost; /* calls of the link_lost */
    int reserved;
} nodes[NODES];

/* ---- a driver with numbered peers, whose offer is the number ---- */

struct peer {
    uint64_t number, other; /* other: 0 until it is completed */
    int failed;
};

static uint64_t last_number;
static unsigned peers_alive;
static int connect_error, answer_error;

static inline int drv_peer_connect(struct driver *driver, const void *address, size_t address_bytes,
                                   struct driver_peer **ret_peer, void *ret_offer,
                                   size_t *ret_offer_bytes)
{
    if (connect_error < 0)
        return connect_error;
    struct peer *peer = calloc(1, sizeof(*peer));
    cr_assert_not_null(peer);
    peer->number = ++last_number;
    peers_alive++;
    memcpy(ret_offer, &peer->number, OFFER_BYTES);
    *ret_offer_bytes = OFFER_BYTES;
    *ret_peer = (struct driver_peer *)peer;
    return 0;
}

static inline int drv_peer_answer(struct driver *driver, struct driver_peer *driver_peer,
                                  const void *offer, size_t offer_bytes)
{
    struct peer *peer = (struct peer *)driver_peer;
    cr_assert_eq(peer->other, 0, "answered twice");
    if (answer_error < 0)
        return answer_error;
    if (offer_bytes != OFFER_BYTES)
        return -EPROTO;
    memcpy(&peer->other, offer, OFFER_BYTES);
    return 0;
}

static inline void drv_peer_disconnect(struct driver *driver, struct driver_peer *peer)
{
    peers_alive--;
    free(peer);
}

static inline void drv_peer_fail(struct driver *driver, struct driver_peer *peer, int error)
{
    cr_assert_neq(((struct peer *)peer)->other, 0, "it was never connected");
    ((struct peer *)peer)->failed++;
}

static const struct driver_ops ops = {
    .id = DRIVER_OFI,
    .peer_connect = drv_peer_connect,
    .peer_answer = drv_peer_answer,
    .peer_disconnect = drv_peer_disconnect,
    .peer_fail = drv_peer_fail,
};
static const struct driver_caps caps = {.same_node = true, .other_nodes = true};

/* Engines are their nodes. */
struct driver *engine_driver(const struct engine *engine, unsigned rail)
{
    return rail == RAIL ? &((struct node *)engine)->driver : NULL;
}

const struct driver_caps *engine_driver_caps(const struct engine *engine, unsigned rail)
{
    return &caps;
}

int engine_loss_reserve(struct engine *engine)
{
    ((struct node *)engine)->reserved++;
    return 0;
}

void engine_loss_return(struct engine *engine)
{
    ((struct node *)engine)->reserved--;
}

struct region *region_ref(struct region *region)
{
    return region;
}

void region_unref(struct region *region)
{
}

/* ---- what is under way ---- */

enum { EVENTS_MAX = 64 };

struct event {
    void (*work)(void *context); /* the worker's, before done() */
    void (*done)(void *context);
    void *context;
};
static struct event jobs[EVENTS_MAX];
static unsigned job_count;

int worker_submit(struct worker *worker, uint64_t lane, void (*work)(void *context),
                  void (*done)(void *context), void (*dropped)(void *context), void *context)
{
    cr_assert_lt(job_count, EVENTS_MAX);
    jobs[job_count++] = (struct event){work, done, context};
    return 0;
}

void engine_call(struct engine *engine, struct engine_call *call,
                 void (*work)(struct engine *engine, void *context), void (*done)(void *context),
                 void *context)
{
    work(engine, context);
    if (done)
        done(context);
}

/* The worker's next job; later ones are appended. */
static inline bool work(void)
{
    if (job_count == 0)
        return false;
    const struct event job = jobs[0];
    memmove(jobs, jobs + 1, --job_count * sizeof(jobs[0]));
    job.work(job.context);
    job.done(job.context);
    return true;
}

/* Messages from a node, in order. */
static struct wire {
    struct message {
        uint8_t *bytes; /* NULL: an abandoned request */
        size_t count;
        uint32_t tag;
        bool answer;
    } messages[EVENTS_MAX];
    unsigned count;
} wires[NODES];

static struct question {
    unsigned node;
    peer_replied *answered; /* NULL: over */
    void *context;
    unsigned replies; /* how many replies have come, in time or not */
} questions[EVENTS_MAX];
static uint32_t question_count;

static inline unsigned node_of(const struct peers *peers)
{
    return (unsigned)((const struct node *)(const void *)peers - nodes);
}

static inline void put_on_wire(unsigned from, const Tca__Message *message, uint32_t tag,
                               bool answer)
{
    struct wire *wire = &wires[from];
    cr_assert_lt(wire->count, EVENTS_MAX);
    struct message *sent = &wire->messages[wire->count++];
    *sent = (struct message){.tag = tag, .answer = answer};
    sent->bytes = malloc(tca__message__get_packed_size(message) + 1);
    sent->count = tca__message__pack(message, sent->bytes);
}

void peers_request(struct peers *peers, uint32_t node, const Tca__Message *message,
                   uint64_t timeout_ns, peer_replied *answered, void *context)
{
    cr_assert_neq(node, node_of(peers), "an offer to the own node");
    cr_assert_lt(question_count + 1, EVENTS_MAX);
    questions[++question_count] = (struct question){node_of(peers), answered, context, 0};
    put_on_wire(node_of(peers), message, question_count, false);
}

void peers_reply(struct peers *peers, uint32_t node, uint32_t tag, const Tca__Message *answer)
{
    if (tag != 0)
        put_on_wire(node_of(peers), answer, tag, true);
}

void peers_fail(struct peers *peers, uint32_t node, uint32_t tag, int error, const char *format,
                ...)
{
    Tca__Failure failure = TCA__FAILURE__INIT;
    failure.status = (uint32_t)-error; /* of this test's own wire */
    failure.text = (char *)"refused";
    const Tca__Message message = MESSAGE_OF(FAILURE, failure, &failure);
    peers_reply(peers, node, tag, &message);
}

static inline void end_question(struct question *question, int status, const Tca__Message *answer,
                                const char *text)
{
    peer_replied *answered = question->answered;
    question->answered = NULL;
    if (answered)
        answered(question->context, status, answer, text);
}

static int last_failure; /* that was delivered */

/* Delivers the node's next message to the other one. */
static inline bool deliver(unsigned from)
{
    struct wire *wire = &wires[from];
    if (wire->count == 0)
        return false;
    const struct message sent = wire->messages[0];
    memmove(wire->messages, wire->messages + 1, --wire->count * sizeof(wire->messages[0]));
    Tca__Message *message = tca__message__unpack(NULL, sent.count, sent.bytes);
    cr_assert_not_null(message);
    if (sent.answer)
        questions[sent.tag].replies++;
    if (!sent.answer) {
        cr_assert_eq(message->body_case, TCA__MESSAGE__BODY_PEER_OFFER);
        links_offered(nodes[1 - from].links, from, sent.tag, message->peer_offer);
    } else if (message->body_case == TCA__MESSAGE__BODY_FAILURE) {
        last_failure = -(int)message->failure->status;
        end_question(&questions[sent.tag], last_failure, NULL, "refused");
    } else {
        end_question(&questions[sent.tag], 0, message, "");
    }
    tca__message__free_unpacked(message, NULL);
    free(sent.bytes);
    return true;
}

static inline void settle(void)
{
    while (work() || deliver(0) || deliver(1))
        ;
}

/* The node's requests so far time out. */
static inline void time_out(unsigned node)
{
    for (uint32_t i = 1; i <= question_count; i++)
        if (questions[i].node == node)
            end_question(&questions[i], -ETIMEDOUT, NULL, "no answer in time");
}

/* ---- two nodes ---- */

static struct rails rails = {
    .count = RAIL,
    .last = RAIL,
    .at = {
        [RAIL] = {.name = "ofi", .plane = "a", .driver = DRIVER_OFI, .ops = &ops, .open = true}}};

static inline void lost(struct tcad *tcad, uint32_t node, unsigned rail, int error)
{
    cr_assert_eq(rail, RAIL);
    nodes[tcad->node].lost++;
}

static inline void up(unsigned at, uint32_t node)
{
    Tca__RailAddress address = TCA__RAIL_ADDRESS__INIT;
    address.driver = (char *)"ofi";
    address.plane = (char *)"a";
    links_up(nodes[at].links, node, 1, (Tca__RailAddress *[]){&address});
}

static inline void setup(void)
{
    for (unsigned i = 0; i < NODES; i++) {
        struct node *node = &nodes[i];
        node->driver.ops = &ops;
        node->tcad.node = i;
        node->tcad.conf = &node->conf;
        node->tcad.rails = &rails;
        node->tcad.engine = (struct engine *)node;
        node->tcad.peers = (struct peers *)node;
        cr_assert_eq(links_new(&node->tcad, lost, &node->links), 0);
        up(i, 0);
        up(i, 1);
    }
}

/* Asserts that nothing is left, however the test ended. */
static inline void teardown(void)
{
    while (work()) /* as tcad does first */
        ;
    for (unsigned i = 0; i < NODES; i++)
        links_end(nodes[i].links);
    for (unsigned i = 0; i < NODES; i++)
        time_out(i);
    for (unsigned i = 0; i < NODES; i++)
        links_free(nodes[i].links);
    cr_assert_eq(peers_alive, 0);
    for (unsigned i = 0; i < NODES; i++)
        cr_assert_eq(nodes[i].reserved, 0);
    for (unsigned i = 0; i < NODES; i++)
        while (wires[i].count > 0)
            free(wires[i].messages[--wires[i].count].bytes);
}

struct waiter {
    struct link_wait wait;
    struct link *link;
    unsigned done;
    int status;
};

static inline void waiter_done(void *context, int status, const char *text)
{
    struct waiter *waiter = context;
    waiter->done++;
    waiter->status = status;
    link_unref(waiter->link);
}

static inline void begin(unsigned at, uint32_t node, struct waiter *waiter)
{
    *waiter = (struct waiter){.wait = {.done = waiter_done, .context = waiter},
                              .link = link_get(nodes[at].links, node, RAIL, nodes[at].tcad.engine)};
    cr_assert_not_null(waiter->link);
    cr_assert_eq(link_connect(waiter->link, &waiter->wait), -EINPROGRESS);
}

static inline const struct link *link_at(unsigned at, uint32_t node)
{
    return links_find(nodes[at].links, node, RAIL);
}

static inline const struct peer *peer_at(unsigned at, uint32_t node)
{
    const struct link *link = link_at(at, node);
    return link && link->state == LINK_CONNECTED ? (const struct peer *)link->peer : NULL;
}

static inline void expect_pair(void)
{
    const struct peer *a = peer_at(0, 1), *b = peer_at(1, 0);
    cr_assert(a && b, "not connected: %d and %d", link_at(0, 1)->state, link_at(1, 0)->state);
    cr_assert_eq(a->other, b->number);
    cr_assert_eq(b->other, a->number);
    cr_assert_eq(peers_alive, 2, "%u peers", peers_alive);
}

/* The driver of a node has lost its peer. */
static inline void lose(unsigned at)
{
    unsigned rail;
    cr_assert_eq(
        links_lost(nodes[at].links, nodes[at].tcad.engine, link_at(at, 1 - at)->peer, &rail),
        (int)(1 - at));
}
