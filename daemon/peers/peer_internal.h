/* Shared by the peer*.c files. */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "daemon/base/deadlines.h"
#include "daemon/base/log.h"
#include "daemon/base/lookup.h"
#include "daemon/base/loop.h"
#include "daemon/base/loop_dial.h"
#include "daemon/base/pulse.h"
#include "daemon/base/table.h"
#include "daemon/base/tls.h"
#include "daemon/peers/outbox.h"
#include "daemon/peers/peer.h"
#include "proto/limits.h"
#include "proto/tca.pb-c.h"
#include "proto/wait.h"

enum {
    UNGREETED_MIN = 64, /* inbound connections of an address that have not sent their hello, beyond
                           one per node */
    UNGREETED_ADDRESSES = 4, /* so many times as many in all: then no more are accepted */
    PEER_TEXT_MAX = 256,
    LINK_KEY_BYTES = 16,
};

#define MS UINT64_C(1000000)

enum peer_state {
    PEER_IDLE,       /* not needed yet */
    PEER_CONNECTING, /* address, TCP, TLS */
    PEER_GREETING,
    PEER_UP,
    PEER_LOST,         /* the connection has ended, the link has not: reconnect */
    PEER_RECONNECTING, /* address, TCP, TLS */
    PEER_RESUMING,     /* greeting */
    PEER_DOWN,
    PEER_STATE_COUNT,
};

struct connection;

struct peer_request_list {
    struct peer_request *first, **last;
};

struct peer_request {
    struct peer_request_list *list; /* of its peer, or peers->local; NULL: none */
    struct peer_request *next, **link;
    struct peers *peers;
    struct table_entry entry; /* in peers->requests, by tag */
    uint32_t tag;
    uint32_t node;
    struct deadline deadline;
    peer_replied *replied;
    void *context;
    uint8_t *bytes; /* to be sent or delivered; NULL: sent */
    size_t count;
    /* local: the arguments of replied() */
    int status;
    char *text;
    bool finished;
};

/*
 * A link outlives connections. It consists of the messages each way, numbered from 1, begins when a
 * node goes up and ends when it goes down. If a connection ends earlier, the next one resumes the
 * link: each side proves its identity with the key that the other has given it, and says how many
 * messages it has received. The rest is sent again. So each message arrives exactly once and in
 * order, or the node is down.
 */
struct peer_link {
    uint8_t own_key[LINK_KEY_BYTES];   /* the other side must present it to resume */
    uint8_t other_key[LINK_KEY_BYTES]; /* presented by this side to resume */
    struct outbox outbox;
    bool overrun;          /* a message could not be kept: the next tick ends the link */
    uint64_t received;     /* messages */
    uint64_t acknowledged; /* how many of them were acknowledged */
    size_t untold_bytes;
};

/* The keys of a greeting in which this daemon has sent its welcome. If the connection ends before
 * the peer's welcome arrives, only the peer may have begun the link, and a later greeting must
 * continue it. */
struct half_link {
    uint64_t incarnation; /* of the other side; 0: none */
    uint8_t own_key[LINK_KEY_BYTES], other_key[LINK_KEY_BYTES];
};

struct peer {
    struct peers *peers;
    struct peer *next;
    uint32_t node;
    char *name, *address; /* from the cluster file when it was last read */
    uint16_t port;

    enum peer_state state;
    uint64_t since_ns;
    uint64_t attempt_ns;  /* when connecting last began; 0: never */
    uint64_t deadline_ns; /* of connecting and greeting */
    /* While it is down, it is looked for at longer and longer intervals (peer_seek()), without a
     * log entry. */
    uint64_t seek_ns;      /* when next; 0: not */
    uint64_t seek_wait_ns; /* 0: it was up since */
    uint64_t down_ns;      /* since when it is down */
    bool seeking;          /* this attempt to connect is of that kind: it still counts as down */
    struct connection *connection;
    struct peer_request_list requests;
    /* peer_dial.c */
    struct lookup *lookup;
    struct loop_dial *dial;
    struct addresses
        *addresses; /* the last that were found; NULL: none. The first is the last that was good. */
    uint32_t tried; /* of these by this attempt to connect, a bit each */
    int results[ADDRESSES_MAX]; /* of these, the last time that each was tried: see peer_reach */
    int name_error;             /* of the last look-up: of getaddrinfo() */
    enum peer_step step;        /* how far the last attempt to connect has come */
    uint64_t
        name_next_ns; /* its name is not looked up again for a request before; 0: at any time */
    uint64_t name_wait_ns; /* 0: it was found the last time */

    unsigned cuts;         /* in their greeting, of this attempt's connections */
    struct peer_link link; /* from UP to DOWN */
    /* Before it, the last first: of two connections that cross, the peer may begin either. */
    struct half_link halves[2];
    uint8_t given[2][LINK_KEY_BYTES]; /* keys for new links, in this side's last hellos */
    unsigned given_count;
    uint64_t redial_ns;  /* when connecting again last began; 0: never */
    uint64_t reconnects; /* since the daemon started */
    char last_loss[PEER_TEXT_MAX];

