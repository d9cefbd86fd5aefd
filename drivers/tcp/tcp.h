/*
 * Internal to the tcp driver: its objects, and what its files know of each other.
 *
 * A connection is a socket, perhaps inside TLS, and how far its opening is (tcp_connection.c). It
 * carries what a sender sends (tcp_sender.c), what a receiver receives (tcp_receiver.c), or both:
 *
 *   who makes the connection       sender   receiver
 *   the driver, which dials        yes      -
 *   the driver, which accepts      -        yes, after the hello
 *   others, who hand it over       yes      yes
 *
 * Senders and receivers outlive connections: they know which pieces have arrived, and go on with
 * the next connection. Each points to its connection, and that to them; what one has to know of the
 * other (counts travel with pieces), it learns from the connection that they share.
 *
 * Everything belongs to the thread that polls the instance, unless it is said to be under the lock.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "drivers/credits.h"
#include "drivers/dial.h"
#include "drivers/driver.h"
#include "drivers/landings.h"
#include "drivers/mapped.h"
#include "drivers/packed.h"
#include "drivers/tcp/tcp_limits.h"
#include "drivers/tcp/tcp_wire.h"
#include "drivers/window.h"

#define TCP_MS UINT64_C(1000000)

struct bio_method_st;
struct ssl_ctx_st;
struct tcp_connection;
struct tcp_seal;

/* First in what is freed at the end of a round: events and callers of this round can still name
 * it. */
struct tcp_object {
    struct tcp_object *next_dead;
};

struct tcp_landing {
    struct packed target; /* size 0: a notification without data */
    uint32_t index, generation;
    bool notify;
    uint64_t token;
    uint64_t grant; /* of the connections that may put into it */
    bool from_one;  /* which all come from one instance */
    struct tcp_id from;
};

/* ---- connections ---- */

/* What it waits for. Which state may follow which: tcp_states[]. */
enum tcp_state {
    /* that the driver has dialled */
    TCP_CONNECTING, /* the kernel */
    TCP_SECURING,   /* TLS, if the other instance demands that */
    TCP_CHALLENGED, /* the challenge, to which it answers with a hello */
    TCP_GREETED,    /* the welcome */
    /* that the driver has accepted; in TLS in this order, in clear it says the challenge first */
    TCP_ACCEPTED,  /* the first bytes: whether it is for a pair of processes, to be handed over */
    TCP_ANSWERING, /* TLS; then it says the challenge */
    TCP_CHALLENGE, /* the hello */
    /* that were handed to the driver */
    TCP_ADOPTED, /* TLS, if the connection is to have that; then it says its welcome */
    TCP_CROSSED, /* the other end's welcome: both ends open it, at once and in the same way */

    TCP_UP,
    TCP_ENDED, /* it has no socket and no roles any more */
    TCP_STATES
};

struct tcp_state_row {
    const char *name;
    unsigned next; /* states, a bit each */
    /* While it opens, goes one state further: 0, -EAGAIN or why it must end. */
    int (*open)(struct tcp_connection *connection, uint64_t now_ns);
    /* The socket may have something to read, or room: how many pieces that has moved. */
    int (*ready)(struct tcp_connection *connection, uint64_t now_ns);
};
extern const struct tcp_state_row tcp_states[TCP_STATES];

struct tcp_connection {
    struct tcp_object object; /* first */
    enum tcp_state state;
    int fd;                /* not blocking; -1: none yet */
    struct tcp_seal *seal; /* NULL: in clear, or the kernel encrypts */
    bool kernel;
    bool readable; /* may have more; false: an event will tell */
    bool writable;
    bool ended;       /* the other end writes no more: no event will tell of what is left */
    uint64_t records; /* at least as many were sent with the connection's key */
    uint64_t read_bytes;
    struct tcp_driver *driver;
    struct tcp_sender *sender;     /* NULL: none */
    struct tcp_receiver *receiver; /* NULL: none */

    uint8_t inbox[512]; /* what has come of its first words, or of counts without a receiver */
    size_t inbox_bytes;
    /* while it opens */
    struct dial *dial;    /* CONNECTING; else NULL */
    unsigned which;       /* of the endpoints it leads to */
    uint64_t deadline_ns; /* 0: none */
    uint8_t nonce[TCP_SECRET_BYTES];
    struct sockaddr_storage from; /* accepted ones, in the listener's list */
    struct tcp_connection *next_accepted, **accepted_link;
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
    uint64_t straight_bytes; /* tcp_sender.straight_bytes when it was made */
};

