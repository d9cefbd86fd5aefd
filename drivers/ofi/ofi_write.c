/* One unit of a put: a piece to its target, or a segment to the peer's ring. */
#include <errno.h>
#include <rdma/fi_rma.h>
#include <string.h>

#include "drivers/ofi/ofi.h"
#include "proto/wait.h"

int ofi_write_small(struct ofi_driver *ofi, struct ofi_name *to, uint64_t address, uint64_t key,
                    const void *bytes, size_t count, uint64_t data)
{
    int r = (int)fi_inject_writedata(ofi->endpoint, bytes, count, data, to->fi_addr, address, key);
    r = r == -FI_EAGAIN ? -EAGAIN : r;
    ofi_name_answered(ofi, to, r);
    return r;
}

int ofi_write_probe(struct ofi_driver *ofi, struct ofi_name *name,
                    const struct ofi_address *address)
{
    static const uint64_t zero; /* some providers do not write nothing */
    int r = (int)fi_inject_write(ofi->endpoint, &zero, sizeof(zero), name->fi_addr,
                                 address->sink_address, address->sink_key);
    return r == -FI_EAGAIN ? -EAGAIN : r;
}

static int blocked(struct ofi_peer *peer, enum ofi_blocked why)
{
    peer->blocked = why;
    return -EAGAIN;
}

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
    ofi_name_answered(ofi, peer->name, r == -FI_EAGAIN ? -EAGAIN : (int)r);
    if (r < 0) {
        ofi_write_give(ofi, request);
        return r == -FI_EAGAIN ? blocked(peer, OFI_BLOCKED_PROVIDER) : (int)r;
    }
    request->busy = true;
    request->number = ++ofi->posted;
    if (request->put)
        request->put->outstanding++;
    return 0;
}

static uint64_t data_of(const struct ofi_driver *ofi, const struct ofi_link *link,
                        const struct ofi_unit *unit, uint64_t sequence)
{
    const uint32_t data = ofi_data_link(unit->piece ? OFI_DATA_PIECE : OFI_DATA_SEGMENT,
                                        link->source_epoch, link->source, sequence);
    return ofi_data_sign(data, &link->secret, ofi->wide_data);
}

/* To the target itself. What leads to freed memory any more goes nowhere, but counts. */
static int post_piece(struct ofi_driver *ofi, struct ofi_peer *peer, const struct ofi_unit *unit,
                      uint64_t sequence)
{
    struct ofi_put *put = unit->put;
    const bool nowhere = !put || put->stale, packed = !nowhere && put->packer;
    struct ofi_request *request = ofi_write_take(ofi, peer, nowhere || packed ? NULL : put, packed);
    if (!request)
        return blocked(peer, OFI_BLOCKED_BUFFERS);
    struct write write = {.iov_count = 1, .data = data_of(ofi, &peer->link, unit, sequence)};
    if (nowhere) {
        if (put)
            put->error = -ESTALE;
        write.iov[0] = (struct iovec){ofi->sink.base, sizeof(uint64_t)};
        write.descriptors[0] = fi_mr_desc(ofi->sink.mr);
        write.address = peer->address.sink_address;
        write.key = peer->address.sink_key;
        write.bytes = sizeof(uint64_t);
        return post(ofi, request, &write);
    }
    write.iov[0] = (struct iovec){put->base + unit->position_bytes, unit->length_bytes};
    write.descriptors[0] = put->descriptor;
    write.address = put->address + unit->position_bytes;
    write.key = put->key;
    write.bytes = unit->length_bytes;
    if (packed) {
        copy_program_pack(put->packer, request->buffer, put->base, unit->position_bytes,
                          unit->length_bytes);
        write.iov[0].iov_base = request->buffer;
        write.descriptors[0] = fi_mr_desc(ofi->requests.bounce_memory.mr);
    }
    return post(ofi, request, &write);
}

