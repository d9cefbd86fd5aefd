/*
 * Receivers: pieces are written to their landings, in order, each once, and counted. The sender is
 * told of the counts, and of pieces for landings that are gone.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "drivers/tcp/tcp.h"
#include "drivers/tcp/tcp_tls.h"

/* ---- life ---- */

struct tcp_receiver *tcp_receiver_new(struct tcp_driver *tcp, uint64_t grant)
{
    struct tcp_receiver *receiver = NULL;
    if (tcp->receiver_count < TCP_RECEIVERS_MAX)
        receiver = calloc(1, sizeof(*receiver));
    if (!receiver)
        return NULL;
    receiver->buffer = malloc(TCP_RECEIVE_BYTES + TCP_OUTBOX_BYTES);
    if (!receiver->buffer) {
        free(receiver);
        return NULL;
    }
    receiver->driver = tcp;
    receiver->grant = grant;
    receiver->outbox = receiver->buffer + TCP_RECEIVE_BYTES;
    receiver->next = tcp->receivers;
    if (tcp->receivers)
        tcp->receivers->previous = receiver;
    tcp->receivers = receiver;
    tcp->receiver_count++;
    return receiver;
}

struct tcp_receiver *tcp_receiver_of(struct tcp_driver *tcp, const struct tcp_hello *hello,
                                     bool *ret_known)
{
    struct tcp_receiver *receiver = tcp->receivers;
    while (receiver && (receiver->grant != 0 || receiver->link != hello->link ||
                        !tcp_same(receiver->id, hello->id)))
        receiver = receiver->next;
    *ret_known = receiver != NULL;
    if (!receiver && !(receiver = tcp_receiver_new(tcp, 0)))
        return NULL;
    receiver->id = hello->id;
    receiver->link = hello->link;
    return receiver;
}

static void set_polls(struct tcp_receiver *receiver, unsigned rounds)
{
    receiver->driver->polled_count += (rounds > 0) - (receiver->polls > 0);
    receiver->polls = rounds;
}

void tcp_receiver_poll(struct tcp_receiver *receiver)
{
    set_polls(receiver, TCP_POLLS);
}

void tcp_receiver_reset(struct tcp_receiver *receiver)
{
    set_polls(receiver, 0);
    receiver->in_piece = receiver->long_piece = receiver->held = false;
    receiver->begin = receiver->end = 0;
    receiver->outbox_bytes = 0;
    receiver->telling = receiver->due = false;
    receiver->tell_ns = 0;
    credits_reported(&receiver->credits); /* by the welcome */
}

void tcp_receiver_free(struct tcp_receiver *receiver)
{
    struct tcp_driver *tcp = receiver->driver;
    if (receiver->connection)
        tcp_connection_close(receiver->connection);
    *(receiver->previous ? &receiver->previous->next : &tcp->receivers) = receiver->next;
    if (receiver->next)
        receiver->next->previous = receiver->previous;
    tcp->receiver_count--;
    free(receiver->buffer);
    tcp_free_later(tcp, &receiver->object);
}

void tcp_receivers_drop(struct tcp_driver *tcp, struct tcp_id id)
{
    for (struct tcp_receiver *receiver = tcp->receivers, *next; receiver; receiver = next) {
        next = receiver->next;
        if (receiver->grant == 0 && tcp_same(receiver->id, id))
            tcp_receiver_free(receiver);
    }
}

/* ---- telling ---- */

static int reply(struct tcp_receiver *receiver, enum tcp_kind kind, uint64_t number)
{
    const struct tcp_head head = {.kind = kind, .number = number};
    if (TCP_OUTBOX_BYTES - receiver->outbox_bytes < sizeof(head))
        return -ENOBUFS; /* the sender reads nothing */
    memcpy(receiver->outbox + receiver->outbox_bytes, &head, sizeof(head));
    receiver->outbox_bytes += sizeof(head);
    return 0;
}

void tcp_receiver_sent(struct tcp_receiver *receiver, size_t bytes)
{
    receiver->outbox_bytes -= bytes;
    memmove(receiver->outbox, receiver->outbox + bytes, receiver->outbox_bytes);
    receiver->telling &= receiver->outbox_bytes > 0;
}

static int flush(struct tcp_receiver *receiver)
{
    while (receiver->outbox_bytes > 0) {
        const struct iovec part = {receiver->outbox, receiver->outbox_bytes};
        ssize_t n = tcp_connection_write(receiver->connection, &part, 1);
        if (n < 0)
            return n == -EAGAIN ? 0 : (int)n;
        tcp_receiver_sent(receiver, (size_t)n);
    }
    receiver->telling = false;
    return 0;
}

