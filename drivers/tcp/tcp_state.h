/* What an instance of the tcp driver consists of. Everything belongs to the thread that polls it,
 * unless it is said to be under the lock. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "drivers/credits.h"
#include "drivers/driver.h"
#include "drivers/landings.h"
#include "drivers/packed.h"
#include "drivers/tcp/tcp_limits.h"
#include "drivers/tcp/tcp_wire.h"
#include "drivers/window.h"

struct bio_method_st;
struct ssl_ctx_st;
struct tcp_seal;
struct iovec;

enum tcp_role { TCP_LISTENER, TCP_TIMER, TCP_OPENING, TCP_LINK, TCP_SOURCE, TCP_DEAD };

/* A non-blocking socket, perhaps with TLS. First in whatever epoll knows. */
struct tcp_stream {
    enum tcp_role role;
    int fd;                /* -1: none */
    struct tcp_seal *seal; /* NULL: in clear, or the kernel encrypts */
    bool kernel;
    uint64_t records; /* at least as many were sent with the connection's key */
    bool readable;    /* may have more; false: an event will tell */
    bool writable;
    bool ended; /* the other end writes no more: no event will tell of what is left */
    struct tcp_stream *next_dead;
};

struct tcp_region {
    uint8_t *base;
    uint64_t length_bytes;
    void (*gone)(void *context); /* struct driver_memory */
    void *context;
};

struct tcp_landing {
    struct packed target; /* size 0: a notification without data */
    uint32_t index, generation;
    bool notify, numbered; /* numbered: by tcp_seat_landing() */
    uint64_t token;
    uint64_t grant; /* of the connections that may put into it */
    bool from_one;  /* which all come from one instance */
    struct tcp_id from;
};

/* ---- sending ---- */

struct tcp_put {
    struct window_put base; /* first */
    struct tcp_peer *peer;
    struct packed source;
    uint32_t landing, generation;
    bool copied; /* at most TCP_INLINE_BYTES */
};

/* A piece that was made and is not yet counted. */
struct tcp_piece {
    struct window_piece base; /* first */
    struct tcp_head head;
    bool copied; /* its bytes are in the copies, and its put completes when it is written */
};

enum tcp_link_state {
    TCP_LINK_IDLE,       /* was never needed */
    TCP_LINK_CONNECTING, /* TCP unless it was adopted, then TLS; adopted: then says its welcome */
    TCP_LINK_CHALLENGED, /* waits for the challenge */
    TCP_LINK_GREETING,   /* waits for the welcome */
    TCP_LINK_UP,
    TCP_LINK_BROKEN, /* until retry_ns, or until it is given another connection */
};

struct tcp_link {
    struct tcp_stream own;     /* first */
    struct tcp_stream *stream; /* own, or that of the peer's source */
    enum tcp_link_state state;
    uint64_t number; /* random */
    bool known;      /* was welcomed */
    /* broken_ns: since then it is; 0: it is up, idle, or was adopted and opens. retry_ns: 0: never */
    uint64_t retry_ns, broken_ns;
    uint64_t looked_ns; /* patience.h */
    unsigned retry_ms;
    uint8_t nonce[TCP_SECRET_BYTES], challenge[TCP_SECRET_BYTES];
    uint8_t inbox[512]; /* what arrives: a challenge, a welcome, heads */
    size_t inbox_bytes;

    struct window window;            /* of struct tcp_piece; its ring: copies */
    uint64_t written;                /* pieces: window.counted <= written <= window.made */
    size_t written_bytes;            /* of piece `written`, with its head */
    unsigned unwritten;              /* pieces that are read from their source, not yet written */
    uint64_t telling;                /* a piece made has TCP_TELL: a count up to here comes */
    bool ask;                        /* a count of all that was made is wanted */
    bool pushed;                     /* tcp_push() has written since the last round */
    uint64_t kept_ns;                /* since then it keeps pieces; 0: it does not */
    unsigned hurry;                  /* bursts that it is not to keep */
    uint8_t *copies;                 /* [TCP_COPIES_BYTES], a ring */
    uint8_t *staging;                /* packed bytes of piece `written` */
    uint64_t staged_from, staged_to; /* which of its bytes */
};

