/* The receiving end of a link: pieces are written to their landings, in order, each once. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "drivers/tcp/tcp.h"
#include "drivers/tcp/tcp_tls.h"

/* ---- sources ---- */

static struct tcp_source *find(const struct tcp_driver *tcp, const struct tcp_hello *hello)
{
    struct tcp_source *source = tcp->sources;
    while (source &&
           (source->grant != 0 || source->link != hello->link || !tcp_same(source->id, hello->id)))
        source = source->next;
    return source;
}

struct tcp_source *tcp_source_new(struct tcp_driver *tcp)
{
    struct tcp_source *source = NULL;
    if (tcp->source_count < TCP_SOURCES_MAX)
        source = calloc(1, sizeof *source);
    if (!source)
        return NULL;
    source->buffer = malloc(TCP_RECEIVE_BYTES + TCP_OUTBOX_BYTES);
    if (!source->buffer) {
        free(source);
        return NULL;
    }
    source->outbox = source->buffer + TCP_RECEIVE_BYTES;
    source->stream = (struct tcp_stream){.role = TCP_SOURCE, .fd = -1};
    source->next = tcp->sources;
    if (tcp->sources)
        tcp->sources->previous = source;
    tcp->sources = source;
    tcp->source_count++;
    return source;
}

static void set_hot(struct tcp_driver *tcp, struct tcp_source *source, unsigned rounds)
{
    tcp->hot_count += (rounds > 0) - (source->hot > 0);
    source->hot = rounds;
}

void tcp_source_heat(struct tcp_driver *tcp, struct tcp_source *source)
{
    set_hot(tcp, source, TCP_HOT_ROUNDS);
}

void tcp_source_reset(struct tcp_driver *tcp, struct tcp_source *source)
{
    tcp_stream_close(&source->stream);
    set_hot(tcp, source, 0);
    source->in_piece = source->long_piece = source->held = false;
    source->begin = source->end = 0;
    source->outbox_bytes = 0;
    source->telling = source->due = false;
    source->tell_ns = 0;
    credits_reported(&source->credits); /* by the welcome */
}

void tcp_source_disconnect(struct tcp_driver *tcp, struct tcp_source *source, int error,
                           uint64_t now_ns)
{
    if (source->peer) {
        tcp_link_breaks(source->peer, error, now_ns);
        return;
    }
    tcp_source_reset(tcp, source);
    source->broken_ns = now_ns;
}

struct tcp_source *tcp_source_open(struct tcp_driver *tcp, const struct tcp_hello *hello,
                                   struct tcp_stream *stream, bool *ret_known)
{
    struct tcp_source *source = find(tcp, hello);
    *ret_known = source != NULL;
    if (!source && !(source = tcp_source_new(tcp)))
        return NULL;
    source->id = hello->id;
    source->link = hello->link;
    if (source->stream.fd >= 0)
        tcp_source_disconnect(tcp, source, -ECONNRESET, 0);
    source->stream = *stream;
    source->stream.role = TCP_SOURCE;
    source->broken_ns = 0;
    return source;
}

void tcp_source_free(struct tcp_driver *tcp, struct tcp_source *source)
{
    set_hot(tcp, source, 0);
    *(source->previous ? &source->previous->next : &tcp->sources) = source->next;
    if (source->next)
        source->next->previous = source->previous;
    tcp->source_count--;
    tcp_stream_close(&source->stream);
    free(source->buffer);
    tcp_free_later(tcp, &source->stream);
}

void tcp_sources_drop(struct tcp_driver *tcp, struct tcp_id id)
{
    for (struct tcp_source *source = tcp->sources, *next; source; source = next) {
        next = source->next;
        if (source->grant == 0 && tcp_same(source->id, id))
            tcp_source_free(tcp, source);
    }
}

void tcp_sources_expire(struct tcp_driver *tcp, uint64_t now_ns)
{
    for (struct tcp_source *source = tcp->sources, *next; source; source = next) {
        next = source->next;
        if (source->broken_ns != 0 && now_ns - source->broken_ns > TCP_FORGET_MS * TCP_MS)
            tcp_source_free(tcp, source);
    }
}

/* ---- receiving ---- */

static bool may_put(const struct tcp_source *source, const struct tcp_landing *landing)
{
    return landing->grant == source->grant &&
           (!landing->from_one || (source->proven && tcp_same(source->id, landing->from)));
}