static int add_count(struct tcp_receiver *receiver)
{
    int r = reply(receiver, TCP_RECEIVED, receiver->credits.counted);
    if (r < 0)
        return r;
    receiver->tell_ns = 0;
    receiver->telling = true;
    credits_reported(&receiver->credits);
    return 0;
}

/* The sender that shares the connection may be within a piece: the count is made when it is not. */
static int count_with(struct tcp_receiver *receiver, struct tcp_sender *sender)
{
    receiver->due = true;
    receiver->tell_ns = 0;
    int r = tcp_sender_write(sender);
    if (tcp_receiver_unsent(receiver))
        tcp_peer_activate(tcp_peer_of(sender));
    return r < 0 ? r : 0;
}

static int count_now(struct tcp_receiver *receiver, uint64_t now_ns)
{
    if (receiver->connection->sender)
        return count_with(receiver, receiver->connection->sender);
    int r = receiver->telling ? flush(receiver) : 0;
    if (r < 0)
        return r;
    if (receiver->telling) { /* the sender does not read: once more, with a later count */
        receiver->tell_ns = now_ns + TCP_TELL_MS * TCP_MS;
        return 0;
    }
    r = add_count(receiver);
    return r < 0 ? r : flush(receiver);
}

void tcp_receiver_join(struct tcp_receiver *receiver)
{
    receiver->due |= credits_due(&receiver->credits, TCP_TELL_PIECES / 2, TCP_TELL_BYTES / 2);
    if (receiver->due && !receiver->telling)
        receiver->due = add_count(receiver) < 0;
}

void tcp_receiver_tell(struct tcp_receiver *receiver, uint64_t now_ns)
{
    int r = receiver->connection ? count_now(receiver, now_ns) : 0;
    if (r < 0)
        tcp_connection_ends(receiver->connection, r, now_ns);
}

/* ---- receiving ---- */

static struct tcp_landing *landing_of(const struct tcp_receiver *receiver)
{
    const struct tcp_head *head = &receiver->head;
    return landings_find(&receiver->driver->landings, head->landing, head->generation);
}

static bool may_put(const struct tcp_receiver *receiver, const struct tcp_landing *landing)
{
    return landing->grant == receiver->grant &&
           (!landing->from_one || (receiver->proven && tcp_same(receiver->id, landing->from)));
}

static int check(const struct tcp_receiver *receiver)
{
    const struct tcp_head *head = &receiver->head;
    if (head->kind == TCP_BYE)
        return head->number == receiver->credits.counted && head->length_bytes == 0 ? -ESHUTDOWN
                                                                                    : -EPROTO;
    if ((head->kind != TCP_PIECE && head->kind != TCP_ASK) || head->zero != 0 ||
        (head->flags & ~(TCP_LAST | TCP_TELL)) || head->number != receiver->credits.counted ||
        head->length_bytes > TCP_PIECE_MAX || (head->kind == TCP_ASK && head->length_bytes > 0))
        return -EPROTO;
    const struct tcp_landing *landing = landing_of(receiver);
    if (head->kind == TCP_PIECE && landing &&
        (!may_put(receiver, landing) || head->position_bytes > landing->target.size_bytes ||
         head->length_bytes > landing->target.size_bytes - head->position_bytes))
        return -EPROTO;
    return 0;
}

/* For a landing that its peer was told of, and we were not yet. */
static bool is_ahead(const struct tcp_receiver *receiver)
{
    const struct tcp_head *head = &receiver->head;
    return receiver->grant != 0 && head->kind == TCP_PIECE &&
           landings_await(&receiver->driver->landings, head->generation) && !landing_of(receiver);
}

static void begin_piece(struct tcp_receiver *receiver)
{
    const struct tcp_head *head = &receiver->head;
    const struct tcp_landing *landing = landing_of(receiver);
    receiver->in_piece = true;
    receiver->piece_bytes = 0;
    receiver->long_piece = landing && head->length_bytes >= TCP_STRAIGHT_BYTES &&
                           (!landing->target.program || landing->target.blocks);
}

static int piece_over(struct tcp_receiver *receiver, uint64_t now_ns)
{
    const struct driver_events *events = &receiver->driver->driver.events;
    const struct tcp_head *head = &receiver->head;
    const struct tcp_landing *landing = landing_of(receiver);
    int r = 0;
    receiver->in_piece = false;
    if (head->kind == TCP_PIECE && !landing)
        r = reply(receiver, TCP_STALE, head->number);
    /* before the sender learns by a count that it has arrived */
    else if (head->kind == TCP_PIECE && landing->notify && (head->flags & TCP_LAST))
        events->notified(events->context, landing->token);
    /* Longer pieces take no room of the sender's copies. */
    const uint32_t copied = head->length_bytes <= TCP_INLINE_BYTES ? head->length_bytes : 0;
    credits_count(&receiver->credits, copied + sizeof(*head));
    if (r == 0 && (head->flags & TCP_TELL ||
                   credits_due(&receiver->credits, TCP_TELL_PIECES, TCP_TELL_BYTES)))
        r = count_now(receiver, now_ns);
    else if (receiver->tell_ns == 0)
        receiver->tell_ns = now_ns + TCP_TELL_MS * TCP_MS;
    return r;
}