    uint64_t incarnation; /* 0: unknown */
    uint64_t cluster_digest;
    bool stranger; /* see peers_is_stranger() */
    char version[32];
    uint32_t protocol; /* 0: unknown */
    char last_error[PEER_TEXT_MAX];
    int last_status; /* that belongs to it */

    uint64_t heard_ns;
    uint64_t heard_bytes; /* stream_received_bytes() at that time */
    struct pulse *pulse;  /* NULL: only the connection shows whether it is alive */
    uint64_t ping_sequence;
    uint64_t ping_ns; /* when the pending ping was sent; 0: none */
    uint64_t rtt_ns;
    uint64_t sent_bytes, received_bytes;
};

struct peers {
    struct tcad *tcad;
    struct peers_events events;
    Tca__Message *hello;
    struct tls *tls; /* NULL: plain, or not needed yet */
    struct listener *listeners[ADDRESSES_MAX];
    unsigned listener_count;
    struct pulses *pulses; /* NULL: not listening */
    struct peer **by_node; /* [PEER_NODES_MAX] */
    struct peer *first;

    struct connection *ungreeted, **ungreeted_last; /* inbound, oldest first */
    unsigned ungreeted_count;
    struct log_limit complaints; /* about connections from unknown nodes */
    uint64_t refused_resumes;
    bool leaving;

    struct table requests;
    struct deadlines deadlines;     /* of requests */
    struct peer_request_list local; /* delivered by local_timer */
    struct loop_timer *local_timer;
    uint32_t last_tag;

    struct loop_timer *tick;
    uint64_t tick_due_ns; /* 0: stopped */
    uint64_t late_ns;     /* the worst recent delay of a tick */
};

/* ---- peer.c ---- */
struct peer *peer_find(const struct peers *peers, uint32_t node);
/* Finds or creates the peer. -EINVAL: the node is not in the cluster file. */
int peer_get(struct peers *peers, uint32_t node, struct peer **ret_peer);
/* Removes characters that a terminal cannot show from a text of another node. */
void peer_clean(char *text);
/* Loads the key and listens, as far as configured and not done yet; an error is logged. */
void peers_open(struct peers *peers);

/* ---- peer_own.c ---- */
/* As peers_find_own(), in another thread, and then peers_open(). */
void peers_find_own_later(struct tcad *tcad);

/* ---- peer_watch.c ---- */
/* The tick's timer function. */
void peers_watch(void *context);
/* Something with a deadline has begun: makes the tick run in time. */
void peers_tick_soon(struct peers *peers);
void peer_ping(struct peer *peer, uint64_t now_ns);
/* How much longer than a time-out others may take, because this daemon itself is late. */
uint64_t peers_allowance_ns(const struct peers *peers);
/* Whether neither its connection nor its heartbeats were heard for the time-out. */
bool peer_is_silent(const struct peer *peer, uint64_t now_ns, uint64_t *ret_silent_ns);

/* ---- peer_state.c ---- */
bool peer_may(enum peer_state from, enum peer_state to);
const char *peer_state_name(enum peer_state state);
/* The only function that changes the state. PEER_DOWN: drops the connection and fails all requests
 * with `error` and `text`. */
void peer_move(struct peer *peer, enum peer_state to, int error, const char *text);
/* In state idle or down: connects, unless the last attempt is too recent (-EAGAIN). */
int peer_connect(struct peer *peer);
/* In state down, when peer->seek_ns has come: connects, so that a node that is back is known to be
 * up without a request. */
void peer_seek(struct peer *peer);

/* ---- peer_link.c ---- */
/* Whether it has a link: in the states between UP and DOWN. */
bool peer_has_link(const struct peer *peer);
void link_begin(struct peer *peer);
/* Our welcome is sent: the other side begins the link when it arrives. */
void link_offer(struct connection *connection);
/* This side has sent a hello with a key for a new link. */
void link_note_given(struct peer *peer, const uint8_t key[static LINK_KEY_BYTES]);
/* Nothing has arrived over the link: it becomes the first half, which the other side has begun. */
void link_exchange(struct peer *peer);
/* Resumes the link on a new connection: sends what has not arrived. */
void link_resume(struct peer *peer);
void link_end(struct peer *peer);
/* Sends a message, now or on the next connection. */
void link_send(struct peer *peer, uint32_t tag, const Tca__Message *message);
/* The same for a packed message. */
void link_send_bytes(struct peer *peer, uint32_t tag, const void *bytes, size_t count);
/* A message of the link has arrived. */
void link_received(struct peer *peer, size_t count);
/* How many messages have arrived, for an acknowledgement sent now. */
uint64_t link_tell(struct peer_link *link);
/* The other side acknowledges so many messages. 0, or -EPROTO: the connection has been ended. */
int link_acknowledged(struct connection *connection, uint64_t received);
/* Describes why outbox_acknowledge() refused the number. */
void link_explain(const struct outbox *outbox, uint64_t received, char *text, size_t text_bytes);

/* ---- peer_lost.c ---- */
/* Its connection or a connection attempt has ended: connects again if the error can pass and there
 * is a link, or requests wait for the first; otherwise the peer goes down. */