static int check(const struct tcp_driver *tcp, const struct tcp_source *source)
{
    const struct tcp_head *head = &source->head;
    if (head->kind == TCP_BYE)
        return head->number == source->credits.counted && head->length_bytes == 0 ? -ESHUTDOWN
                                                                                  : -EPROTO;
    if ((head->kind != TCP_PIECE && head->kind != TCP_ASK) || head->zero != 0 ||
        (head->flags & ~(TCP_LAST | TCP_TELL)) || head->number != source->credits.counted ||
        head->length_bytes > TCP_PIECE_MAX || (head->kind == TCP_ASK && head->length_bytes > 0))
        return -EPROTO;
    const struct tcp_landing *landing =
        landings_find(&tcp->landings, head->landing, head->generation);
    if (head->kind == TCP_PIECE && landing &&
        (!may_put(source, landing) || head->position_bytes > landing->target.size_bytes ||
         head->length_bytes > landing->target.size_bytes - head->position_bytes))
        return -EPROTO;
    return 0;
}

/* For a landing that its peer was told of, and we were not yet. */
static bool is_ahead(const struct tcp_driver *tcp, const struct tcp_source *source)
{
    const struct tcp_head *head = &source->head;
    return source->grant != 0 && head->kind == TCP_PIECE &&
           (int32_t)(head->generation - tcp->landing_last) > 0 &&
           !landings_find(&tcp->landings, head->landing, head->generation);
}

static void begin_piece(const struct tcp_driver *tcp, struct tcp_source *source)
{
    const struct tcp_head *head = &source->head;
    const struct tcp_landing *landing =
        landings_find(&tcp->landings, head->landing, head->generation);
    source->in_piece = true;
    source->piece_bytes = 0;
    source->long_piece = landing && head->length_bytes >= TCP_STRAIGHT_BYTES &&
                         (!landing->target.program || landing->target.blocks);
}

static int piece_over(struct tcp_driver *tcp, struct tcp_source *source, uint64_t now_ns)
{
    const struct tcp_head *head = &source->head;
    const struct tcp_landing *landing =
        landings_find(&tcp->landings, head->landing, head->generation);
    int r = 0;
    source->in_piece = false;
    if (head->kind == TCP_PIECE && !landing)
        r = tcp_source_reply(source, TCP_STALE, head->number);
    /* Longer pieces take no room of the sender's copies. */
    const uint32_t copied = head->length_bytes <= TCP_INLINE_BYTES ? head->length_bytes : 0;
    credits_count(&source->credits, copied + sizeof *head);
    if (r == 0 &&
        (head->flags & TCP_TELL || credits_due(&source->credits, TCP_TELL_PIECES, TCP_TELL_BYTES)))
        r = tcp_source_count(source, now_ns);
    else if (source->tell_ns == 0)
        source->tell_ns = now_ns + TCP_TELL_MS * TCP_MS;
    if (head->kind == TCP_PIECE && landing && landing->notify && (head->flags & TCP_LAST))
        tcp->driver.events.notified(tcp->driver.events.context, landing->token);
    return r;
}

/* Bytes of the piece, into its landing if that is there still. */
static void put_bytes(struct tcp_driver *tcp, struct tcp_source *source, const uint8_t *bytes,
                      uint32_t count)
{
    const struct tcp_head *head = &source->head;
    const struct tcp_landing *landing =
        landings_find(&tcp->landings, head->landing, head->generation);
    if (landing && count > 0)
        packed_write(&landing->target, bytes, head->position_bytes + source->piece_bytes, count);
    source->piece_bytes += count;
}

static bool is_back(const struct tcp_head *head)
{
    return head->kind == TCP_RECEIVED || head->kind == TCP_STALE;
}