/* The mirror has it, or its header and the put the rest. */
static int post_segment(struct ofi_driver *ofi, struct ofi_peer *peer, const struct ofi_unit *unit,
                        uint64_t sequence)
{
    struct ofi_link *link = &peer->link;
    struct ofi_put *put = unit->put;
    struct ofi_request *request = ofi_write_take(ofi, peer, put, false);
    if (!request)
        return blocked(peer, OFI_BLOCKED_BUFFERS);
    if (put && put->stale) /* nobody is to be told of what is not there */
        ((struct ofi_segment *)(link->mirror->memory.base + unit->offset))->landing = UINT32_MAX;
    struct write write = {
        .iov = {{link->mirror->memory.base + unit->offset, sizeof(struct ofi_segment)}},
        .descriptors = {fi_mr_desc(link->mirror->memory.mr)},
        .iov_count = 1,
        .address = link->address + unit->offset,
        .key = link->key,
        .bytes = sizeof(struct ofi_segment) + unit->length_bytes,
        .data = data_of(ofi, link, unit, sequence),
    };
    if (put && unit->length_bytes > 0) {
        write.iov[1] = (struct iovec){put->base + unit->position_bytes, unit->length_bytes};
        write.descriptors[1] = put->descriptor;
        write.iov_count = 2;
    } else {
        write.iov[0].iov_len += unit->length_bytes;
    }
    return post(ofi, request, &write);
}

static int post_unit(struct ofi_driver *ofi, struct ofi_peer *peer, const struct ofi_unit *unit,
                     uint64_t sequence)
{
    return unit->piece ? post_piece(ofi, peer, unit, sequence)
                       : post_segment(ofi, peer, unit, sequence);
}

int ofi_write_again(struct ofi_driver *ofi, struct ofi_peer *peer)
{
    struct ofi_link *link = &peer->link;
    const struct ofi_unit *unit = &link->units[link->again % OFI_WINDOW];
    int r = post_unit(ofi, peer, unit, link->again);
    if (r == 0) {
        if (unit->put && unit->put->op)
            unit->put->op->retries++;
        link->again++;
    }
    return r;
}

/* Whether so much more fits into the ring at its head, beside what was not yet counted. */
static bool has_room(const struct ofi_link *link, uint32_t bytes)
{
    uint64_t first = link->counted;
    while (first != link->sent && link->units[first % OFI_WINDOW].piece)
        first++;
    if (first == link->sent)
        return true;
    const uint32_t tail = link->units[first % OFI_WINDOW].offset;
    return tail < link->head || link->head + bytes <= tail;
}

/* It is sent, and kept until it is counted. */
static int send_unit(struct ofi_driver *ofi, struct ofi_peer *peer, const struct ofi_unit *unit)
{
    struct ofi_link *link = &peer->link;
    int r = post_unit(ofi, peer, unit, link->sent);
    if (r < 0)
        return r;
    if (link->sent == link->counted)
        link->heard_ns = clock_now_ns();
    link->units[link->sent++ % OFI_WINDOW] = *unit;
    link->again = link->sent;
    if (unit->put)
        unit->put->uncounted++;
    return 0;
}

/* In the mirror, at the ring's head. */
static struct ofi_segment *begin_segment(struct ofi_link *link, uint32_t length_bytes)
{
    struct ofi_segment *segment = (struct ofi_segment *)(link->mirror->memory.base + link->head);
    *segment = (struct ofi_segment){
        .secret = link->secret,
        .sequence = link->sent,
        .length_bytes = length_bytes,
    };
    return segment;
}

static int send_segment(struct ofi_driver *ofi, struct ofi_peer *peer,
                        const struct ofi_segment *segment, struct ofi_unit *unit)
{
    struct ofi_link *link = &peer->link;
    unit->offset = link->head;
    int r = send_unit(ofi, peer, unit);
    if (r < 0)
        return r;
    link->head =
        ofi_segment_after(link->head, segment->length_bytes, link->segment_bytes, link->ring_bytes);
    if (segment->flags & OFI_SEGMENT_ASK)
        link->asked_for = link->sent;
    return 0;
}