struct tcp_peer {
    struct tcp_link link; /* first */
    struct tcp_driver *driver;
    struct tcp_address address; /* with a source: the secret alone, of their connection */
    /* NULL, or what the peer puts to us: both share connections that are given to them (adopt.h) */
    struct tcp_source *source;
    int error;  /* it is lost */
    int failed; /* by its owner, who has not seen its puts end yet */
    bool told;  /* peer_down() was called, or the owner has failed it */
    struct tcp_peer *next_active, **active_link; /* has something to do; else NULL */
};

/* ---- receiving ---- */

/* A connection that has not said hello yet. */
struct tcp_opening {
    struct tcp_stream stream; /* first */
    struct tcp_opening *next, *previous;
    struct sockaddr_storage from;
    bool greeted; /* the challenge has been sent */
    bool no_pair; /* it is not for a pair of processes */
    uint64_t deadline_ns;
    uint8_t nonce[TCP_SECRET_BYTES];
    uint8_t inbox[sizeof(struct tcp_hello)];
    size_t inbox_bytes;
};

struct tcp_source {
    struct tcp_stream stream; /* first; fd -1: its connection is broken */
    struct tcp_id id;         /* of the sender */
    bool proven;              /* by the sender's own secret */
    uint64_t link;            /* of it */
    struct tcp_peer *peer;    /* that it shares connections with; else NULL, and grant is 0 */
    uint64_t grant;
    bool known; /* has said its welcome to that peer */
    struct tcp_source *next, *previous;
    struct credits credits; /* of pieces; bytes: of the sender's copies */
    uint64_t tell_ns;       /* not later; 0: nothing is to be told */
    uint64_t broken_ns;     /* since then without a connection */
    unsigned hot;           /* rounds */
    struct tcp_head head;   /* of the piece that is being received */
    bool held;              /* what comes next is for a landing that is still to be made */
    bool in_piece;
    uint32_t piece_bytes; /* received of it */
    bool long_piece;      /* it, or the last one: received straight into its target */
    uint8_t *buffer;      /* [TCP_RECEIVE_BYTES] */
    uint32_t begin, end;  /* what is in it */
    uint8_t *outbox;      /* [TCP_OUTBOX_BYTES], heads on their way back */
    size_t outbox_bytes;
    bool telling; /* a count is among them */
    bool due;     /* a count is to be added */
};

/* An instance that may connect; under the lock. */
struct tcp_admitted {
    struct tcp_address address;
    unsigned times;
};

/* A connection that is to come for a process; under the lock. */
struct tcp_expected {
    uint64_t pair;
    uint8_t secret[TCP_SECRET_BYTES];
};

struct tcp_driver {
    struct driver driver; /* first */
    struct tcp_address address;
    int epoll_fd, timer_fd;
    struct tcp_stream listener, timer; /* listener: none in a process's instance */
    struct ssl_ctx_st *tls;            /* NULL: no connection was encrypted yet */
    struct bio_method_st *seal_method;
    bool guarded;
    bool kernel_tls;   /* the kernel encrypts, where it can */
    uint64_t timer_ns; /* when it goes off; 0: off */
    struct landings landings;
    uint32_t landing_last;        /* a process's instance: the newest generation (adopt.h) */
    struct tcp_opening *openings; /* newest first */
    unsigned opening_count;
    bool full; /* of openings: it does not accept */
    struct tcp_source *sources;
    unsigned source_count, hot_count;
    struct tcp_peer *active;
    struct tcp_stream
        *dead; /* freed at the end of the round, which may still have events of them */
    unsigned rounds;
    uint64_t polled_ns; /* when events were taken last */

    pthread_mutex_t lock;
    struct tcp_admitted *admitted;
    size_t admitted_count;
    struct tcp_expected *expected;
    size_t expected_count;
    _Atomic bool shut;
    _Atomic uint64_t forged;
};

static inline struct tcp_piece *tcp_piece(const struct tcp_link *link, uint64_t number)
{
    return (struct tcp_piece *)window_piece(&link->window, number);
}

static inline struct tcp_driver *tcp_of(struct driver *driver)
{
    return (struct tcp_driver *)driver;
}
