/*
 * Senders: puts are cut into pieces, in order, while flows take turns; pieces are written to the
 * connection, and kept until the receiver has counted them. A sender has a connection made when
 * something is put, and made again when it breaks, unless connections are handed over.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "drivers/patience.h"
#include "drivers/puts.h"
#include "drivers/tcp/adopt.h"
#include "drivers/tcp/tcp.h"

/* ---- puts ---- */

static int read_blob(const struct driver_put_args *args, struct tcp_blob *ret_blob)
{
    const struct tcp_peer *peer = (const struct tcp_peer *)args->peer;
    int r = puts_read_blob(args, TCP_BLOB_MAGIC, ret_blob, sizeof(*ret_blob));
    if (r == 0 && !tcp_same(ret_blob->id, peer->address.id))
        r = -ESTALE;
    return r < 0 ? r : puts_check_size(args, ret_blob->size_bytes);
}

static void set_part(struct tcp_put *put, const struct driver_part *part)
{
    window_part(&put->base, part);
    put->copied = part->bytes <= TCP_INLINE_BYTES;
}

void tcp_put_part(struct driver *driver, struct driver_put *put, const struct driver_part *part)
{
    set_part((struct tcp_put *)put, part);
}

int tcp_put_prepare(struct driver *driver, const struct driver_put_args *args,
                    struct driver_put **ret_put, struct driver_put_info *ret_info)
{
    const struct mapped *region = (const struct mapped *)args->region;
    struct tcp_blob blob;
    int r = read_blob(args, &blob);
    if (r < 0)
        return r;
    struct tcp_put *put = calloc(1, sizeof(*put));
    r = put ? puts_init(args, region ? region->base : NULL, region ? region->length_bytes : 0,
                        &put->base, &put->source)
            : -ENOMEM;
    if (r < 0) {
        free(put);
        return r;
    }
    put->peer = (struct tcp_peer *)args->peer;
    put->landing = blob.landing;
    put->generation = blob.generation;
    set_part(put, &(struct driver_part){.bytes = put->source.size_bytes});
    puts_describe(&put->source,
                  put->source.size_bytes == 0 ? 1
                                              : (put->source.size_bytes - 1) / TCP_PIECE_BYTES + 1,
                  put->source.program, ret_info);
    *ret_put = (struct driver_put *)put;
    return 0;
}

void tcp_put_release(struct driver *driver, struct driver_put *driver_put)
{
    struct tcp_put *put = (struct tcp_put *)driver_put;
    if (!put)
        return;
    assert(!put->base.op && put->base.pending == 0);
    packed_deinit(&put->source);
    free(put);
}

/* ---- pieces ---- */

static struct tcp_piece *piece_of(const struct tcp_sender *sender, uint64_t number)
{
    return (struct tcp_piece *)window_piece(&sender->window, number);
}

void tcp_sender_init(struct tcp_sender *sender)
{
    sender->window = (struct window){
        .size = TCP_WINDOW,
        .piece_bytes = sizeof(struct tcp_piece),
        .flows = {.turn_bytes = TCP_SHARED_PIECE_BYTES},
        .ring = {.bytes = TCP_COPIES_BYTES, .largest = TCP_INLINE_BYTES},
    };
}

void tcp_sender_deinit(struct tcp_sender *sender)
{
    free(sender->window.pieces);
    free(sender->copies);
    free(sender->staging);
    sender->window.pieces = NULL;
    sender->copies = sender->staging = NULL;
}

/* When it sends for the first time. */
static int allocate(struct tcp_sender *sender)
{
    if (sender->window.pieces)
        return 0;
    sender->window.pieces = calloc(TCP_WINDOW, sizeof(struct tcp_piece));
    sender->copies = malloc(TCP_COPIES_BYTES);
    sender->staging = malloc(TCP_STAGING_BYTES);
    if (sender->window.pieces && sender->copies && sender->staging &&
        tcp_random(&sender->number, sizeof(sender->number)) == 0)
        return 0;
    tcp_sender_deinit(sender);
    return -ENOMEM;
}

