/* Between the peer*.c files. */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "daemon/base/pulse.h"
#include "daemon/base/table.h"
#include "daemon/base/tls.h"
#include "daemon/peers/peer.h"
#include "proto/limits.h"
#include "proto/tca.pb-c.h"

enum {
    UNGREETED_MAX = 64, /* inbound connections that have not said who they are */
    PEER_TEXT_MAX = 256,
};

#define MS UINT64_C(1000000)

enum peer_state {
    PEER_IDLE,       /* nobody has needed it yet */
    PEER_CONNECTING, /* address, TCP, TLS */
    PEER_GREETING,
    PEER_UP,
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
    struct table_entry entry; /* in peers->questions, by its tag */
    uint32_t tag;
    uint32_t node;
    uint64_t deadline_ns;
    peer_answered *answered;
    void *context;
    uint8_t *bytes; /* to be sent or handed over; NULL: sent */
    size_t count;
    /* local: what to call back with */
    int status;
    char *text;
    bool finished;
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

    struct table questions;
    struct question_list local; /* to be delivered by local_timer */
    struct loop_timer *local_timer;
    uint32_t last_tag;

    struct loop_timer *tick;
    uint64_t tick_due_ns; /* 0: stopped */
    uint64_t late_ns;     /* by how much the worst tick of late came after it was due */
};

/* ---- peer.c ---- */
uint64_t peer_now_ns(void);
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

/* ---- peer_state.c ---- */
bool peer_may(enum peer_state from, enum peer_state to);
const char *peer_state_name(enum peer_state state);
/* The one place where the state changes. Down: drops the connection and fails all questions. error,
 * text: for down. */
void peer_move(struct peer *peer, enum peer_state to, int error, const char *text);
/* From idle or down: connects, unless the last attempt is too recent (-EAGAIN). */
int peer_connect(struct peer *peer);

/* ---- peer_connection.c ---- */
struct connection {
    struct peers *peers;
    struct peer *peer;               /* NULL: inbound and not greeted */
    struct connection *next, **link; /* in peers->ungreeted, else link is NULL */
    struct stream *stream;
    bool ours;            /* made by us */
    bool accepted;        /* their hello was good: we have said so */
    bool refused;         /* stays only until our words are out */
    bool broken;          /* its queue is full: the next tick ends it */
    uint64_t deadline_ns; /* until it is greeted */
    char from[96];
    uint64_t heartbeat_key[2]; /* that we have given them */
    uint64_t incarnation;      /* from their hello */
    Tca__Message *hello;       /* theirs, until it is up */
};
int connection_connect(struct peer *peer, const struct sockaddr *address, socklen_t address_bytes);
void connection_accepted(void *context, int fd, const char *from);
/* Only frees: whose connection it was is the caller's business. */
struct connection *connection_free(struct connection *connection);
/* 0, or the connection cannot take it (the queue is full: it is as good as dead). */
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

/* ---- peer_message.c ---- */
void connection_send_hello(struct connection *connection);
/* Before the connection is up. Takes the message over when it returns true. */
bool connection_greeting(struct connection *connection, Tca__Message *message);
/* Once it is. */
void connection_message(struct connection *connection, uint32_t tag, const Tca__Message *message);

/* ---- peer_greeting.c ---- */
/* 0, or negative and a text for both sides. expected: the peer that we have connected to, NULL:
 * anybody. */
int greeting_check(const struct peers *peers, const Tca__PeerHello *hello,
                   const struct peer *expected, char *text, size_t text_bytes);
/* Their hello has come on a connection, whose peer we know now: which of two connections stays? 0,
 * or it is refused. */
int greeting_choose(struct connection *connection, struct peer *peer, char *text,
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
void questions_expire(struct peers *peers, uint64_t now_ns);
void questions_deliver_local(void *context);
void questions_free(struct peers *peers);

/* ---- peer_resolve.c ---- */
/* Finds the address of peer->address, port; later, when it is a host name: then calls resolved().
 * At once for numbers: 1. */
int resolve_start(struct peer *peer, struct sockaddr_storage *ret_address, socklen_t *ret_bytes);
struct resolve *resolve_cancel(struct resolve *resolve);
void peer_resolved(struct peer *peer, int error, const struct sockaddr *address, socklen_t bytes,
                   const char *text);