/* What is in the buffer: how many pieces were completed, or why the connection must end. */
static int digest(struct tcp_driver *tcp, struct tcp_source *source, uint64_t now_ns)
{
    int pieces = 0;
    for (;;) {
        if (!source->in_piece) {
            if (source->end - source->begin < sizeof source->head)
                return pieces;
            memcpy(&source->head, source->buffer + source->begin, sizeof source->head);
            const bool back = source->peer && is_back(&source->head);
            int r = back ? tcp_link_take(&source->peer->link, &source->head) : check(tcp, source);
            if (r < 0)
                return r;
            if (back) {
                source->begin += sizeof source->head;
                pieces++;
                continue;
            }
            source->held = is_ahead(tcp, source);
            if (source->held)
                return pieces;
            source->begin += sizeof source->head;
            begin_piece(tcp, source);
        }
        const uint32_t there = source->end - source->begin,
                       left = source->head.length_bytes - source->piece_bytes,
                       count = there < left ? there : left;
        put_bytes(tcp, source, source->buffer + source->begin, count);
        source->begin += count;
        if (count < left)
            return pieces;
        int r = piece_over(tcp, source, now_ns);
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
static unsigned straight(struct tcp_driver *tcp, const struct tcp_source *source,
                         struct iovec *ret_parts)
{
    const struct tcp_head *head = &source->head;
    if (!source->in_piece || !source->long_piece)
        return 0;
    const struct tcp_landing *landing =
        landings_find(&tcp->landings, head->landing, head->generation);
    if (!landing)
        return 0;
    const unsigned count =
        packed_parts(&landing->target, head->position_bytes + source->piece_bytes,
                     head->length_bytes - source->piece_bytes, ret_parts, TCP_READ_IOVECS);
    return source->stream.kernel && !are_there(ret_parts, count) ? 0 : count;
}

/* How much is read with the end of a long piece, or after it. A record is opened where it belongs if
 * there is room for all of it. */
static uint32_t ahead_bytes(const struct tcp_source *source)
{
    return source->stream.seal || source->stream.kernel ? TCP_RECORD_BYTES : TCP_AHEAD_BYTES;
}

/* One read of a long piece, which is not in the buffer, into `count` parts of it and, if these are
 * all of it, of what follows. The array has room for one more. As receive(). */
static int receive_long(struct tcp_driver *tcp, struct tcp_source *source, struct iovec *parts,
                        unsigned count, uint64_t now_ns)
{
    const uint32_t left = source->head.length_bytes - source->piece_bytes;
    const struct iovec nowhere = {source->buffer,
                                  left < TCP_RECEIVE_BYTES ? left : TCP_RECEIVE_BYTES};
    size_t known = 0;
    for (unsigned i = 0; i < count; i++)
        known += parts[i].iov_len;
    if (known == left)
        parts[count++] = (struct iovec){source->buffer, ahead_bytes(source)};
    ssize_t n = tcp_stream_read(&source->stream, parts, (int)count);
    if (n == -EFAULT) /* pages that its process has taken away */
        n = tcp_stream_read(&source->stream, &nowhere, 1);
    if (n < 0)
        return (int)n;
    const uint32_t taken = n < (ssize_t)left ? (uint32_t)n : left;
    source->piece_bytes += taken;
    source->begin = 0;
    source->end = (uint32_t)n - taken;
    return digest(tcp, source, now_ns);
}

/* One read: pieces, -EAGAIN, or why the connection must end. */
static int receive(struct tcp_driver *tcp, struct tcp_source *source, uint64_t now_ns)
{
    if (source->held) {
        int pieces = digest(tcp, source, now_ns);
        if (source->held || pieces != 0)
            return pieces == 0 ? -EAGAIN : pieces;
    }
    struct iovec parts[TCP_READ_IOVECS + 1];
    const unsigned count = straight(tcp, source, parts);
    if (count > 0)
        return receive_long(tcp, source, parts, count, now_ns);
    memmove(source->buffer, source->buffer + source->begin, source->end - source->begin);
    source->end -= source->begin;
    source->begin = 0;
    const uint32_t room =
        source->long_piece && !source->in_piece ? ahead_bytes(source) : TCP_RECEIVE_BYTES;
    const struct iovec part = {source->buffer + source->end, room - source->end};
    ssize_t n = tcp_stream_read(&source->stream, &part, 1);
    if (n < 0)
        return (int)n;
    source->end += (uint32_t)n;
    return digest(tcp, source, now_ns);
}

void tcp_sources_resume(struct tcp_driver *tcp)
{
    for (struct tcp_source *source = tcp->sources; source; source = source->next) {
        if (!source->held)
            continue;
        source->stream.readable = true;
        tcp_source_heat(tcp, source);
    }
}

int tcp_source_read(struct tcp_driver *tcp, struct tcp_source *source, uint64_t now_ns)
{
    enum { READS = 8 }; /* before others have their turn */
    int pieces = 0, r = 0;
    for (int i = 0; i < READS && r >= 0; i++) {
        r = receive(tcp, source, now_ns);
        if (source->stream.fd < 0)
            return pieces; /* by somebody who was notified */
        if (r >= 0)
            tcp_source_heat(tcp, source);
        pieces += r > 0 ? r : 0;
        if (!source->stream.readable)
            break;
    }
    if (r == -EAGAIN || r >= 0)
        return pieces;
    if (r == -ESHUTDOWN && !source->peer) {
        tcp_source_free(tcp, source);
        return pieces;
    }
    if (r == -EPROTO)
        atomic_fetch_add_explicit(&tcp->forged, 1, memory_order_relaxed);
    tcp_source_disconnect(tcp, source, r, now_ns);
    return pieces;
}