/* The next piece of the window, with so many bytes of the copies; NULL: no room now. */
static struct tcp_piece *next_piece(struct tcp_sender *sender, uint32_t copy_bytes)
{
    if (allocate(sender) < 0)
        return NULL;
    struct tcp_piece *piece = (struct tcp_piece *)window_next(&sender->window, copy_bytes);
    if (piece)
        piece->straight_bytes = sender->straight_bytes;
    return piece;
}

/* Bytes of pieces that are read from their source, not yet counted. */
static uint64_t uncounted_bytes(const struct tcp_sender *sender)
{
    const struct window *window = &sender->window;
    return window->counted == window->made
               ? 0
               : sender->straight_bytes - piece_of(sender, window->counted)->straight_bytes;
}

static bool has_room(const struct tcp_sender *sender)
{
    return flows_shared(&sender->window.flows)
               ? sender->unwritten == 0 && uncounted_bytes(sender) < TCP_SHARED_BYTES
               : sender->unwritten < TCP_UNWRITTEN_MAX;
}

/* The next piece of the put; see window_make. */
static int make_piece(struct window_put *base)
{
    struct tcp_put *put = (struct tcp_put *)base;
    struct tcp_sender *sender = &put->peer->sender;
    const uint64_t left = base->end_bytes - base->made_bytes;
    const uint32_t most = flows_shared(&sender->window.flows) ? TCP_SHARED_PIECE_BYTES
                                                              : TCP_PIECE_BYTES,
                   length = left < most ? (uint32_t)left : most;
    if (!put->copied && !has_room(sender))
        return -EAGAIN;
    struct tcp_piece *piece = next_piece(sender, put->copied ? length : 0);
    if (!piece)
        return -EAGAIN;
    piece->head = (struct tcp_head){
        .kind = TCP_PIECE,
        .length_bytes = length,
        .landing = put->landing,
        .generation = put->generation,
        .position_bytes = base->made_bytes + base->shift_bytes,
        .number = sender->window.made,
    };
    piece->base.put = base;
    piece->base.flow = base->flow.flow;
    piece->copied = put->copied;
    if (put->copied && length > 0)
        packed_read(&put->source, sender->copies + piece->base.offset, base->made_bytes, length);
    base->made_bytes += length;
    base->made = base->made_bytes == base->end_bytes;
    if (base->made)
        piece->head.flags |= TCP_LAST;
    if (!put->copied) {
        sender->unwritten++;
        sender->straight_bytes += length;
    }
    if (flows_note(&sender->window.flows, base->flow.flow, length)) /* of all that is under way */
        sender->window.ask |= sender->window.asked < sender->window.made;
    window_add(&sender->window, &piece->base);
    if ((base->made || flows_shared(&sender->window.flows)) && !put->copied) {
        piece->head.flags |= TCP_TELL;
        sender->window.asked = sender->window.made;
    }
    return 0;
}

int tcp_put_post(struct driver *driver, struct driver_put *driver_put, struct driver_op *op)
{
    struct tcp_put *put = (struct tcp_put *)driver_put;
    struct tcp_peer *peer = put->peer;
    if (peer->error < 0)
        return peer->error;
    if (put->base.stale)
        return -ESTALE;
    tcp_peer_activate(peer);
    window_post(&peer->sender.window, &put->base, op, TCP_WINDOW, make_piece);
    return 0;
}

int tcp_puts_pump(struct tcp_peer *peer, unsigned budget)
{
    return window_pump(&peer->sender.window, budget, make_piece);
}

