/* Connections: the socket, the states in which it opens, and its end. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "drivers/tcp/adopt.h"
#include "drivers/tcp/tcp.h"
#include "drivers/tcp/tcp_tls.h"

/* ---- life ---- */

static int watch(struct tcp_connection *connection, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = connection};
    return epoll_ctl(connection->driver->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

/* Takes over the descriptor if that succeeds. */
static int set_socket(struct tcp_connection *connection, int fd)
{
    const int one = 1, flags = fcntl(fd, F_GETFL);
    int r = flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0
                ? -errno
                : watch(connection, fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
    if (r < 0)
        return r;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    connection->fd = fd;
    return 0;
}

static struct tcp_connection *create(struct tcp_driver *tcp, enum tcp_state state)
{
    struct tcp_connection *connection = calloc(1, sizeof(*connection));
    if (connection) {
        connection->driver = tcp;
        connection->fd = -1;
        connection->state = state;
    }
    return connection;
}

int tcp_connection_new(struct tcp_driver *tcp, int fd, enum tcp_state state,
                       struct tcp_connection **ret_connection)
{
    struct tcp_connection *connection = create(tcp, state);
    int r = connection ? set_socket(connection, fd) : -ENOMEM;
    if (r < 0) {
        free(connection);
        close(fd);
        return r;
    }
    *ret_connection = connection;
    return 0;
}

int tcp_connection_dial(struct tcp_driver *tcp, struct dial *dial, struct tcp_sender *sender,
                        struct tcp_connection **ret_connection)
{
    struct tcp_connection *connection = create(tcp, TCP_CONNECTING);
    int r = connection ? watch(connection, dial_fd(dial), EPOLLIN) : -ENOMEM;
    if (r < 0) {
        free(connection);
        dial_free(dial);
        return r;
    }
    connection->dial = dial;
    tcp_connection_attach(connection, sender, NULL);
    *ret_connection = connection;
    return 0;
}

int tcp_connection_encrypt(struct tcp_connection *connection, enum tcp_end end, bool kernel,
                           const uint8_t secret[TCP_SECRET_BYTES])
{
    struct tcp_driver *tcp = connection->driver;
    int r = tcp->tls ? 0 : tcp_tls_new(&tcp->tls);
    if (r == 0 && !tcp->seal_method)
        r = tcp_seal_method_new(&tcp->seal_method);
    return r < 0 ? r : tcp_seal_new(tcp, connection->fd, end, kernel, secret, &connection->seal);
}

void tcp_connection_attach(struct tcp_connection *connection, struct tcp_sender *sender,
                           struct tcp_receiver *receiver)
{
    connection->sender = sender;
    connection->receiver = receiver;
    if (sender)
        sender->connection = connection;
    if (receiver)
        receiver->connection = connection;
}

static void enter(struct tcp_connection *connection, enum tcp_state state)
{
    assert(tcp_states[connection->state].next & 1u << state);
    connection->state = state;
}

/* The socket, taken out of the instance: if another process has it, too, events would go on. But a
 * forked child shares the instance's epoll with its parent, which goes on. */
static int release_socket(struct tcp_connection *connection)
{
    struct tcp_driver *tcp = connection->driver;
    const int fd = connection->fd;
    if (fd >= 0 && tcp->process == getpid())
        epoll_ctl(tcp->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
    connection->dial = dial_free(connection->dial);
    connection->seal = (tcp_seal_free(connection->seal), NULL);
    connection->fd = -1;
    if (connection->accepted_link)
        tcp_listener_forget(tcp, connection);
    enter(connection, TCP_ENDED);
    tcp_free_later(tcp, &connection->object);
    return fd;
}

void tcp_connection_close(struct tcp_connection *connection)
{
    struct tcp_sender *sender = connection->sender;
    struct tcp_receiver *receiver = connection->receiver;
    const int fd = release_socket(connection);
    if (fd >= 0)
        close(fd);
    connection->sender = NULL;
    connection->receiver = NULL;
    if (sender)
        sender->connection = NULL;
    if (receiver) {
        receiver->connection = NULL;
        tcp_receiver_reset(receiver);
    }
}

void tcp_connection_ends(struct tcp_connection *connection, int error, uint64_t now_ns)
{
    struct tcp_sender *sender = connection->sender;
    struct tcp_receiver *receiver = connection->receiver;
    const bool dialled = connection->state <= TCP_GREETED;
    if (sender)
        sender->refused = dialled && connection->state != TCP_CONNECTING
                              ? sender->refused | 1u << connection->which
                              : 0;
    if (!dialled && (error == -EPROTO || error == -EACCES))
        atomic_fetch_add_explicit(&connection->driver->trunk->forged, 1, memory_order_relaxed);
    tcp_connection_close(connection);
    if (receiver && receiver->grant == 0)
        receiver->down_ns = now_ns;
    if (sender)
        tcp_sender_lost(sender, error, now_ns);
}

/* ---- reading and writing ---- */

static int handshake(struct tcp_connection *connection)
{
    int r = connection->seal ? tcp_seal_handshake(connection->seal) : 0;
    if (r <= 0)
        return r;
    connection->seal = (tcp_seal_free(connection->seal), NULL);
    connection->kernel = true;
    return 0;
}

static bool is_full(int error)
{
    return error == EAGAIN || error == EWOULDBLOCK;
}

/* What the kernel says of a record that was not sealed with our key, or carries no data of ours. */
static int failure(const struct tcp_connection *connection, int error)
{
    const bool record = error == EBADMSG || error == EMSGSIZE || error == EINVAL || error == EIO;
    return connection->kernel && record ? -EPROTO : -error;
}

/* Less than was asked for is all that there is, unless the end is behind it. */
static ssize_t read_clear(struct tcp_connection *connection, const struct iovec *parts, int count)
{
    struct msghdr message = {.msg_iov = (struct iovec *)parts, .msg_iovlen = (size_t)count};
    size_t room = 0;
    ssize_t n;
    for (int i = 0; i < count; i++)
        room += parts[i].iov_len;
    do
        n = recvmsg(connection->fd, &message, 0);
    while (n < 0 && errno == EINTR);
    connection->readable = n == (ssize_t)room || (n > 0 && connection->ended);
    if (n > 0)
        return n;
    if (n == 0)
        return -ECONNRESET;
    return is_full(errno) ? -EAGAIN : failure(connection, errno);
}

ssize_t tcp_connection_read(struct tcp_connection *connection, const struct iovec *parts, int count)
{
    ssize_t n;
    if (connection->seal) {
        n = tcp_seal_read(connection->seal, parts, count);
        connection->readable = n > 0 && (connection->ended || tcp_seal_has_more(connection->seal));
    } else {
        n = read_clear(connection, parts, count);
    }
    connection->read_bytes += n > 0 ? (uint64_t)n : 0;
    return n;
}

static ssize_t write_clear(struct tcp_connection *connection, const struct iovec *parts, int count)
{
    const struct msghdr message = {.msg_iov = (struct iovec *)parts, .msg_iovlen = (size_t)count};
    ssize_t n;
    do
        n = sendmsg(connection->fd, &message, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    connection->writable = n >= 0 || !is_full(errno);
    return n >= 0 ? n : is_full(errno) ? -EAGAIN : -errno;
}

/* A key seals so many records and no more. There is no key update: another connection, with another
 * key, takes this one's place. */
ssize_t tcp_connection_write(struct tcp_connection *connection, const struct iovec *parts,
                             int count)
{
    struct tcp_seal *seal = connection->seal;
    ssize_t n = connection->records > TCP_KEY_RECORDS ? -EKEYEXPIRED
                : seal                                ? tcp_seal_write(seal, parts, count)
                                                      : write_clear(connection, parts, count);
    if (seal)
        connection->writable = n >= 0 && !tcp_seal_has_unsent(seal);
    if (n > 0 && (seal || connection->kernel))
        connection->records += (uint64_t)n / TCP_RECORD_BYTES + 1;
    return n;
}

int tcp_connection_flush(struct tcp_connection *connection)
{
    int r = connection->seal ? tcp_seal_flush(connection->seal) : 0;
    connection->writable &= r == 0;
    return r;
}

int tcp_connection_say(struct tcp_connection *connection, const void *words, size_t bytes)
{
    const struct iovec part = {(void *)words, bytes};
    return tcp_connection_write(connection, &part, 1) == (ssize_t)bytes && connection->writable
               ? 0
               : -EIO;
}

/* So many bytes, all of them: 0, -EAGAIN or why not. */
static int hear(struct tcp_connection *connection, void *ret_words, size_t bytes)
{
    while (connection->inbox_bytes < bytes) {
        const struct iovec part = {connection->inbox + connection->inbox_bytes,
                                   bytes - connection->inbox_bytes};
        ssize_t n = tcp_connection_read(connection, &part, 1);
        if (n < 0)
            return (int)n;
        connection->inbox_bytes += (size_t)n;
    }
    memcpy(ret_words, connection->inbox, bytes);
    connection->inbox_bytes = 0;
    return 0;
}

/* ---- opening: that we have dialled ---- */

static int connected(struct tcp_connection *connection, uint64_t now_ns)
{
    const struct tcp_address *address = &tcp_peer_of(connection->sender)->address;
    int fd = dial_step(connection->dial, now_ns, &connection->which);
    if (fd < 0)
        return fd;
    connection->dial = dial_free(connection->dial);
    int r = set_socket(connection, fd);
    if (r < 0) {
        close(fd);
        return r;
    }
    enter(connection, TCP_SECURING);
    return address->encrypts
               ? tcp_connection_encrypt(connection, TCP_END_SENDER, connection->driver->kernel_tls,
                                        address->secret)
               : 0;
}

static int secured(struct tcp_connection *connection, uint64_t now_ns)
{
    int r = handshake(connection);
    if (r == 0)
        enter(connection, TCP_CHALLENGED);
    return r;
}

static int take_challenge(struct tcp_connection *connection, uint64_t now_ns)
{
    const struct tcp_sender *sender = connection->sender;
    const struct tcp_peer *peer = tcp_peer_of(sender);
    const struct tcp_address *own = &connection->driver->address;
    struct tcp_challenge challenge;
    struct tcp_hello hello = {.magic = TCP_HELLO_MAGIC,
                              .version = TCP_WIRE_VERSION,
                              .known = sender->known,
                              .id = own->id,
                              .link = sender->number};
    int r = hear(connection, &challenge, sizeof(challenge));
    if (r == 0 && (challenge.magic != TCP_CHALLENGE_MAGIC || challenge.version != TCP_WIRE_VERSION))
        r = -EPROTO;
    if (r == 0)
        r = tcp_random(connection->nonce, sizeof(connection->nonce));
    if (r < 0)
        return r;
    memcpy(hello.nonce, connection->nonce, sizeof(hello.nonce));
    const struct tcp_signature listener =
                                   tcp_sign_hello(peer->address.secret, challenge.nonce, &hello),
                               sends = tcp_sign_hello(own->secret, challenge.nonce, &hello);
    memcpy(hello.by_listener, listener.bytes, sizeof(hello.by_listener));
    memcpy(hello.by_sender, sends.bytes, sizeof(hello.by_sender));
    enter(connection, TCP_GREETED);
    return tcp_connection_say(connection, &hello, sizeof(hello));
}

/* Of both kinds: proven: that it is signed need not be checked. */
static int take_welcome(struct tcp_connection *connection, bool proven)
{
    struct tcp_sender *sender = connection->sender;
    struct tcp_welcome welcome;
    int r = hear(connection, &welcome, sizeof(welcome));
    if (r < 0)
        return r;
    const struct tcp_signature signature =
        tcp_sign_welcome(tcp_peer_of(sender)->address.secret, connection->nonce, &welcome);
    if (welcome.magic != TCP_WELCOME_MAGIC ||
        (!proven && !tcp_signed(welcome.by_listener, &signature)))
        return -EPROTO;
    enter(connection, TCP_UP);
    return tcp_sender_welcomed(sender, &welcome);
}

/* This endpoint is the first that will be tried. */
static void prefer(struct tcp_connection *connection)
{
    struct tcp_endpoint *endpoints = tcp_peer_of(connection->sender)->address.endpoints;
    const struct tcp_endpoint first = endpoints[0];
    endpoints[0] = endpoints[connection->which];
    endpoints[connection->which] = first;
    connection->which = 0;
}

static int welcomed(struct tcp_connection *connection, uint64_t now_ns)
{
    int r = take_welcome(connection, false);
    if (r == 0 && connection->sender) /* else its owner has given the peer up */
        prefer(connection);
    return r;
}

/* ---- opening: that we have accepted ---- */

/* A connection for a pair of processes opens in clear, with the name of the pair, signed with its
 * secret. It leaves the instance before anything is read behind that. */
static int hand_over(struct tcp_connection *connection)
{
    struct tcp_driver *tcp = connection->driver;
    const struct driver_events *events = &tcp->driver.events;
    struct tcp_pair_hello hello;
    if (recv(connection->fd, &hello, sizeof(hello), 0) != sizeof(hello))
        return -EIO;
    const int fd = release_socket(connection);
    events->paired(events->context, hello.pair, fd, tcp->address.encrypts);
    return 0;
}

static int answered(struct tcp_connection *connection, uint64_t now_ns)
{
    struct tcp_challenge challenge = {.magic = TCP_CHALLENGE_MAGIC, .version = TCP_WIRE_VERSION};
    int r = handshake(connection);
    if (r < 0)
        return r;
    memcpy(challenge.nonce, connection->nonce, sizeof(challenge.nonce));
    enter(connection, connection->driver->address.encrypts ? TCP_CHALLENGE : TCP_ACCEPTED);
    return tcp_connection_say(connection, &challenge, sizeof(challenge));
}

static int tell_apart(struct tcp_connection *connection, uint64_t now_ns)
{
    struct tcp_driver *tcp = connection->driver;
    struct tcp_pair_hello hello;
    ssize_t n = recv(connection->fd, &hello, sizeof(hello), MSG_PEEK);
    if (n < 0)
        return errno == EINTR || is_full(errno) ? -EAGAIN : -errno;
    if (n == 0)
        return -ECONNRESET;
    if (n < (ssize_t)sizeof(hello.magic))
        return -EAGAIN;
    if (hello.magic != TCP_PAIR_MAGIC) {
        enter(connection, tcp->address.encrypts ? TCP_ANSWERING : TCP_CHALLENGE);
        return 0;
    }
    if (n < (ssize_t)sizeof(hello))
        return -EAGAIN;
    if (hello.version != TCP_WIRE_VERSION || hello.zero != 0 || !tcp->driver.events.paired ||
        !tcp_listener_expects(tcp, &hello))
        return -EACCES;
    return hand_over(connection);
}

static struct tcp_welcome welcome_of(const struct tcp_receiver *receiver, bool known)
{
    return (struct tcp_welcome){
        .magic = TCP_WELCOME_MAGIC, .known = known, .received = receiver->credits.counted};
}

/* -EACCES: whoever it is does not know our secret. */
static int take_hello(struct tcp_connection *connection, uint64_t now_ns)
{
    struct tcp_driver *tcp = connection->driver;
    struct tcp_hello hello;
    bool proven = false, known;
    int r = hear(connection, &hello, sizeof(hello));
    if (r < 0)
        return r;
    const struct tcp_signature signature =
        tcp_sign_hello(tcp->address.secret, connection->nonce, &hello);
    if (hello.magic != TCP_HELLO_MAGIC || hello.version != TCP_WIRE_VERSION || hello.known > 1 ||
        !tcp_signed(hello.by_listener, &signature) ||
        !tcp_listener_admits(tcp, connection, &hello, &proven))
        return -EACCES;
    struct tcp_receiver *receiver = tcp_receiver_of(tcp, &hello, &known);
    if (!receiver)
        return -ENOBUFS;
    if (receiver->connection)
        tcp_connection_close(receiver->connection);
    receiver->proven = proven;
    receiver->down_ns = 0;
    tcp_listener_forget(tcp, connection);
    tcp_connection_attach(connection, NULL, receiver);
    enter(connection, TCP_UP);
    struct tcp_welcome welcome = welcome_of(receiver, known);
    const struct tcp_signature own = tcp_sign_welcome(tcp->address.secret, hello.nonce, &welcome);
    memcpy(welcome.by_listener, own.bytes, sizeof(welcome.by_listener));
    return tcp_connection_say(connection, &welcome, sizeof(welcome));
}

/* ---- opening: that we were given ---- */

static int adopted(struct tcp_connection *connection, uint64_t now_ns)
{
    struct tcp_receiver *receiver = connection->receiver;
    int r = handshake(connection);
    if (r < 0)
        return r;
    const struct tcp_welcome welcome = welcome_of(receiver, receiver->known);
    receiver->known = true;
    enter(connection, TCP_CROSSED);
    return tcp_connection_say(connection, &welcome, sizeof(welcome));
}

/* Whoever has handed it over knows both ends. */
static int crossed(struct tcp_connection *connection, uint64_t now_ns)
{
    return take_welcome(connection, true);
}

/* ---- what has come ---- */

/* For both directions. */
static int ready(struct tcp_connection *connection, uint64_t now_ns)
{
    int moved = 0;
    if (connection->sender) {
        struct tcp_peer *peer = tcp_peer_of(connection->sender);
        tcp_peer_activate(peer);
        moved += tcp_sender_work(peer, now_ns);
    }
    struct tcp_receiver *receiver = connection->receiver; /* NULL: it has ended */
    if (!receiver)
        return moved;
    if (!connection->sender && (receiver->outbox_bytes > 0 || tcp_connection_flush(connection) < 0))
        tcp_receiver_tell(receiver, now_ns);
    return moved + (receiver->connection ? tcp_receiver_read(receiver, now_ns) : 0);
}

#define MAY(state) (1u << (state))

const struct tcp_state_row tcp_states[TCP_STATES] = {
    [TCP_CONNECTING] = {"connecting", MAY(TCP_SECURING) | MAY(TCP_ENDED), connected, NULL},
    [TCP_SECURING] = {"securing", MAY(TCP_CHALLENGED) | MAY(TCP_ENDED), secured, NULL},
    [TCP_CHALLENGED] = {"challenged", MAY(TCP_GREETED) | MAY(TCP_ENDED), take_challenge, NULL},
    [TCP_GREETED] = {"greeted", MAY(TCP_UP) | MAY(TCP_ENDED), welcomed, NULL},
    [TCP_ACCEPTED] = {"accepted", MAY(TCP_ANSWERING) | MAY(TCP_CHALLENGE) | MAY(TCP_ENDED),
                      tell_apart, NULL},
    [TCP_ANSWERING] = {"answering", MAY(TCP_ACCEPTED) | MAY(TCP_CHALLENGE) | MAY(TCP_ENDED),
                       answered, NULL},
    [TCP_CHALLENGE] = {"challenge", MAY(TCP_UP) | MAY(TCP_ENDED), take_hello, NULL},
    [TCP_ADOPTED] = {"adopted", MAY(TCP_CROSSED) | MAY(TCP_ENDED), adopted, NULL},
    [TCP_CROSSED] = {"crossed", MAY(TCP_UP) | MAY(TCP_ENDED), crossed, NULL},
    [TCP_UP] = {"up", MAY(TCP_ENDED), NULL, ready},
    [TCP_ENDED] = {"ended", 0, NULL, NULL},
};

int tcp_connection_event(struct tcp_connection *connection, uint32_t events, uint64_t now_ns)
{
    int r = 0;
    connection->readable |= (events & ~(uint32_t)EPOLLOUT) != 0;
    connection->ended |= (events & (EPOLLRDHUP | EPOLLERR | EPOLLHUP)) != 0;
    connection->writable |= (events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) != 0;
    while (r == 0 && tcp_states[connection->state].open)
        r = tcp_states[connection->state].open(connection, now_ns);
    if (r < 0 && r != -EAGAIN)
        tcp_connection_ends(connection, r, now_ns);
    return tcp_states[connection->state].ready
               ? tcp_states[connection->state].ready(connection, now_ns)
               : 0;
}