struct tcp_sender {
    struct tcp_connection *connection; /* NULL: none */
    uint64_t number;                   /* random; the receiver knows it by that */
    bool known;                        /* was welcomed */
    uint64_t down_ns;   /* since when it cannot send; 0: it can, it never had to, or it waits for an
                           adopted connection to open */
    uint64_t looked_ns; /* patience.h */
    uint64_t redial_ns; /* the next attempt */
    unsigned pause_ms;  /* before that */
    uint32_t refused;   /* endpoints, a bit each, where another instance has answered */

    struct window window;            /* of struct tcp_piece; its ring: copies */
    uint64_t written;                /* pieces: window.counted <= written <= window.made */
    size_t written_bytes;            /* of piece `written`, with its head */
    unsigned unwritten;              /* pieces that are read from their source, not yet written */
    uint64_t straight_bytes;         /* of all such pieces so far */
    bool pushed;                     /* tcp_push() has written since the last round */
    uint64_t corked_ns;              /* since when pieces wait for the next round; 0: none do */
    unsigned uncorked;               /* so many further bursts are not to wait */
    uint8_t *copies;                 /* [TCP_COPIES_BYTES], a ring */
    uint8_t *staging;                /* packed bytes of piece `written` */
    uint64_t staged_from, staged_to; /* which of its bytes */
};

struct tcp_peer {
    struct tcp_object object; /* first */
    struct tcp_driver *driver;
    struct tcp_sender sender;
    /* NULL: the driver dials. Else connections are handed over, which are also this one's. */
    struct tcp_receiver *receiver;
    struct tcp_address address; /* that it dials */
    int error;                  /* it is lost */
    int failed;                 /* by its owner, who has not seen its puts end yet */
    bool told;                  /* peer_down() was called, or the owner has failed it */
    struct tcp_peer *next_active, **active_link; /* has something to do; else NULL */
};

/* ---- receiving ---- */

struct tcp_receiver {
    struct tcp_object object; /* first */
    struct tcp_driver *driver;
    struct tcp_connection *connection; /* NULL: none */
    struct tcp_id id;                  /* of the sender's instance */
    bool proven;                       /* by its own secret */
    uint64_t link;                     /* the sender's number */
    uint64_t grant; /* not 0: of connections that are handed over; a peer owns it */
    bool known;     /* has welcomed the other end */
    struct tcp_receiver *next, *previous;
    struct credits credits; /* of pieces; bytes: of the sender's copies */
    uint64_t tell_ns;       /* not later; 0: nothing is to be told */
    uint64_t down_ns;       /* since when it has no connection; 0: it has one, or a peer owns it */
    unsigned polls;         /* further rounds in which it is read without an event */
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

/* ---- the instance ---- */

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

/* None in a process's instance or a branch. */
struct tcp_listener {
    int fds[TCP_ENDPOINTS_MAX];      /* as many as the instance's address has */
    struct tcp_connection *accepted; /* that have not said hello, newest first */
    unsigned accepted_count;
    bool full;    /* of those: it does not accept */
    bool guarded; /* only admitted hosts may connect */