/* A piece without data, for no landing: the receiver answers it with its count. */
static void ask_for_count(struct tcp_sender *sender)
{
    struct tcp_piece *piece = next_piece(sender, 0);
    if (!piece)
        return; /* the window is full: counts are to come anyway */
    piece->copied = true;
    piece->head =
        (struct tcp_head){.kind = TCP_ASK, .flags = TCP_TELL, .number = sender->window.made};
    window_add(&sender->window, &piece->base);
    sender->window.asked = sender->window.made;
    sender->window.ask = false;
}

/* ---- writing ---- */

/* Of one write, which takes as many pieces as there are: heads, copies, bytes straight from sources
 * that are contiguous or have long blocks, packed bytes of others. */
struct parts {
    struct iovec all[TCP_WRITE_IOVECS];
    int count;
    bool staged; /* no bytes straight from their source */
};

static void add(struct parts *parts, const void *base, size_t bytes)
{
    if (bytes > 0)
        parts->all[parts->count++] = (struct iovec){(void *)base, bytes};
}

/* Of the first byte of the piece. */
static uint64_t source_position(const struct tcp_put *put, const struct tcp_piece *piece)
{
    return piece->head.position_bytes - put->base.shift_bytes;
}

/* Packed bytes of the first piece from `at` on, as many as there is room for. Others have to wait
 * for the rest. */
static size_t stage(struct tcp_sender *sender, const struct tcp_put *put,
                    const struct tcp_piece *piece, uint64_t at, const uint8_t **ret_bytes)
{
    if (at < sender->staged_from || at >= sender->staged_to) {
        const uint64_t left = piece->head.length_bytes - at;
        const uint64_t length = left < TCP_STAGING_BYTES ? left : TCP_STAGING_BYTES;
        packed_read(&put->source, sender->staging, source_position(put, piece) + at, length);
        sender->staged_from = at;
        sender->staged_to = at + length;
    }
    *ret_bytes = sender->staging + (at - sender->staged_from);
    return sender->staged_to - at;
}

/* Bytes of the piece where they lie, from `at` on, as many as there is room for. */
static size_t add_straight(const struct tcp_put *put, const struct tcp_piece *piece, size_t at,
                           struct parts *parts)
{
    size_t bytes = 0;
    unsigned count =
        packed_parts(&put->source, source_position(put, piece) + at, piece->head.length_bytes - at,
                     &parts->all[parts->count], (unsigned)(TCP_WRITE_IOVECS - parts->count));
    for (; count > 0; count--)
        bytes += parts->all[parts->count++].iov_len;
    return bytes;
}

/* What is left of a piece, from `skip` on, with its head: false if what comes after it has to
 * wait. */
static bool add_piece(struct tcp_sender *sender, const struct tcp_piece *piece, size_t skip,
                      bool first, struct parts *parts)
{
    const size_t length = piece->head.length_bytes;
    if (skip < sizeof(piece->head))
        add(parts, (const uint8_t *)&piece->head + skip, sizeof(piece->head) - skip);
    const size_t at = skip < sizeof(piece->head) ? 0 : skip - sizeof(piece->head);
    if (piece->copied) {
        add(parts, sender->copies + piece->base.offset + at, length - at);
        return true;
    }
    const struct tcp_put *put = (const struct tcp_put *)piece->base.put;
    const size_t straight = parts->staged ? 0 : add_straight(put, piece, at, parts);
    if (at + straight == length || straight > 0 || !first)
        return at + straight == length;
    const uint8_t *bytes;
    const size_t staged = stage(sender, put, piece, at, &bytes);
    add(parts, bytes, staged);
    return at + staged == length;
}

static void written(struct tcp_sender *sender, size_t bytes)
{
    sender->written_bytes += bytes;
    while (sender->written < sender->window.made) {
        struct tcp_piece *piece = piece_of(sender, sender->written);
        struct window_put *put = piece->base.put;
        const size_t all = sizeof(piece->head) + piece->head.length_bytes;
        if (sender->written_bytes < all)
            return;
        sender->written_bytes -= all;
        sender->written++;
        sender->unwritten -= !piece->copied;
        sender->staged_from = sender->staged_to = 0;
        if (!piece->copied || !put)
            continue;
        piece->base.put = NULL;
        piece->base.done = true;
        put->pending--;
        window_put_check(put);
    }
}

