/* Operations: a piece written to its target, or a segment written to the peer's ring. */
#include <errno.h>
#include <rdma/fi_rma.h>
#include <string.h>

#include "drivers/ofi/ofi.h"

int ofi_write_small(struct ofi_driver *ofi, struct ofi_name *to, uint64_t address, uint64_t key,
                    const void *bytes, size_t count, uint64_t data)
{
    int r = (int)fi_inject_writedata(ofi->endpoint, bytes, count, data, to->fi_addr, address, key);
    r = r == -FI_EAGAIN ? -EAGAIN : r;
    ofi_name_note(ofi, to, r);
    return r;
}

int ofi_write_probe(struct ofi_driver *ofi, struct ofi_name *name,
                    const struct ofi_address *address)
{
    static const uint64_t zero; /* some providers send no packet for 0 bytes */
    int r = (int)fi_inject_write(ofi->endpoint, &zero, sizeof(zero), name->fi_addr,
                                 address->sink_address, address->sink_key);
    return r == -FI_EAGAIN ? -EAGAIN : r;
}

static int blocked(struct ofi_peer *peer, enum ofi_blocked why)
{
    peer->blocked = why;
    return -EAGAIN;
}

/* ---- posting to the provider ---- */

struct write {
    struct iovec iov[2];
    void *descriptors[2];
    size_t iov_count;
    uint64_t address, key, bytes;
    uint64_t data;
};

static int post(struct ofi_driver *ofi, struct ofi_request *request, const struct write *write)
{
    struct ofi_peer *peer = request->peer;
    struct fi_rma_iov target = {.addr = write->address, .len = write->bytes, .key = write->key};
    struct fi_msg_rma message = {
        .msg_iov = write->iov,
        .desc = (void **)write->descriptors,
        .iov_count = write->iov_count,
        .addr = peer->name->fi_addr,
        .rma_iov = &target,
        .rma_iov_count = 1,
        .context = request,
        .data = write->data,
    };
    ssize_t r = fi_writemsg(ofi->endpoint, &message, ofi->write_flags | FI_REMOTE_CQ_DATA);
    ofi_name_note(ofi, peer->name, r == -FI_EAGAIN ? -EAGAIN : (int)r);
    if (r < 0) {
        ofi_write_give(ofi, request);
        return r == -FI_EAGAIN ? blocked(peer, OFI_BLOCKED_PROVIDER) : (int)r;
    }
    request->busy = true;
    request->number = atomic_load_explicit(&ofi->posted, memory_order_relaxed) + 1;
    atomic_store_explicit(&ofi->posted, request->number, memory_order_relaxed);
    if (request->put) {
        request->put->outstanding++;
        request->put->base.pending++;
    }
    return 0;
}

static uint64_t data_of(const struct ofi_driver *ofi, const struct ofi_link *link,
                        const struct ofi_operation *operation, uint64_t sequence)
{
    const uint32_t data = ofi_data_link(operation->piece ? OFI_DATA_PIECE : OFI_DATA_SEGMENT,
                                        link->source_epoch, link->source, sequence);
    return ofi_data_sign(data, &link->secret, ofi->wide_data);
}

/* If the target is gone, writes to the peer's sink instead, because the operation must be
 * counted. */
static int post_piece(struct ofi_driver *ofi, struct ofi_peer *peer,
                      const struct ofi_operation *operation, uint64_t sequence)
{
    struct ofi_put *put = (struct ofi_put *)operation->base.put;
    const bool to_sink = !put || put->base.stale, packs = !to_sink && put->source.program;
    struct ofi_request *request = ofi_write_take(ofi, peer, to_sink || packs ? NULL : put, packs);
    if (!request)
        return blocked(peer, OFI_BLOCKED_BUFFERS);
    struct write write = {.iov_count = 1, .data = data_of(ofi, &peer->link, operation, sequence)};
    if (to_sink) {
        if (put)
            put->base.error = -ESTALE;
        write.iov[0] = (struct iovec){ofi->sink.base, sizeof(uint64_t)};
        write.descriptors[0] = fi_mr_desc(ofi->sink.mr);
        write.address = peer->address.sink_address;
        write.key = peer->address.sink_key;
        write.bytes = sizeof(uint64_t);
        return post(ofi, request, &write);
    }
    write.address = put->address + operation->position_bytes;
    write.key = put->key;
    write.bytes = operation->length_bytes;
    if (packs) {
        packed_read(&put->source, request->buffer, operation->position_bytes,
                    operation->length_bytes);
        write.iov[0] = (struct iovec){request->buffer, operation->length_bytes};
        write.descriptors[0] = fi_mr_desc(ofi->requests.staging_memory.mr);
    } else {
        write.iov[0] =
            (struct iovec){put->source.base + operation->position_bytes, operation->length_bytes};
        write.descriptors[0] = put->descriptor;
    }
    return post(ofi, request, &write);
}