void peer_disconnected(struct peer *peer, int error, const char *text);
/* In any state with a link: the connection has ended, the link continues. */
void peer_lose(struct peer *peer, int error, const char *text);
/* Called by the tick: in CONNECTING and GREETING; in LOST, RECONNECTING and RESUMING. */
void peer_watch_attempt(struct peer *peer, uint64_t now_ns);
void peer_watch_lost(struct peer *peer, uint64_t now_ns);

/* ---- peer_connection.c ---- */
struct connection {
    struct peers *peers;
    struct peer *peer;               /* NULL: inbound, no hello yet */
    struct connection *next, **link; /* in peers->ungreeted; else link is NULL */
    struct stream *stream;
    bool ours;            /* outbound */
    unsigned which;       /* the address that it is to, of its peer's */
    bool accepted;        /* the hello was good, and the welcome was sent */
    bool refused;         /* stays only until the last message is sent */
    bool broken;          /* a message could not be sent: the next tick ends it */
    bool resumes;         /* resumes the link of its peer, as far as known */
    bool adopts;          /* begins the half link of its peer, as far as known */
    bool contested;       /* its peer has made another one, which was refused */
    uint64_t deadline_ns; /* of the greeting */
    char from[96];
    uint64_t heartbeat_key[2];        /* given to the other side */
    uint8_t link_key[LINK_KEY_BYTES]; /* likewise, for a new link */
    uint64_t incarnation;             /* from the hello */
    Tca__Message *hello;              /* the other side's, until it is up */
};
/* fd: connected; owned by the connection, also on failure. which: its address, of the peer's. */
int connection_connect(struct peer *peer, int fd, unsigned which);
void connection_accepted(void *context, int fd, const char *from);
/* Only frees it; the caller deals with its peer. */
struct connection *connection_free(struct connection *connection);
/* Sends a message that is not part of a link. A negative errno: it cannot be sent, and the
 * connection will be ended. */
int connection_send(struct connection *connection, uint32_t tag, const Tca__Message *message);
int connection_send_bytes(struct connection *connection, uint32_t tag, const void *bytes,
                          size_t count);
void connection_complain(struct peers *peers, const char *from, const char *text);
/* The tick no longer watches it. */
void connection_unwatch(struct connection *connection);
/* Ends and frees it, because of an error here or on the network. */
void connection_fail(struct connection *connection, int error, const char *text);
/* Sends the reason, then ends it. */
void connection_refuse(struct connection *connection, int error, char *text);
/* Takes it from its peer, if it has one, and keeps it until its last message is sent. */
struct peer *connection_detach(struct connection *connection);

/* ---- peer_message.c ---- */
void connection_send_hello(struct connection *connection);
/* Handles a message before the connection is up. If it returns true, it has taken over the
 * message. */
bool connection_greeting(struct connection *connection, Tca__Message *message);
/* Handles a message on a connection that is up. */
void connection_message(struct connection *connection, uint32_t tag, const Tca__Message *message,
                        size_t bytes);

/* ---- peer_greeting.c ---- */
/* Checks a hello. 0, or a negative errno and a text for both sides. expected: the peer of an
 * outbound connection; NULL: any. */
int greeting_check(const struct peers *peers, const Tca__PeerHello *hello,
                   const struct peer *expected, char *text, size_t text_bytes);
/* A hello has arrived, so the connection's peer is known. Decides whether the connection resumes or
 * ends the link, and which of two connections stays. 0, or why it is refused. */
int greeting_choose(struct connection *connection, struct peer *peer, const Tca__PeerHello *hello,
                    char *text, size_t text_bytes);
/* Checks a welcome. 0, or why it is refused. */
int greeting_welcomed(struct connection *connection, const Tca__PeerWelcome *welcome, char *text,
                      size_t text_bytes);

/* ---- peer_request.c ---- */
void peer_request_list_init(struct peer_request_list *list);
/* A reply of a peer or of this node. */
void peer_request_replied(struct peers *peers, uint32_t node, uint32_t tag,
                          const Tca__Message *reply);
/* Sends the requests that have waited for the peer to be up. */
void peer_requests_send(struct peer *peer);
void peer_requests_fail(struct peer *peer, int error, const char *text);
/* Fails overdue requests. */
void peer_requests_deliver_local(void *context);

/* ---- peer_dial.c ---- */
/* In state connecting or reconnecting: looks up the address and connects. */
void peer_dial(struct peer *peer);
bool peer_is_dialling(const struct peer *peer);
/* Looks nothing up any more, and connects no more. */
void peer_dial_end(struct peer *peer);
/* Whether this first attempt to connect has not tried all addresses; tries them instead of the
 * connection that there is. */
bool peer_dial_has_others(const struct peer *peer);
void peer_dial_others(struct peer *peer);
/* It is up: its address is the one to be tried first from now on. */
void peer_dial_good(struct peer *peer);
/* The connection to one of its addresses has ended before the node was up. */
void peer_dial_failed(struct peer *peer, unsigned which, int error);
/* The cluster file was read again: knows nothing of its addresses. */
void peer_dial_forget(struct peer *peer);