/* What is to be told of the other direction goes before a piece. */
static size_t add_heads(const struct tcp_sender *sender, struct tcp_receiver *receiver,
                        struct parts *parts)
{
    if (!receiver || sender->written_bytes > 0)
        return 0;
    tcp_receiver_join(receiver);
    add(parts, receiver->outbox, receiver->outbox_bytes);
    return receiver->outbox_bytes;
}

/* One write: bytes, or why not. */
static ssize_t write_pieces(struct tcp_sender *sender, struct parts *parts)
{
    size_t skip = sender->written_bytes;
    bool more = true;
    for (uint64_t n = sender->written;
         more && n < sender->window.made && parts->count + 2 <= TCP_WRITE_IOVECS; n++) {
        more = add_piece(sender, piece_of(sender, n), skip, n == sender->written, parts);
        skip = 0;
    }
    return tcp_connection_write(sender->connection, parts->all, parts->count);
}

int tcp_sender_write(struct tcp_sender *sender)
{
    struct tcp_connection *connection = sender->connection;
    struct tcp_receiver *receiver = connection->receiver;
    const uint64_t before = sender->written;
    bool staged = false;
    int r = connection->writable ? tcp_connection_flush(connection) : 0;
    if (r < 0 && r != -EAGAIN)
        return r;
    while ((sender->written < sender->window.made || tcp_receiver_unsent(receiver)) &&
           connection->writable) {
        struct parts parts; /* 4 KiB: an initialiser would clear them for each write */
        parts.count = 0;
        parts.staged = staged;
        const size_t heads = add_heads(sender, receiver, &parts);
        ssize_t n = write_pieces(sender, &parts);
        if (n == -EFAULT && !staged) { /* pages that the source's process has taken away */
            staged = true;
            continue;
        }
        if (n == -EAGAIN)
            break;
        if (n < 0)
            return (int)n;
        staged = false;
        const size_t back = (size_t)n < heads ? (size_t)n : heads;
        if (back > 0)
            tcp_receiver_sent(receiver, back);
        written(sender, (size_t)n - back);
        if (sender->connection != connection)
            return 0; /* closed by the owner of a put that has ended */
    }
    return (int)(sender->written - before);
}

/* ---- short puts of a process in quick succession ---- */

/* The first piece after a round is written at once. Short ones that follow it are corked: one write
 * for many, in the next round. If that comes late, because the process computes, they would have
 * done better without. */
static bool corks(const struct tcp_sender *sender)
{
    const uint64_t kept = sender->window.made - sender->written;
    return sender->pushed && sender->uncorked == 0 && kept > 0 && kept < TCP_CORK_PIECES &&
           sender->unwritten == 0 &&
           piece_of(sender, sender->window.made - 1)->head.length_bytes <= TCP_CORK_BYTES;
}

/* A round is about to write them. */
static void uncork(struct tcp_sender *sender, uint64_t now_ns)
{
    if (sender->corked_ns != 0 && now_ns - sender->corked_ns > TCP_CORK_US * UINT64_C(1000))
        sender->uncorked = TCP_UNCORKED_BURSTS;
    else if (sender->uncorked > 0 && sender->pushed)
        sender->uncorked--;
    sender->pushed = false;
    sender->corked_ns = 0;
}

void tcp_push(struct driver *driver)
{
    for (struct tcp_peer *peer = tcp_of(driver)->active; peer; peer = peer->next_active) {
        struct tcp_sender *sender = &peer->sender;
        if (peer->failed < 0 || !tcp_is_up(sender->connection))
            continue;
        tcp_puts_pump(peer, TCP_PUSH_PIECES);
        if (corks(sender)) {
            sender->corked_ns = sender->corked_ns ? sender->corked_ns : clock_now_ns();
            continue;
        }
        /* an error comes again in the next round, which takes it */
        sender->pushed |= tcp_sender_write(sender) > 0;
        sender->corked_ns = 0;
    }
}