static int send_piece(struct ofi_driver *ofi, struct ofi_put *put, uint64_t left)
{
    const uint64_t most = put->packer ? ofi->requests.segment_bytes : ofi->write_max_bytes;
    const struct ofi_unit unit = {
        .put = put,
        .position_bytes = put->posted_bytes,
        .length_bytes = (uint32_t)(left < most ? left : most),
        .piece = true,
    };
    if (put->outstanding >= (put->packer ? OFI_SEGMENTS_MAX : OFI_PIECES_MAX))
        return blocked(put->peer, OFI_BLOCKED_ORDER);
    int r = send_unit(ofi, put->peer, &unit);
    if (r == 0)
        put->posted_bytes += unit.length_bytes;
    return r;
}

/* With what is left of a put that goes through the ring, as far as it fits; with nothing at the end
 * of one whose pieces went before. */
static int send_last(struct ofi_driver *ofi, struct ofi_put *put, uint64_t left)
{
    struct ofi_link *link = &put->peer->link;
    uint64_t most = link->segment_bytes - sizeof(struct ofi_segment);
    if (most > ofi->requests.segment_bytes)
        most = ofi->requests.segment_bytes;
    const uint32_t length = (uint32_t)(left < most ? left : most);
    const bool copied = length == 0 || put->copied || put->packer;
    if (!copied && put->outstanding >= OFI_SEGMENTS_MAX)
        return blocked(put->peer, OFI_BLOCKED_ORDER);
    if (!has_room(link, (uint32_t)sizeof(struct ofi_segment) + length))
        return blocked(put->peer, OFI_BLOCKED_LINK);
    /* The last segment of pieces is the put's, too: it is done when they are known to be there. */
    struct ofi_unit unit = {
        .put = copied && !(length == 0 && put->path != OFI_RING) ? NULL : put,
        .position_bytes = put->posted_bytes,
        .length_bytes = length,
    };
    struct ofi_segment *segment = begin_segment(link, length);
    segment->landing_key = put->landing_key;
    segment->position_bytes = length > 0 ? put->posted_bytes : 0;
    segment->landing = put->landing;
    if (length == left) {
        segment->flags = OFI_SEGMENT_LAST | (unit.put ? OFI_SEGMENT_ASK : 0);
        unit.done = !unit.put;
        unit.flow = put->place.flow;
    }
    if (put->packer && length > 0)
        copy_program_pack(put->packer, segment + 1, put->base, put->posted_bytes, length);
    else if (copied && length > 0)
        memcpy(segment + 1, put->base + put->posted_bytes, length);
    int r = send_segment(ofi, put->peer, segment, &unit);
    if (r < 0)
        return r;
    put->posted_bytes += length;
    put->posted = put->posted_bytes == put->size_bytes;
    return 0;
}

/* Whether anything new may be sent now. */
static bool is_open(const struct ofi_link *link)
{
    return link->state == OFI_LINK_READY && link->again == link->sent &&
           link->sent - link->counted < OFI_WINDOW;
}

int ofi_write_ask(struct ofi_driver *ofi, struct ofi_peer *peer)
{
    struct ofi_link *link = &peer->link;
    if (!is_open(link) || !has_room(link, sizeof(struct ofi_segment)))
        return blocked(peer, OFI_BLOCKED_LINK);
    struct ofi_unit unit = {0};
    struct ofi_segment *segment = begin_segment(link, 0);
    segment->landing = UINT32_MAX; /* nothing is to be told */
    segment->flags = OFI_SEGMENT_ASK;
    return send_segment(ofi, peer, segment, &unit);
}

int ofi_write_next(struct ofi_driver *ofi, struct ofi_put *put)
{
    struct ofi_link *link = &put->peer->link;
    if (!is_open(link))
        return blocked(put->peer, OFI_BLOCKED_LINK);
    const uint64_t left = put->size_bytes - put->posted_bytes;
    if (put->path != OFI_RING && left > 0)
        return send_piece(ofi, put, left);
    if (!ofi->ordered && put->outstanding > 0)
        return blocked(put->peer, OFI_BLOCKED_ORDER);
    return send_last(ofi, put, left);
}