static struct ofi_segment *segment_of(const struct ofi_link *link,
                                      const struct ofi_operation *operation)
{
    return (struct ofi_segment *)(link->mirror->memory.base + operation->base.offset);
}

/* From the mirror, or the header from there and the payload from the source. */
static int post_segment(struct ofi_driver *ofi, struct ofi_peer *peer,
                        const struct ofi_operation *operation, uint64_t sequence)
{
    struct ofi_link *link = &peer->link;
    struct ofi_put *put = (struct ofi_put *)operation->base.put;
    struct ofi_request *request = ofi_write_take(ofi, peer, put, false);
    if (!request)
        return blocked(peer, OFI_BLOCKED_BUFFERS);
    struct ofi_segment *segment = segment_of(link, operation);
    if (put && put->base.stale)
        segment->landing = UINT32_MAX; /* notifies nobody */
    struct write write = {
        .iov = {{segment, sizeof(*segment)}},
        .descriptors = {fi_mr_desc(link->mirror->memory.mr)},
        .iov_count = 1,
        .address = link->address + operation->base.offset,
        .key = link->key,
        .bytes = sizeof(*segment) + operation->length_bytes,
        .data = data_of(ofi, link, operation, sequence),
    };
    if (put && operation->length_bytes > 0) {
        write.iov[1] =
            (struct iovec){put->source.base + operation->position_bytes, operation->length_bytes};
        write.descriptors[1] = put->descriptor;
        write.iov_count = 2;
    } else {
        write.iov[0].iov_len += operation->length_bytes;
    }
    return post(ofi, request, &write);
}

static int post_operation(struct ofi_driver *ofi, struct ofi_peer *peer,
                          const struct ofi_operation *operation, uint64_t sequence)
{
    return operation->piece ? post_piece(ofi, peer, operation, sequence)
                            : post_segment(ofi, peer, operation, sequence);
}

int ofi_write_again(struct ofi_driver *ofi, struct ofi_peer *peer)
{
    struct ofi_link *link = &peer->link;
    const struct ofi_operation *operation = ofi_operation(peer, link->again);
    int r = post_operation(ofi, peer, operation, link->again);
    if (r == 0) {
        if (operation->base.put && operation->base.put->op)
            operation->base.put->op->retries++;
        link->again++;
    }
    return r;
}

/* ---- making operations ---- */

static int send_operation(struct ofi_driver *ofi, struct ofi_peer *peer,
                          const struct ofi_operation *operation)
{
    struct window *window = &peer->window;
    int r = post_operation(ofi, peer, operation, window->made);
    if (r < 0)
        return r;
    if (window->made == window->counted)
        peer->link.heard_ns = clock_now_ns();
    window_add(window, &operation->base);
    peer->link.again = window->made;
    return 0;
}

static int send_piece(struct ofi_driver *ofi, struct ofi_put *put, uint64_t left)
{
    const bool packs = put->source.program;
    const uint64_t most = packs ? ofi->requests.segment_bytes : ofi->write_max_bytes;
    if (put->outstanding >= (packs ? OFI_SEGMENTS_MAX : OFI_PIECES_MAX))
        return blocked(put->peer, OFI_BLOCKED_ORDER);
    struct ofi_operation *operation = (struct ofi_operation *)window_next(&put->peer->window, 0);
    if (!operation)
        return blocked(put->peer, OFI_BLOCKED_LINK);
    operation->base.put = &put->base;
    operation->position_bytes = put->base.made_bytes;
    operation->length_bytes = (uint32_t)(left < most ? left : most);
    operation->piece = true;
    int r = send_operation(ofi, put->peer, operation);
    if (r == 0)
        put->base.made_bytes += operation->length_bytes;
    return r;
}

