/* Puts: compiled, cut into pieces in order; flows take turns. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "drivers/puts.h"
#include "drivers/tcp/tcp.h"

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
    const struct tcp_region *region = (const struct tcp_region *)args->region;
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

/* The next piece of the put; see window_make. */
static int make_piece(struct window_put *base)
{
    struct tcp_put *put = (struct tcp_put *)base;
    struct tcp_link *link = &put->peer->link;
    const uint64_t left = base->end_bytes - base->made_bytes;
    const uint32_t length = left < TCP_PIECE_BYTES ? (uint32_t)left : TCP_PIECE_BYTES;
    if (!put->copied && link->unwritten >= TCP_UNWRITTEN_MAX)
        return -EAGAIN;
    struct tcp_piece *piece = tcp_link_piece(link, put->copied ? length : 0);
    if (!piece)
        return -EAGAIN;
    piece->head = (struct tcp_head){
        .kind = TCP_PIECE,
        .length_bytes = length,
        .landing = put->landing,
        .generation = put->generation,
        .position_bytes = base->made_bytes + base->shift_bytes,
        .number = link->window.made,
    };
    piece->base.put = base;
    piece->base.flow = base->flow.flow;
    piece->copied = put->copied;
    if (put->copied && length > 0)
        packed_read(&put->source, link->copies + piece->base.offset, base->made_bytes, length);
    base->made_bytes += length;
    base->made = base->made_bytes == base->end_bytes;
    if (base->made)
        piece->head.flags |= TCP_LAST;
    link->unwritten += !put->copied;
    window_add(&link->window, &piece->base);
    if (base->made && !put->copied) {
        piece->head.flags |= TCP_TELL;
        link->telling = link->window.made;
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
    window_post(&peer->link.window, &put->base, op, TCP_WINDOW, make_piece);
    return 0;
}

int tcp_puts_pump(struct tcp_peer *peer, unsigned budget)
{
    return window_pump(&peer->link.window, budget, make_piece);
}
