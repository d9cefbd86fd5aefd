/*
 * The other daemons. A connection is made with the first request to a node, by the requesting side.
 * If two daemons connect to each other at once, the connection made by the lower node id stays. A
 * connection begins with a PeerHello each way (version, cluster name, node id, incarnation,
 * addresses of the rails). Pings follow, and a node that does not answer within the heartbeat
 * time-out is down. The next request to a node that is down connects again, at most once a second.
 *
 * When a connection ends without a goodbye, both sides reconnect and continue with the message
 * after the last that has arrived. The node is down if it refuses the connection (no daemon listens
 * there), if another daemon answers, if the daemon has given up the link, or after the heartbeat
 * time-out.
 *
 * States of a peer: idle -> connecting -> greeting -> up -> down -> connecting ..., and between up
 * and up: lost -> reconnecting -> resuming. The legal transitions are a table in peer_state.c.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/limits.h"
#include "proto/message.h"

struct tcad;
struct peers;

enum {
    PEER_NODES_MAX = 1 << 17, /* node ids are below */
    /* The most that may be sent to a node in one burst. A link holds more, because it also keeps
     * earlier messages until they are acknowledged. */
    PEER_BURST_MAX_BYTES = FRAME_PAYLOAD_MAX + (16 << 20),
};

/* status 0: `reply` is valid during the call. Negative: text, never NULL, is the error; a Failure
 * sent by the node is reported this way, too. */
typedef void peer_replied(void *context, int status, const Tca__Message *reply, const char *text);

struct peers_events {
    /* A request from a node, possibly this one. Reply once, now or later, with peers_reply() or
     * peers_fail(). */
    void (*asked)(void *context, uint32_t node, uint32_t tag, const Tca__Message *request);
    /* The node is up. The addresses of its rails are valid during the call. */
    void (*up)(void *context, uint32_t node, uint64_t incarnation, const Tca__PeerHello *hello);
    /* The node, which was up, is down. All pending requests to it have been failed. */
    void (*down)(void *context, uint32_t node, int error, const char *text);
    void *context;
};

/* Looks up where this node listens (tcad->own), if there are other nodes: before peers_new(). Can
 * take long. text: the error. */
int peers_find_own(struct tcad *tcad, char *text, size_t text_bytes);
/* hello: this node's own, copied. Listens on the configured address, unless there is no cluster.
 * text: the error. */
int peers_new(struct tcad *tcad, const Tca__PeerHello *hello, const struct peers_events *events,
              char *text, size_t text_bytes, struct peers **ret_peers);
/* Cancels what is pending, so what replied() needs must still exist. */
struct peers *peers_free(struct peers *peers);
/* A secret for this purpose, the same on all nodes of the cluster; zeros if it has no key. -EIO. */
int peers_secret(const struct peers *peers, const char *purpose, uint64_t ret_secret[2]);
/* The daemon ends: all pending requests, including replies of this node that were not delivered
 * yet, fail with -ECANCELED, from within this call. NULL is a no-op. */
void peers_cancel(struct peers *peers);
/* The daemon ends: informs the others, and accepts no more connections. */
void peers_leave(struct peers *peers);
/* Whether all messages have been sent, so that the loop may stop. */
bool peers_have_left(const struct peers *peers);

/* Sends a request to a node. If it is this node, events.asked() is called from the loop. replied()
 * is called exactly once, never from within this call; its errors include -EHOSTDOWN (the node is
 * or goes down), -ETIMEDOUT, -ECANCELED (peers_cancel()) and -EINVAL (not in the cluster file). */
void peers_request(struct peers *peers, uint32_t node, const Tca__Message *request,
                   uint64_t timeout_ns, peer_replied *replied, void *context);
/* Sends a message without a reply, if there is a connection. */
void peers_tell(struct peers *peers, uint32_t node, const Tca__Message *message);

void peers_reply(struct peers *peers, uint32_t node, uint32_t tag, const Tca__Message *reply);
/* The reply to a request that returns nothing. */
static inline void peers_done(struct peers *peers, uint32_t node, uint32_t tag)
{
    Tca__Done done = TCA__DONE__INIT;
    const Tca__Message message = MESSAGE_OF(DONE, done, &done);
    peers_reply(peers, node, tag, &message);
}
void peers_fail(struct peers *peers, uint32_t node, uint32_t tag, int error, const char *format,
                ...) __attribute__((format(printf, 5, 6)));

/* Asks a node whether it is there: a request without effect, which does not wait long for a node
 * that is not connected, least if it was down the last time. replied(): as of peers_request(). */
void peers_probe(struct peers *peers, uint32_t node, uint64_t timeout_ns, peer_replied *replied,
                 void *context);

bool peers_is_up(const struct peers *peers, uint32_t node);
/* Whether the node has refused this one because its cluster file does not have it, or has another
 * one in its place. */
bool peers_is_stranger(const struct peers *peers, uint32_t node);

/* The cluster file has changed and tcad->cluster is the new one: drops removed and moved nodes. */
void peers_reload(struct peers *peers);

/* For display. */
struct peer_info {
    uint32_t node;
    const char *state;      /* self, idle, connecting, up, reconnecting, down */
    uint64_t since_ns;      /* CLOCK_MONOTONIC of the last change */
    uint64_t rtt_ns;        /* of the last heartbeat; 0: none yet */
    uint64_t incarnation;   /* 0: unknown */
    const char *version;    /* of its daemon; "" */
    const char *last_error; /* "" */
    uint64_t reconnects;    /* connections that ended and were resumed */
    const char *last_loss;  /* why the last one ended; "" */
    uint64_t sent_bytes, received_bytes;
    uint64_t cluster_digest; /* of its cluster file when it last greeted; 0: unknown */
};
int peers_info(const struct peers *peers, uint32_t node, struct peer_info *ret_info);
/* How far the last attempt to connect has come. */
enum peer_step {
    PEER_STEP_NONE, /* there was none */
    PEER_STEP_NAME,
    PEER_STEP_DIAL,
    PEER_STEP_SECURE, /* TLS, if the cluster has a key */
    PEER_STEP_GREET,
    PEER_STEP_UP,
};
struct peer_reach {
    enum peer_step step;
    int status;            /* negative: why the node went down last, or the last connection ended */
    int name_error;        /* of getaddrinfo(); 0: none */
    uint64_t name_next_ns; /* CLOCK_MONOTONIC: its name is not looked up before */
    uint64_t next_ns;      /* when this node connects by itself; 0: it does not */
    uint32_t protocol;     /* that its daemon speaks; 0: unknown */
    bool called;           /* the connection was made by the other node */
    unsigned count;        /* of the addresses that were found last, in the order of trying */
    struct {
        char text[64]; /* without a port */
        int result;    /* 1: connected to; 0: not tried; -EINPROGRESS: no answer yet; or why not */
    } addresses[16];   /* ADDRESSES_MAX */
};
/* -EINVAL: not in the cluster file, or this node. */
int peers_reach(const struct peers *peers, uint32_t node, struct peer_reach *ret_reach);
/* Connections that tried to resume a link without its key or with impossible counts. */
uint64_t peers_refused_resumes(const struct peers *peers);