/* ---- what comes back: how much was received, and what was for landings that are gone ---- */

/* The landing of a piece that was received is gone: its put makes no more pieces. */
static void set_stale(struct window_put *put)
{
    if (put) {
        put->stale = true;
        put->error = -ESTALE;
    }
}

int tcp_sender_take(struct tcp_sender *sender, const struct tcp_head *head)
{
    const bool within = head->number >= sender->window.counted && head->number <= sender->written;
    if (head->kind == TCP_STALE && within && head->number < sender->written)
        set_stale(window_piece(&sender->window, head->number)->put);
    else if (head->kind == TCP_RECEIVED && within)
        window_count(&sender->window, head->number);
    else
        return -EPROTO;
    return 0;
}

static int take_heads(struct tcp_sender *sender, struct tcp_connection *connection)
{
    struct tcp_head head;
    size_t at = 0;
    int r = 0;
    for (; r == 0 && connection->inbox_bytes - at >= sizeof(head); at += sizeof(head)) {
        memcpy(&head, connection->inbox + at, sizeof(head));
        r = tcp_sender_take(sender, &head);
    }
    connection->inbox_bytes -= at;
    memmove(connection->inbox, connection->inbox + at, connection->inbox_bytes);
    return r;
}

/* How many pieces were counted, or why the connection has ended. */
static int read_counts(struct tcp_sender *sender)
{
    struct tcp_connection *connection = sender->connection;
    const uint64_t before = sender->window.counted;
    const bool awaited = sender->window.asked > before;
    if (!connection->readable && !awaited)
        return 0;               /* an event tells of it */
    if (connection->receiver) { /* which reads for both */
        tcp_receiver_poll(connection->receiver);
        return 0;
    }
    do {
        const struct iovec part = {connection->inbox + connection->inbox_bytes,
                                   sizeof(connection->inbox) - connection->inbox_bytes};
        ssize_t n = tcp_connection_read(connection, &part, 1);
        if (n == -EAGAIN)
            break;
        if (n > 0)
            connection->inbox_bytes += (size_t)n;
        int r = n < 0 ? (int)n : take_heads(sender, connection);
        if (r < 0)
            return r;
    } while (connection->readable && sender->connection == connection);
    return (int)(sender->window.counted - before);
}

int tcp_sender_welcomed(struct tcp_sender *sender, const struct tcp_welcome *welcome)
{
    if (sender->known && !welcome->known)
        return -ENETRESET;
    if (welcome->received < sender->window.counted || welcome->received > sender->written)
        return -EPROTO;
    sender->known = true;
    window_count(&sender->window, welcome->received);
    sender->down_ns = sender->pause_ms = 0;
    /* what was written and not counted goes again */
    for (uint64_t n = sender->window.counted; n < sender->written; n++)
        sender->unwritten += !piece_of(sender, n)->copied;
    sender->written = sender->window.counted;
    sender->written_bytes = 0;
    sender->staged_from = sender->staged_to = 0;
    return 0;
}

/* ---- connections ---- */

void tcp_sender_down(struct tcp_peer *peer, uint64_t now_ns)
{
    struct tcp_sender *sender = &peer->sender;
    sender->pause_ms = sender->pause_ms == 0 ? TCP_RETRY_MS : sender->pause_ms * 2;
    if (sender->pause_ms > TCP_RETRY_MAX_MS)
        sender->pause_ms = TCP_RETRY_MAX_MS;
    sender->redial_ns = now_ns + sender->pause_ms * TCP_MS;
    if (sender->down_ns == 0)
        sender->down_ns = now_ns;
    tcp_peer_activate(peer);
}

