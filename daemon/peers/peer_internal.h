/* Between the peer*.c files. */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "daemon/base/deadlines.h"
#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "daemon/base/pulse.h"
#include "daemon/base/table.h"
#include "daemon/base/tls.h"
#include "daemon/peers/outbox.h"
#include "daemon/peers/peer.h"
#include "proto/limits.h"
#include "proto/tca.pb-c.h"
#include "proto/wait.h"

enum {
    UNGREETED_MAX = 64, /* inbound connections that have not said who they are */
    PEER_TEXT_MAX = 256,
    LINK_KEY_BYTES = 16,
};

#define MS UINT64_C(1000000)

enum peer_state {
    PEER_IDLE,       /* nobody has needed it yet */
    PEER_CONNECTING, /* address, TCP, TLS */
    PEER_GREETING,
    PEER_UP,
    PEER_LOST,         /* its connection has ended, its link has not: to be connected again */
    PEER_RECONNECTING, /* address, TCP, TLS */
    PEER_RESUMING,     /* greeting */
    PEER_DOWN,
    PEER_STATE_COUNT,
};

struct connection;
struct resolve;

struct question_list {
    struct question *first, **last;
};

struct question {
    struct question_list *list; /* its peer's, or peers->local; NULL: none */
    struct question *next, **link;
    struct peers *peers;
    struct table_entry entry; /* in peers->questions, by its tag */
    uint32_t tag;
    uint32_t node;
    struct deadline deadline;
    peer_answered *answered;
    void *context;
    uint8_t *bytes; /* to be sent or handed over; NULL: sent */
    size_t count;
    /* local: what to call back with */
    int status;
    char *text;
    bool finished;
};

/*
 * What outlives a connection: the messages each way, numbered from 1. It begins when a node goes up
 * and ends when it goes down. If its connection ends before, the next one resumes it: each side
 * proves with the other's key that it is the one that was there, and says how many messages it has
 * received; what has not arrived is sent again. So every message arrives once and in order, or the
 * node is down.
 */
struct peer_link {
    uint8_t own_key[LINK_KEY_BYTES];   /* that the other side resumes with */
    uint8_t other_key[LINK_KEY_BYTES]; /* that we resume with */
    struct outbox outbox;
    bool overrun;      /* a message could not be kept: the next tick ends it */
    uint64_t received; /* messages */
    uint64_t told;     /* of them were acknowledged */
    size_t untold_bytes;
};

struct peer {
    struct peers *peers;
    struct peer *next;
    uint32_t node;
    char *name, *address; /* as the cluster file had them when we last looked */
    uint16_t port;

    enum peer_state state;
    uint64_t since_ns;
    uint64_t attempt_ns;  /* when we last began to connect; 0: never */
    uint64_t deadline_ns; /* of connecting and greeting */
    struct connection *connection;
    struct resolve *resolve;
    struct question_list questions;

    struct peer_link link; /* from UP to DOWN */
    uint64_t redial_ns;    /* when we last began to reconnect; 0: never */
    uint64_t reconnects;   /* since the daemon started */
    char last_loss[PEER_TEXT_MAX];

    uint64_t incarnation; /* 0: never met */
    char version[32];
    char last_error[PEER_TEXT_MAX];

    uint64_t heard_ns;
    uint64_t heard_bytes; /* stream_received_bytes() then */
    struct pulse *pulse;  /* NULL: only its connection tells whether it lives */
    uint64_t ping_sequence;
    uint64_t ping_ns; /* when the ping in flight was sent; 0: none */
    uint64_t rtt_ns;
    uint64_t sent_bytes, received_bytes;
};

struct peers {
    struct tcad *tcad;
    struct peers_events events;
    Tca__Message *hello;
    struct tls *tls; /* NULL: plain, or not needed yet */
    struct listener *listener;
    struct pulses *pulses; /* NULL: nobody listens here */
    struct peer **by_node; /* [PEER_NODES_MAX] */
    struct peer *first;

    struct connection *ungreeted, **ungreeted_last; /* inbound, oldest first */
    unsigned ungreeted_count;
    struct log_limit complaints; /* about connections from nobody we know */
    uint64_t refused_resumes;
    bool leaving;

    struct table questions;
    struct deadlines deadlines; /* of questions */
    struct question_list local; /* to be delivered by local_timer */
    struct loop_timer *local_timer;
    uint32_t last_tag;

    struct loop_timer *tick;
    uint64_t tick_due_ns; /* 0: stopped */
    uint64_t late_ns;     /* by how much the worst tick of late came after it was due */
};

/* ---- peer.c ---- */
struct peer *peer_find(const struct peers *peers, uint32_t node);
/* Makes it when it is in the cluster file: -EINVAL when it is not. */
int peer_get(struct peers *peers, uint32_t node, struct peer **ret_peer);
/* Cuts what cannot be shown on a terminal out of a text from outside. */
void peer_clean(char *text);

/* ---- peer_watch.c ---- */
/* Of the tick's timer. */
void peers_watch(void *context);
/* Something is under way that has a deadline: tick soon enough for it. */
void peers_tick_soon(struct peers *peers);
void peer_ping(struct peer *peer, uint64_t now_ns);
/* What others get on top of a time-out, because we are late ourselves. */
uint64_t peers_allowance_ns(const struct peers *peers);
/* It has been silent for the time-out, and its heartbeats too. */
bool peer_is_silent(const struct peer *peer, uint64_t now_ns, uint64_t *ret_silent_ns);

/* ---- peer_state.c ---- */
bool peer_may(enum peer_state from, enum peer_state to);
const char *peer_state_name(enum peer_state state);
/* The one place where the state changes. Down: drops the connection and fails all questions. error,
 * text: for down. */