/* Bytes of the piece, into its landing if that is there still. */
static void put_bytes(struct tcp_receiver *receiver, const uint8_t *bytes, uint32_t count)
{
    const struct tcp_head *head = &receiver->head;
    const struct tcp_landing *landing = landing_of(receiver);
    if (landing && count > 0)
        packed_write(&landing->target, bytes, head->position_bytes + receiver->piece_bytes, count);
    receiver->piece_bytes += count;
}

static bool is_back(const struct tcp_head *head)
{
    return head->kind == TCP_RECEIVED || head->kind == TCP_STALE;
}

/* What is in the buffer: how many pieces were completed, or why the connection must end. */
static int digest(struct tcp_receiver *receiver, uint64_t now_ns)
{
    int pieces = 0;
    for (;;) {
        if (!receiver->in_piece) {
            if (receiver->end - receiver->begin < sizeof(receiver->head))
                return pieces;
            memcpy(&receiver->head, receiver->buffer + receiver->begin, sizeof(receiver->head));
            struct tcp_sender *sender = receiver->connection->sender;
            if (sender && is_back(&receiver->head)) {
                receiver->begin += sizeof(receiver->head);
                int r = tcp_sender_take(sender, &receiver->head);
                if (r < 0)
                    return r;
                pieces++;
                continue;
            }
            int r = check(receiver);
            if (r < 0)
                return r;
            receiver->held = is_ahead(receiver);
            if (receiver->held)
                return pieces;
            receiver->begin += sizeof(receiver->head);
            begin_piece(receiver);
        }
        const uint32_t there = receiver->end - receiver->begin,
                       left = receiver->head.length_bytes - receiver->piece_bytes,
                       count = there < left ? there : left;
        put_bytes(receiver, receiver->buffer + receiver->begin, count);
        receiver->begin += count;
        if (count < left)
            return pieces;
        int r = piece_over(receiver, now_ns);
        if (r < 0)
            return r;
        pieces++;
    }
}

/* The kernel ends a connection when it cannot open a record where its data belongs, because the
 * process has taken the pages away. Before Linux 5.14 it cannot be asked: nothing is there. */
static bool are_there(const struct iovec *parts, unsigned count)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    for (unsigned i = 0; i < count; i++) {
        const uintptr_t at = (uintptr_t)parts[i].iov_base, begin = at & ~(page - 1);
        if (madvise((void *)begin, at + parts[i].iov_len - begin, MADV_POPULATE_WRITE) < 0)
            return false;
    }
    return true;
}

/* Where the next bytes of a long piece belong, so that they need not go through the buffer: parts,
 * 0: they have to. Within TLS they may be there before it is known that they are genuine; nobody is
 * notified before. */
static unsigned straight(const struct tcp_receiver *receiver, struct iovec *ret_parts)
{
    const struct tcp_head *head = &receiver->head;
    if (!receiver->in_piece || !receiver->long_piece)
        return 0;
    const struct tcp_landing *landing = landing_of(receiver);
    if (!landing)
        return 0;
    const unsigned count =
        packed_parts(&landing->target, head->position_bytes + receiver->piece_bytes,
                     head->length_bytes - receiver->piece_bytes, ret_parts, TCP_READ_IOVECS);
    return receiver->connection->kernel && !are_there(ret_parts, count) ? 0 : count;
}

/* How much is read with the end of a long piece, or after it. A record is opened where it belongs
 * if there is room for all of it. */
static uint32_t ahead_bytes(const struct tcp_receiver *receiver)
{
    return receiver->connection->seal || receiver->connection->kernel ? TCP_RECORD_BYTES
                                                                      : TCP_AHEAD_BYTES;
}

/* One read of a long piece, which is not in the buffer, into `count` parts of it and, if these are
 * all of it, of what follows. The array has room for one more. As receive(). */