void tcp_sender_lost(struct tcp_sender *sender, int error, uint64_t now_ns)
{
    struct tcp_peer *peer = tcp_peer_of(sender);
    const struct driver_events *events = &peer->driver->driver.events;
    if (error == -ENETRESET) {
        tcp_peer_lose(peer, -ENETDOWN);
        return;
    }
    tcp_sender_down(peer, now_ns);
    if (peer->receiver && events->peer_broken)
        events->peer_broken(events->context, (struct driver_peer *)peer, error);
}

static void dial(struct tcp_peer *peer, uint64_t now_ns)
{
    struct tcp_sender *sender = &peer->sender;
    struct tcp_connection *connection;
    struct dial *dial;
    if (sender->down_ns == 0)
        sender->down_ns = now_ns;
    if (sender->refused == (1u << peer->address.count) - 1)
        sender->refused = 0;
    int r = tcp_dial(&peer->address, sender->refused, &dial);
    if (r == 0)
        r = tcp_connection_dial(peer->driver, dial, sender, &connection);
    if (r < 0) {
        tcp_sender_down(peer, now_ns);
        return;
    }
    connection->deadline_ns = now_ns + TCP_OPENING_MS * TCP_MS;
    tcp_connection_event(connection, 0, now_ns);
}

static uint64_t due_ns(const struct tcp_connection *connection)
{
    const uint64_t next_ns = connection->dial ? dial_due_ns(connection->dial) : 0;
    return next_ns != 0 && next_ns < connection->deadline_ns ? next_ns : connection->deadline_ns;
}

/* Without one that is up. */
static void connect_again(struct tcp_peer *peer, uint64_t now_ns)
{
    struct tcp_sender *sender = &peer->sender;
    struct tcp_connection *connection = sender->connection;
    if (connection && connection->deadline_ns != 0 && now_ns >= connection->deadline_ns)
        tcp_connection_ends(connection, -ETIMEDOUT, now_ns);
    else if (connection && connection->dial && now_ns >= due_ns(connection))
        tcp_connection_event(connection, 0, now_ns);
    else if (!connection && !peer->receiver && now_ns >= sender->redial_ns)
        dial(peer, now_ns);
    if (sender->down_ns != 0 && now_ns - sender->down_ns > TCP_LOST_MS * TCP_MS)
        tcp_peer_lose(peer, -ENETDOWN);
}

int tcp_sender_work(struct tcp_peer *peer, uint64_t now_ns)
{
    struct tcp_sender *sender = &peer->sender;
    if (!peer->receiver)
        patience_look(&sender->down_ns, &sender->looked_ns, now_ns);
    if (sender->window.ask)
        ask_for_count(sender);
    if (!tcp_is_up(sender->connection)) {
        connect_again(peer, now_ns);
        return 0;
    }
    if (peer->receiver)
        uncork(sender, now_ns);
    struct tcp_connection *connection = sender->connection;
    int n = tcp_sender_write(sender);
    int m = n < 0 || sender->connection != connection ? 0 : read_counts(sender);
    if (n >= 0 && m >= 0)
        return n + m;
    tcp_connection_ends(connection, n < 0 ? n : m, now_ns);
    return 0;
}

uint64_t tcp_sender_due_ns(const struct tcp_peer *peer)
{
    const struct tcp_sender *sender = &peer->sender;
    const struct tcp_connection *connection = sender->connection;
    if (tcp_is_up(connection))
        return 0;
    if (peer->receiver)
        return connection ? 0 : sender->down_ns + (TCP_LOST_MS + 1) * TCP_MS;
    const uint64_t look_ns = sender->looked_ns + PATIENCE_LOOK_NS,
                   work_ns = connection ? due_ns(connection) : sender->redial_ns;
    return work_ns < look_ns ? work_ns : look_ns;
}