void peer_move(struct peer *peer, enum peer_state to, int error, const char *text);
/* From idle or down: connects, unless the last attempt is too recent (-EAGAIN). */
int peer_connect(struct peer *peer);
/* In one of the two states of connecting: looks the address up and connects. */
void peer_dial(struct peer *peer);

/* ---- peer_link.c ---- */
/* Between UP and DOWN, connected or not. */
bool peer_has_link(const struct peer *peer);
void link_begin(struct peer *peer);
/* Goes on over a new connection: sends what has not arrived. */
void link_resume(struct peer *peer);
void link_end(struct peer *peer);
/* Sends, now or over the next connection. */
void link_send(struct peer *peer, uint32_t tag, const Tca__Message *message);
/* Same for a message that is packed. */
void link_send_bytes(struct peer *peer, uint32_t tag, const void *bytes, size_t count);
/* A message that counts has come. */
void link_received(struct peer *peer, size_t count);
/* How many have, to be told now. */
uint64_t link_tell(struct peer_link *link);
/* The other side says how many have arrived there: 0, or -EPROTO and the connection has ended. */
int link_acknowledged(struct connection *connection, uint64_t received);
/* Why outbox_acknowledge() has refused the number. */
void link_explain(const struct outbox *outbox, uint64_t received, char *text, size_t text_bytes);

/* ---- peer_lost.c ---- */
/* Its connection, or the attempt to make one, has ended: reconnects if there is a link and that may
 * help, else it is down. */
void peer_disconnected(struct peer *peer, int error, const char *text);
/* From any state with a link: its connection has ended, the link goes on. */
void peer_lose(struct peer *peer, int error, const char *text);
/* Of the tick, in LOST, RECONNECTING and RESUMING. */
void peer_watch_lost(struct peer *peer, uint64_t now_ns);

/* ---- peer_connection.c ---- */
struct connection {
    struct peers *peers;
    struct peer *peer;               /* NULL: inbound and not greeted */
    struct connection *next, **link; /* in peers->ungreeted, else link is NULL */
    struct stream *stream;
    bool ours;            /* made by us */
    bool accepted;        /* their hello was good: we have said so */
    bool refused;         /* stays only until our words are out */
    bool broken;          /* something could not be sent: the next tick ends it */
    bool resumes;         /* the link of its peer, as far as we can tell */
    bool contested;       /* its peer has made another one, which we have refused */
    uint64_t deadline_ns; /* until it is greeted */
    char from[96];
    uint64_t heartbeat_key[2];        /* that we have given them */
    uint8_t link_key[LINK_KEY_BYTES]; /* likewise, for a new link */
    uint64_t incarnation;             /* from their hello */
    Tca__Message *hello;              /* theirs, until it is up */
};
int connection_connect(struct peer *peer, const struct sockaddr *address, socklen_t address_bytes);
void connection_accepted(void *context, int fd, const char *from);
/* Only frees: whose connection it was is the caller's business. */
struct connection *connection_free(struct connection *connection);
/* Sends a message that is not part of a link. 0, or the connection cannot take it: it is as good as
 * dead. */
int connection_send(struct connection *connection, uint32_t tag, const Tca__Message *message);
int connection_send_bytes(struct connection *connection, uint32_t tag, const void *bytes,
                          size_t count);
void connection_complain(struct peers *peers, const char *from, const char *text);
/* Somebody answers for it from now on: the tick need not look. */
void connection_unwatch(struct connection *connection);
/* Ends it for a reason of ours or of the wire. The connection is gone afterwards. */
void connection_fail(struct connection *connection, int error, const char *text);
/* Says why, then ends it. */
void connection_refuse(struct connection *connection, int error, char *text);
/* Takes it from its peer, if it has one, and gives what was said last the time to get out. */
struct peer *connection_detach(struct connection *connection);

/* ---- peer_message.c ---- */
void connection_send_hello(struct connection *connection);
/* Before the connection is up. Takes the message over when it returns true. */
bool connection_greeting(struct connection *connection, Tca__Message *message);
/* Once it is. */
void connection_message(struct connection *connection, uint32_t tag, const Tca__Message *message,
                        size_t bytes);

/* ---- peer_greeting.c ---- */
/* 0, or negative and a text for both sides. expected: the peer that we have connected to, NULL:
 * anybody. */
int greeting_check(const struct peers *peers, const Tca__PeerHello *hello,
                   const struct peer *expected, char *text, size_t text_bytes);
/* Their hello has come on a connection, whose peer we know now: does it resume the link, or end it,
 * and which of two connections stays? 0, or it is refused. */
int greeting_choose(struct connection *connection, struct peer *peer, const Tca__PeerHello *hello,
                    char *text, size_t text_bytes);
/* Their welcome: 0, or it is refused. */
int greeting_welcomed(struct connection *connection, const Tca__PeerWelcome *welcome, char *text,
                      size_t text_bytes);

/* ---- peer_question.c ---- */
void question_list_init(struct question_list *list);
/* An answer from that peer, or from ourselves. */
void question_answered(struct peers *peers, uint32_t node, uint32_t tag,
                       const Tca__Message *answer);
/* Sends what waits for the peer to be up. */
void questions_send(struct peer *peer);
void questions_fail(struct peer *peer, int error, const char *text);
/* Those that are overdue. */
void questions_deliver_local(void *context);
void questions_free(struct peers *peers);

/* ---- peer_resolve.c ---- */
/* Finds the address of peer->address, port; later, when it is a host name: then calls resolved().
 * At once for numbers: 1. */
int resolve_start(struct peer *peer, struct sockaddr_storage *ret_address, socklen_t *ret_bytes);
struct resolve *resolve_cancel(struct resolve *resolve);
void peer_resolved(struct peer *peer, int error, const struct sockaddr *address, socklen_t bytes,
                   const char *text);
