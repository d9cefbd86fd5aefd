/*
 * The other daemons. Connections are made when somebody first asks a node something, and by the
 * node that asks; when two daemons connect to each other at once, the connection made by the lower
 * node id stays. A connection begins with a PeerHello each way (version, cluster name, node id,
 * incarnation, addresses of the rails); then come pings, and a node that has not answered for the
 * heartbeat time-out is down. A node that was down is asked again when somebody next needs it (not
 * more often than once a second).
 *
 * A connection that ends without a goodbye is no news: both sides connect again, and go on with the
 * message after the last that has arrived. The node is down when it refuses the connection (no
 * daemon listens there), when another daemon answers or this one has given up what was between the
 * two, or when the heartbeat time-out is over.
 *
 * States of a peer: idle -> connecting -> greeting -> up -> down -> connecting ..., and between up
 * and up: lost -> reconnecting -> resuming. The legal transitions are a table in peer_state.c.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/limits.h"
#include "proto/tca.pb-c.h"

struct tcad;
struct peers;

enum {
    PEER_NODES_MAX = 65536, /* node ids are below */
    /* What may be sent to a node at once. It can take more, for what it has not acknowledged yet
     * and for what others send. */
    PEER_BURST_MAX_BYTES = FRAME_PAYLOAD_MAX + (16 << 20),
};

/* status 0: answer is valid during the call. Negative: text says why (never NULL). The answer's
 * Failure is turned into this. */
typedef void peer_answered(void *context, int status, const Tca__Message *answer, const char *text);

struct peers_events {
    /* A question from a node (possibly our own): answer once with peers_answer() or peers_fail(),
     * now or later. */
    void (*asked)(void *context, uint32_t node, uint32_t tag, const Tca__Message *question);
    /* Greeting done. The rails' addresses are valid during the call. */
    void (*up)(void *context, uint32_t node, uint64_t incarnation, const Tca__PeerHello *hello);
    /* Not up any more (never called for a node that has not been up). All open questions to it have
     * been failed. */
    void (*down)(void *context, uint32_t node, int error, const char *text);
    void *context;
};

/* hello: what to say of ourselves (copied). Listens where the configuration says, unless there is
 * no cluster. text: why it failed. */
int peers_new(struct tcad *tcad, const Tca__PeerHello *hello, const struct peers_events *events,
              char *text, size_t text_bytes, struct peers **ret_peers);
struct peers *peers_free(struct peers *peers);
/* The daemon ends: tells the others, and takes no new connections. */
void peers_leave(struct peers *peers);
/* What was sent last has left: the loop may stop. */
bool peers_have_left(const struct peers *peers);

/* Asks a node; also the own node: then `asked` is called from the loop with the same message, and
 * everything is as with others. answered() is called exactly once, never from within this call:
 * with -EHOSTDOWN when the node is or goes down, -ETIMEDOUT, -EINVAL for a node that the cluster
 * file does not name. */
void peers_ask(struct peers *peers, uint32_t node, const Tca__Message *question,
               uint64_t timeout_ns, peer_answered *answered, void *context);
/* Tells a node something without an answer, if a connection stands. */
void peers_tell(struct peers *peers, uint32_t node, const Tca__Message *message);

void peers_answer(struct peers *peers, uint32_t node, uint32_t tag, const Tca__Message *answer);
void peers_fail(struct peers *peers, uint32_t node, uint32_t tag, int error, const char *format,
                ...) __attribute__((format(printf, 5, 6)));

bool peers_is_up(const struct peers *peers, uint32_t node);

/* The cluster file has changed (tcad->cluster is the new one): drops removed and moved nodes. */
void peers_reload(struct peers *peers);

/* For displays. */
struct peer_info {
    uint32_t node;
    const char *state;      /* self, idle, connecting, up, reconnecting, down */
    uint64_t since_ns;      /* CLOCK_MONOTONIC of the last change */
    uint64_t rtt_ns;        /* of the last heartbeat; 0: none yet */
    uint64_t incarnation;   /* 0: never met */
    const char *version;    /* of its daemon; "" */
    const char *last_error; /* "" */
    uint64_t reconnects;    /* connections that ended and went on */
    const char *last_loss;  /* why the last one ended; "" */
    uint64_t sent_bytes, received_bytes;
};
int peers_info(const struct peers *peers, uint32_t node, struct peer_info *ret_info);
/* Connections that wanted to resume a link and did not know its key, or said what cannot be. */
uint64_t peers_refused_resumes(const struct peers *peers);