static int receive_long(struct tcp_receiver *receiver, struct iovec *parts, unsigned count,
                        uint64_t now_ns)
{
    const uint32_t left = receiver->head.length_bytes - receiver->piece_bytes;
    const struct iovec nowhere = {receiver->buffer,
                                  left < TCP_RECEIVE_BYTES ? left : TCP_RECEIVE_BYTES};
    size_t known = 0;
    for (unsigned i = 0; i < count; i++)
        known += parts[i].iov_len;
    if (known == left)
        parts[count++] = (struct iovec){receiver->buffer, ahead_bytes(receiver)};
    ssize_t n = tcp_connection_read(receiver->connection, parts, (int)count);
    if (n == -EFAULT) /* pages that its process has taken away */
        n = tcp_connection_read(receiver->connection, &nowhere, 1);
    if (n < 0)
        return (int)n;
    const uint32_t taken = n < (ssize_t)left ? (uint32_t)n : left;
    receiver->piece_bytes += taken;
    receiver->begin = 0;
    receiver->end = (uint32_t)n - taken;
    return digest(receiver, now_ns);
}

/* One read: pieces, -EAGAIN, or why the connection must end. */
static int receive(struct tcp_receiver *receiver, uint64_t now_ns)
{
    if (receiver->held) {
        int pieces = digest(receiver, now_ns);
        if (receiver->held || pieces != 0)
            return pieces == 0 ? -EAGAIN : pieces;
    }
    struct iovec parts[TCP_READ_IOVECS + 1];
    const unsigned count = straight(receiver, parts);
    if (count > 0)
        return receive_long(receiver, parts, count, now_ns);
    memmove(receiver->buffer, receiver->buffer + receiver->begin, receiver->end - receiver->begin);
    receiver->end -= receiver->begin;
    receiver->begin = 0;
    const uint32_t room =
        receiver->long_piece && !receiver->in_piece ? ahead_bytes(receiver) : TCP_RECEIVE_BYTES;
    const struct iovec part = {receiver->buffer + receiver->end, room - receiver->end};
    ssize_t n = tcp_connection_read(receiver->connection, &part, 1);
    if (n < 0)
        return (int)n;
    receiver->end += (uint32_t)n;
    return digest(receiver, now_ns);
}

int tcp_receiver_read(struct tcp_receiver *receiver, uint64_t now_ns)
{
    enum { READS = 8 }; /* before others have their turn */
    const struct tcp_connection *connection = receiver->connection;
    const uint64_t begin_bytes = connection->read_bytes;
    int pieces = 0, r = 0;
    for (int i = 0; i < READS && r >= 0 && connection->read_bytes - begin_bytes < TCP_TURN_BYTES;
         i++) {
        r = receive(receiver, now_ns);
        if (receiver->connection != connection)
            return pieces; /* closed by somebody who was notified */
        if (r >= 0)
            tcp_receiver_poll(receiver);
        pieces += r > 0 ? r : 0;
        if (!connection->readable)
            break;
    }
    if (r == -EAGAIN || r >= 0)
        return pieces;
    if (r == -ESHUTDOWN && !receiver->connection->sender)
        tcp_receiver_free(receiver);
    else
        tcp_connection_ends(receiver->connection, r, now_ns);
    return pieces;
}

void tcp_receivers_resume(struct tcp_driver *tcp)
{
    for (struct tcp_receiver *receiver = tcp->receivers; receiver; receiver = receiver->next) {
        if (!receiver->held)
            continue;
        receiver->connection->readable = true;
        tcp_receiver_poll(receiver);
    }
}

/* One call for each instead of two. Of many, only those that are known to have more. */
int tcp_receivers_poll(struct tcp_driver *tcp, uint64_t now_ns)
{
    const bool few = tcp->polled_count <= TCP_POLLED_MAX;
    int moved = 0;
    for (struct tcp_receiver *receiver = tcp->receivers, *next; receiver && tcp->polled_count > 0;
         receiver = next) {
        next = receiver->next;
        if (receiver->polls == 0)
            continue;
        tcp->polled_count -= --receiver->polls == 0;
        if (few || receiver->connection->readable)
            moved += tcp_receiver_read(receiver, now_ns);
    }
    return moved;
}

/* ---- what is due ---- */

void tcp_receivers_expire(struct tcp_driver *tcp, uint64_t now_ns)
{
    for (struct tcp_receiver *receiver = tcp->receivers, *next; receiver; receiver = next) {
        next = receiver->next;
        if (receiver->tell_ns != 0 && now_ns >= receiver->tell_ns)
            tcp_receiver_tell(receiver, now_ns);
        if (receiver->down_ns != 0 && now_ns - receiver->down_ns > TCP_FORGET_MS * TCP_MS)
            tcp_receiver_free(receiver);
    }
}

uint64_t tcp_receiver_due_ns(const struct tcp_receiver *receiver)
{
    return receiver->down_ns != 0 ? receiver->down_ns + (TCP_FORGET_MS + 1) * TCP_MS
                                  : receiver->tell_ns;
}