/* The next operation, a segment at the head of the ring, with its header in the mirror. NULL: no
 * room. */
static struct ofi_operation *begin_segment(struct ofi_peer *peer, uint32_t length_bytes)
{
    struct ofi_operation *operation = (struct ofi_operation *)window_next(
        &peer->window, (uint32_t)sizeof(struct ofi_segment) + length_bytes);
    if (!operation)
        return NULL;
    operation->length_bytes = length_bytes;
    operation->piece = false;
    *segment_of(&peer->link, operation) = (struct ofi_segment){
        .secret = peer->link.secret,
        .sequence = peer->window.made,
        .length_bytes = length_bytes,
    };
    return operation;
}

static int send_segment(struct ofi_driver *ofi, struct ofi_peer *peer,
                        const struct ofi_operation *operation)
{
    int r = send_operation(ofi, peer, operation);
    if (r == 0 && segment_of(&peer->link, operation)->flags & OFI_SEGMENT_ASK)
        peer->window.asked = peer->window.made;
    return r;
}

/* A segment of a put: with payload if the put goes through the ring; without at the end of a put
 * that was written in pieces. */
static int send_put_segment(struct ofi_driver *ofi, struct ofi_put *put, uint64_t left)
{
    struct ofi_peer *peer = put->peer;
    uint64_t most = peer->window.ring.largest - sizeof(struct ofi_segment);
    if (most > ofi->requests.segment_bytes)
        most = ofi->requests.segment_bytes;
    const uint32_t length = (uint32_t)(left < most ? left : most);
    const bool copied = length == 0 || put->copied || put->source.program;
    if (!copied && put->outstanding >= OFI_SEGMENTS_MAX)
        return blocked(peer, OFI_BLOCKED_ORDER);
    struct ofi_operation *operation = begin_segment(peer, length);
    if (!operation)
        return blocked(peer, OFI_BLOCKED_LINK);
    /* A put that was written in pieces completes when its last segment is counted. */
    if (!copied || put->path != OFI_RING)
        operation->base.put = &put->base;
    operation->position_bytes = put->base.made_bytes;
    struct ofi_segment *segment = segment_of(&peer->link, operation);
    segment->landing_key = put->landing_key;
    segment->position_bytes = length > 0 ? put->base.made_bytes + put->base.shift_bytes : 0;
    segment->landing = put->landing;
    segment->generation = put->generation;
    if (length == left) {
        segment->flags = OFI_SEGMENT_LAST | (operation->base.put ? OFI_SEGMENT_ASK : 0);
        operation->base.done = !operation->base.put;
        operation->base.flow = put->base.flow.flow;
    }
    if (copied && length > 0)
        packed_read(&put->source, segment + 1, put->base.made_bytes, length);
    int r = send_segment(ofi, peer, operation);
    if (r < 0)
        return r;
    put->base.made_bytes += length;
    put->base.made = put->base.made_bytes == put->base.end_bytes;
    return 0;
}

/* Whether new operations may be made. */
static bool is_open(const struct ofi_peer *peer)
{
    return peer->link.state == OFI_LINK_READY && peer->link.again == peer->window.made;
}

int ofi_write_ask(struct ofi_driver *ofi, struct ofi_peer *peer)
{
    struct ofi_operation *operation = is_open(peer) ? begin_segment(peer, 0) : NULL;
    if (!operation)
        return blocked(peer, OFI_BLOCKED_LINK);
    segment_of(&peer->link, operation)->landing = UINT32_MAX; /* notifies nobody */
    segment_of(&peer->link, operation)->flags = OFI_SEGMENT_ASK;
    return send_segment(ofi, peer, operation);
}

int ofi_write_next(struct ofi_driver *ofi, struct ofi_put *put)
{
    if (!is_open(put->peer))
        return blocked(put->peer, OFI_BLOCKED_LINK);
    const uint64_t left = put->base.end_bytes - put->base.made_bytes;
    if (put->path != OFI_RING && left > 0)
        return send_piece(ofi, put, left);
    if (!ofi->ordered && put->outstanding > 0)
        return blocked(put->peer, OFI_BLOCKED_ORDER);
    return send_put_segment(ofi, put, left);
}
