/* Puts: compiled, cut into pieces in order; flows take turns. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "drivers/tcp/tcp.h"
#include "proto/wait.h"

static int read_blob(const struct driver_put_args *args, struct tcp_blob *ret_blob)
{
    const struct tcp_peer *peer = (const struct tcp_peer *)args->peer;
    struct tcp_blob blob;
    if (args->landing_bytes != sizeof blob)
        return -EINVAL;
    memcpy(&blob, args->landing, sizeof blob);
    if (blob.magic != TCP_BLOB_MAGIC)
        return -EINVAL;
    if (!tcp_same(blob.id, peer->address.id))
        return -ESTALE;
    if (blob.size_bytes != (args->region ? args->layout->size_bytes : 0))
        return -EMSGSIZE;
    *ret_blob = blob;
    return 0;
}

int tcp_put_prepare(struct driver *driver, const struct driver_put_args *args,
                    struct driver_put **ret_put, struct driver_put_info *ret_info)
{
    const struct tcp_region *region = (const struct tcp_region *)args->region;
    struct tcp_blob blob;
    int r = read_blob(args, &blob);
    if (r < 0)
        return r;
    if (region && !layout_fits(args->layout, args->offset_bytes, region->length_bytes))
        return -ERANGE;
    struct tcp_put *put = calloc(1, sizeof *put);
    if (!put)
        return -ENOMEM;
    if (region)
        r = packed_source_init(&put->source, region->base + args->offset_bytes, args->layout);
    if (r < 0) {
        free(put);
        return r;
    }
    put->peer = (struct tcp_peer *)args->peer;
    put->landing = blob.landing;
    put->generation = blob.generation;
    put->copied = put->source.size_bytes <= TCP_INLINE_BYTES;
    put->flow = (struct flow_put){.peer = put->peer, .flow = args->flow};
    *ret_put = (struct driver_put *)put;
    const uint64_t pieces =
        put->source.size_bytes == 0 ? 1 : (put->source.size_bytes - 1) / TCP_PIECE_BYTES + 1;
    *ret_info = (struct driver_put_info){
        .descriptors = pieces < UINT32_MAX ? (uint32_t)pieces : UINT32_MAX,
        .gathered = put->source.program != NULL,
        .memory_bytes = packed_memory_bytes(&put->source),
    };
    return 0;
}

void tcp_put_release(struct driver *driver, struct driver_put *driver_put)
{
    struct tcp_put *put = (struct tcp_put *)driver_put;
    if (!put)
        return;
    assert(!put->op && put->outstanding == 0);
    packed_deinit(&put->source);
    free(put);
}

void tcp_put_done(struct tcp_put *put, int status)
{
    struct driver_op *op = put->op;
    put->op = NULL;
    op->done(op, status);
}

void tcp_put_end_if_over(struct tcp_put *put)
{
    if (put->op && put->made && put->outstanding == 0)
        tcp_put_done(put, put->stale ? -ESTALE : 0);
}

/* The next piece of the put: 1, 0: others are to follow, -EAGAIN: no room. */
static int make_piece(struct tcp_put *put)
{
    struct tcp_link *link = &put->peer->link;
    const uint64_t left = put->source.size_bytes - put->made_bytes;
    const uint32_t length = left < TCP_PIECE_BYTES ? (uint32_t)left : TCP_PIECE_BYTES;
    uint8_t *copy;
    if (!put->copied && link->unwritten >= TCP_UNWRITTEN_MAX)
        return -EAGAIN;
    struct tcp_piece *piece = tcp_link_piece(link, put->copied ? length : 0, &copy);
    if (!piece)
        return -EAGAIN;
    piece->head = (struct tcp_head){
        .kind = TCP_PIECE,
        .length_bytes = length,
        .landing = put->landing,
        .generation = put->generation,
        .position_bytes = put->made_bytes,
        .number = link->made,
    };
    piece->flow = put->flow.flow;
    put->outstanding++;
    put->made_bytes += length;
    put->made = put->made_bytes == put->source.size_bytes;
    if (put->made)
        piece->head.flags |= TCP_LAST;
    if (put->copied) {
        if (length > 0)
            packed_read(&put->source, copy, 0, length);
        piece->copied = put;
    } else {
        piece->put = put;
        link->unwritten++;
        if (put->made)
            piece->head.flags |= TCP_TELL;
    }
    link->made++;
    if (piece->head.flags & TCP_TELL)
        link->telling = link->made;
    return put->made;
}

int tcp_put_post(struct driver *driver, struct driver_put *driver_put, struct driver_op *op)
{
    struct tcp_put *put = (struct tcp_put *)driver_put;
    struct tcp_peer *peer = put->peer;
    if (peer->error < 0)
        return peer->error;
    if (put->stale)
        return -ESTALE;
    op->posted_ns = 0;
    put->op = op;
    put->made_bytes = 0;
    put->made = false;
    int r = -EAGAIN;
    if (!flows_busy(&peer->flows, &put->flow))
        while ((r = make_piece(put)) == 0)
            ;
    tcp_peer_activate(peer);
    if (r > 0)
        tcp_put_end_if_over(put);
    else
        flows_push(&peer->flows, &put->flow);
    return 0;
}

static struct tcp_put *next_of(const struct tcp_peer *peer)
{
    struct flow_put *flow = flows_next(&peer->flows);
    return flow ? (struct tcp_put *)((char *)flow - offsetof(struct tcp_put, flow)) : NULL;
}

int tcp_puts_pump(struct tcp_peer *peer, unsigned budget)
{
    const struct tcp_put *stuck = NULL; /* the first of those since that found no room */
    struct tcp_put *put;
    int made = 0;
    while (budget-- > 0 && (put = next_of(peer)) && put != stuck) {
        int r = put->stale ? 1 : make_piece(put);
        put->made |= put->stale;
        if (r == -EAGAIN) {
            stuck = stuck ? stuck : put;
        } else {
            stuck = NULL;
            made++;
        }
        if (r <= 0) {
            flows_turn(&peer->flows);
            continue;
        }
        flows_remove(&peer->flows, &put->flow);
        put->op->posted_ns = clock_now_ns();
        tcp_put_end_if_over(put);
    }
    return made;
}