    pthread_mutex_t lock;
    struct tcp_admitted *admitted;
    size_t admitted_count;
    struct tcp_expected *expected;
    size_t expected_count;
    _Atomic bool shut;
};

struct tcp_driver {
    struct driver driver;       /* first */
    struct tcp_driver *trunk;   /* itself, or the instance of which it is a branch: only sends */
    struct tcp_address address; /* of a branch: the trunk's, without endpoints */
    struct tcp_listener listener;
    int epoll_fd, timer_fd;
    pid_t process;          /* that has opened it; its forked children may only release it */
    struct ssl_ctx_st *tls; /* NULL: no connection was encrypted yet */
    struct bio_method_st *seal_method;
    bool kernel_tls;   /* the kernel encrypts, where it can */
    uint64_t timer_ns; /* when it goes off; 0: off */
    struct landings landings;
    struct tcp_receiver *receivers;
    unsigned receiver_count, polled_count;
    struct tcp_peer *active;
    struct tcp_object *dead;
    unsigned rounds;
    uint64_t events_ns;      /* when they were taken last */
    _Atomic uint64_t forged; /* also by branches; any thread */
};

static inline struct tcp_driver *tcp_of(struct driver *driver)
{
    return (struct tcp_driver *)driver;
}

static inline bool tcp_same(struct tcp_id a, struct tcp_id b)
{
    return a.word[0] == b.word[0] && a.word[1] == b.word[1];
}

/* ---- tcp_driver.c ---- */

/* Without a listener. */
int tcp_instance_new(const struct driver_events *events, struct tcp_driver **ret_tcp);
void tcp_close(struct driver *driver);
int tcp_progress(struct driver *driver, unsigned budget);
void tcp_free_later(struct tcp_driver *tcp, struct tcp_object *object);

/* ---- tcp_connection.c ---- */

/* Takes over the descriptor, also when it fails. No roles yet. */
int tcp_connection_new(struct tcp_driver *tcp, int fd, enum tcp_state state,
                       struct tcp_connection **ret_connection);
/* For the sender; takes over the dial, also when it fails. */
int tcp_connection_dial(struct tcp_driver *tcp, struct dial *dial, struct tcp_sender *sender,
                        struct tcp_connection **ret_connection);
enum tcp_end {
    TCP_END_SENDER,   /* dials, and sends most */
    TCP_END_RECEIVER, /* accepts, and receives most */
    TCP_END_DIALLED,  /* the same with data both ways */
    TCP_END_ACCEPTED,
};
/* With the secret of the end that accepts. kernel: where it can, it encrypts. */
int tcp_connection_encrypt(struct tcp_connection *connection, enum tcp_end end, bool kernel,
                           const uint8_t secret[TCP_SECRET_BYTES]);
void tcp_connection_attach(struct tcp_connection *connection, struct tcp_sender *sender,
                           struct tcp_receiver *receiver);
/* What epoll says of it: how many pieces that has moved. */
int tcp_connection_event(struct tcp_connection *connection, uint32_t events, uint64_t now_ns);
/* Detaches it from its roles. */
void tcp_connection_close(struct tcp_connection *connection);
/* It has ended by itself: the same, and the roles go on as they can. */
void tcp_connection_ends(struct tcp_connection *connection, int error, uint64_t now_ns);
/* Reads and writes return bytes, -EAGAIN, or why the connection has ended (-ECONNRESET: it was
 * closed). Into the first part at least. */
ssize_t tcp_connection_read(struct tcp_connection *connection, const struct iovec *parts,
                            int count);
ssize_t tcp_connection_write(struct tcp_connection *connection, const struct iovec *parts,
                             int count);
/* Writes what was taken and is not in the socket yet: 0 when nothing is left. */
int tcp_connection_flush(struct tcp_connection *connection);
/* All of it or -EIO: for first and last words, for which the socket has room. */
int tcp_connection_say(struct tcp_connection *connection, const void *words, size_t bytes);
static inline bool tcp_is_up(const struct tcp_connection *connection)
{
    return connection && connection->state == TCP_UP;
}

/* ---- tcp_sender.c ---- */

void tcp_sender_init(struct tcp_sender *sender);
void tcp_sender_deinit(struct tcp_sender *sender);
/* Dials, writes what is there, and takes counts: how many pieces were written or counted. */
int tcp_sender_work(struct tcp_peer *peer, uint64_t now_ns);
/* Has no connection any more. */
void tcp_sender_down(struct tcp_peer *peer, uint64_t now_ns);
/* Its connection has ended by itself: whoever hands over connections is told. -ENETRESET: the
 * receiver has forgotten what it had received. */
void tcp_sender_lost(struct tcp_sender *sender, int error, uint64_t now_ns);
/* Pieces, or why the connection has ended. */
int tcp_sender_write(struct tcp_sender *sender);
/* The receiver of the connection has got this from the other end. */
int tcp_sender_take(struct tcp_sender *sender, const struct tcp_head *head);
/* The receiver at the other end has welcomed it and counted so many pieces: the rest goes (again).
 * -ENETRESET: it has forgotten some. -EPROTO. */
int tcp_sender_welcomed(struct tcp_sender *sender, const struct tcp_welcome *welcome);
/* When it has something to do without an event; 0: never. */
uint64_t tcp_sender_due_ns(const struct tcp_peer *peer);
int tcp_put_prepare(struct driver *driver, const struct driver_put_args *args,
                    struct driver_put **ret_put, struct driver_put_info *ret_info);
void tcp_put_release(struct driver *driver, struct driver_put *put);
void tcp_put_part(struct driver *driver, struct driver_put *put, const struct driver_part *part);
int tcp_put_post(struct driver *driver, struct driver_put *put, struct driver_op *op);
/* Makes pieces of the puts that wait, as far as there is room. */
int tcp_puts_pump(struct tcp_peer *peer, unsigned budget);

/* ---- tcp_receiver.c ---- */

/* Without a connection. NULL: too many, or no memory. */
struct tcp_receiver *tcp_receiver_new(struct tcp_driver *tcp, uint64_t grant);
/* For the sender that has said this, the old one or a new one. NULL: too many. */
struct tcp_receiver *tcp_receiver_of(struct tcp_driver *tcp, const struct tcp_hello *hello,
                                     bool *ret_known);
/* A landing was made that receivers may have waited for. */
void tcp_receivers_resume(struct tcp_driver *tcp);
/* How many pieces were received. */
int tcp_receiver_read(struct tcp_receiver *receiver, uint64_t now_ns);
/* In the next rounds it is read without an event. */
void tcp_receiver_poll(struct tcp_receiver *receiver);
/* Reads those. */
int tcp_receivers_poll(struct tcp_driver *tcp, uint64_t now_ns);
/* Its connection is gone; what it has received is remembered, for the next one. */
void tcp_receiver_reset(struct tcp_receiver *receiver);
void tcp_receiver_free(struct tcp_receiver *receiver);
void tcp_receivers_drop(struct tcp_driver *tcp, struct tcp_id id);
/* Tells what is to be told, forgets who has not come back. */
void tcp_receivers_expire(struct tcp_driver *tcp, uint64_t now_ns);
/* When that is to be called next; 0: not. */
uint64_t tcp_receiver_due_ns(const struct tcp_receiver *receiver);
/* Tells the sender how much it has received; an error ends the connection. */
void tcp_receiver_tell(struct tcp_receiver *receiver, uint64_t now_ns);
/* Whether a receiver has something to tell, between two pieces of the sender with which it shares
 * its connection. NULL: no. */
static inline bool tcp_receiver_unsent(const struct tcp_receiver *receiver)
{
    return receiver && (receiver->outbox_bytes > 0 || receiver->due);
}
/* Call before its outbox is written: adds a count that is due, or will be soon and would then cost
 * a message of its own. */
void tcp_receiver_join(struct tcp_receiver *receiver);
/* So many bytes of the outbox were written. */
void tcp_receiver_sent(struct tcp_receiver *receiver, size_t bytes);

/* ---- tcp_listener.c ---- */

int tcp_probe(const struct driver_config *config, struct driver_caps *ret_caps);
int tcp_open(const struct driver_config *config, const struct driver_events *events,
             struct driver **ret_driver);
void tcp_listener_deinit(struct tcp_driver *tcp);
void tcp_listener_accept(struct tcp_driver *tcp, uint64_t now_ns);
/* Takes the connection off the list of those that have not said hello. */
void tcp_listener_forget(struct tcp_driver *tcp, struct tcp_connection *connection);
void tcp_listener_expire(struct tcp_driver *tcp, uint64_t now_ns);
/* Whether the instance that has said this to the connection may connect. *ret_proven: by its own
 * secret, of which its daemon has told us. */
bool tcp_listener_admits(struct tcp_driver *tcp, const struct tcp_connection *connection,
                         const struct tcp_hello *hello, bool *ret_proven);
/* Whether the connection that opens with this is expected; a secret is good for one. */
bool tcp_listener_expects(struct tcp_driver *tcp, const struct tcp_pair_hello *hello);
int tcp_admit(struct driver *driver, const void *address, size_t address_bytes, bool come);
void tcp_shut(struct driver *driver, bool shut);
void tcp_door(const struct driver *driver, struct driver_door *ret_door);
int tcp_pair_expect(struct driver *driver, uint64_t pair, const uint8_t secret[PAIR_SECRET_BYTES]);
void tcp_pair_forget(struct driver *driver, uint64_t pair);

/* ---- tcp_dial.c ---- */

/* To its endpoints, but for some, a bit each. */
int tcp_dial(const struct tcp_address *address, uint32_t skip, struct dial **ret_dial);
struct address tcp_endpoint_address(const struct tcp_endpoint *endpoint);
int tcp_pair_dial(struct driver *driver, const void *address, size_t address_bytes, uint64_t pair,
                  const uint8_t secret[PAIR_SECRET_BYTES], uint64_t timeout_ns, bool *ret_encrypts);

/* ---- tcp_peer.c ---- */

/* Whether it is one that can be connected to. */
bool tcp_address_read(const void *bytes, size_t count, struct tcp_address *ret_address);
bool tcp_encrypts(const void *address, size_t address_bytes);
int tcp_peer_connect(struct driver *driver, const void *address, size_t address_bytes,
                     struct driver_peer **ret_peer, void *ret_offer, size_t *ret_offer_bytes);
void tcp_peer_disconnect(struct driver *driver, struct driver_peer *peer);
void tcp_peer_fail(struct driver *driver, struct driver_peer *peer, int error);
int tcp_peer_flush(struct driver *driver, struct driver_peer *peer, struct driver_op *op);
/* Each has something to do in the next round. */
void tcp_peer_activate(struct tcp_peer *peer);
void tcp_peer_deactivate(struct tcp_peer *peer);
/* The peer is lost: puts in flight complete with the error. */
void tcp_peer_lose(struct tcp_peer *peer, int error);
static inline struct tcp_peer *tcp_peer_of(const struct tcp_sender *sender)
{
    return (struct tcp_peer *)((char *)sender - offsetof(struct tcp_peer, sender));
}

/* ---- tcp_landing.c ---- */

int tcp_landing_new(struct driver *driver, const struct driver_landing_args *args,
                    struct driver_landing **ret_landing, void *ret_blob, size_t *ret_blob_bytes);
void tcp_landing_free(struct driver *driver, struct driver_landing *landing);
uint64_t tcp_landing_bytes(const struct driver_landing *landing);

/* ---- tcp_seal.c: TLS on a socket; results as those of connections ---- */

int tcp_seal_method_new(struct bio_method_st **ret_method);
int tcp_seal_new(const struct tcp_driver *tcp, int fd, enum tcp_end end, bool kernel,
                 const uint8_t secret[TCP_SECRET_BYTES], struct tcp_seal **ret_seal);
void tcp_seal_free(struct tcp_seal *seal);
/* 1: it is over, and the kernel has the connection, which is written and read in clear; the seal is
 * to be freed. */
int tcp_seal_handshake(struct tcp_seal *seal);
ssize_t tcp_seal_read(struct tcp_seal *seal, const struct iovec *parts, int count);
/* Whether another read can find something. */
bool tcp_seal_has_more(const struct tcp_seal *seal);
/* What it returns was taken; the socket may not have had room for all of it. */
ssize_t tcp_seal_write(struct tcp_seal *seal, const struct iovec *parts, int count);
bool tcp_seal_has_unsent(const struct tcp_seal *seal);
/* Writes what the socket had no room for: 0 when nothing is left. */
int tcp_seal_flush(struct tcp_seal *seal);

/* ---- tcp_tls.c: random numbers and signatures ---- */

int tcp_random(void *bytes, size_t count);
struct tcp_signature {
    uint8_t bytes[TCP_SECRET_BYTES];
};
struct tcp_signature tcp_sign_hello(const uint8_t secret[TCP_SECRET_BYTES],
                                    const uint8_t challenge[TCP_SECRET_BYTES],
                                    const struct tcp_hello *hello);
struct tcp_signature tcp_sign_welcome(const uint8_t secret[TCP_SECRET_BYTES],
                                      const uint8_t nonce[TCP_SECRET_BYTES],
                                      const struct tcp_welcome *welcome);
struct tcp_signature tcp_sign_pair(const uint8_t secret[TCP_SECRET_BYTES],
                                   const struct tcp_pair_hello *hello);
bool tcp_signed(const uint8_t by[TCP_SECRET_BYTES], const struct tcp_signature *signature);
