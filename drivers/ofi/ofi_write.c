/* One write of a put. */
#include <errno.h>
#include <rdma/fi_rma.h>

#include "drivers/ofi/ofi.h"

int ofi_write_data(struct ofi_driver *ofi, fi_addr_t to, uint64_t address, uint64_t key,
                   uint32_t data)
{
    static const uint64_t zero; /* some providers do not write nothing */
    int r = (int)fi_inject_writedata(ofi->endpoint, &zero, sizeof(zero), data, to, address, key);
    return r == -FI_EAGAIN ? -EAGAIN : r;
}

int ofi_write_probe(struct ofi_driver *ofi, struct ofi_peer *peer)
{
    static const uint64_t zero;
    int r = (int)fi_inject_write(ofi->endpoint, &zero, sizeof(zero), peer->name->fi_addr,
                                 peer->address.sink_address, peer->address.sink_key);
    return r == -FI_EAGAIN ? -EAGAIN : r;
}

static int blocked(struct ofi_put *put, enum ofi_blocked why)
{
    put->peer->blocked = why;
    return -EAGAIN;
}

static int answer(struct ofi_put *put, ssize_t r)
{
    if (r == -FI_EAGAIN) {
        put->op->retries++;
        return blocked(put, OFI_BLOCKED_PROVIDER);
    }
    return (int)r;
}

struct write {
    struct iovec iov[2];
    void *descriptors[2];
    size_t iov_count;
    uint64_t address, key, bytes;
    bool with_data;
    uint32_t data;
};

static int post(struct ofi_driver *ofi, struct ofi_put *put, struct ofi_request *request,
                const struct write *write)
{
    struct fi_rma_iov target = {.addr = write->address, .len = write->bytes, .key = write->key};
    struct fi_msg_rma message = {
        .msg_iov = write->iov,
        .desc = (void **)write->descriptors,
        .iov_count = write->iov_count,
        .addr = put->peer->name->fi_addr,
        .rma_iov = &target,
        .rma_iov_count = 1,
        .context = request,
        .data = write->data,
    };
    ssize_t r = fi_writemsg(ofi->endpoint, &message,
                            ofi->write_flags | (write->with_data ? FI_REMOTE_CQ_DATA : 0));
    if (r < 0) {
        ofi_write_give(ofi, request);
        return answer(put, r);
    }
    put->outstanding++;
    return 0;
}

/* An injected write is not heard of again: now and then one has to be that is, or we would not know
 * that all is well. */
static bool may_inject(const struct ofi_driver *ofi, const struct ofi_put *put)
{
    return put->size_bytes <= ofi->inject_bytes && put->peer->injected < OFI_INJECTS_MAX;
}

static int inject(struct ofi_driver *ofi, struct ofi_put *put)
{
    const fi_addr_t to = put->peer->name->fi_addr;
    uint8_t packed[OFI_INJECT_MAX];
    const void *source = put->base;
    ssize_t r;

    if (put->packer) {
        copy_program_pack(put->packer, packed, put->base, 0, put->size_bytes);
        source = packed;
    }
    if (put->notify)
        r = fi_inject_writedata(ofi->endpoint, source, put->size_bytes, put->data, to, put->address,
                                put->key);
    else
        r = fi_inject_write(ofi->endpoint, source, put->size_bytes, to, put->address, put->key);
    if (r < 0)
        return answer(put, r);
    put->peer->injected++;
    put->posted_bytes = put->size_bytes;
    return 0;
}

/* No data: eight bytes to the peer's sink, because some providers do not write nothing. */
static int write_notify(struct ofi_driver *ofi, struct ofi_put *put)
{
    if (!put->notify)
        return 0;
    if (may_inject(ofi, put)) {
        int r = ofi_write_data(ofi, put->peer->name->fi_addr, put->address, put->key, put->data);
        put->peer->injected += r == 0;
        return r == -EAGAIN ? answer(put, -FI_EAGAIN) : r;
    }
    struct ofi_request *request = ofi_write_take(ofi, put, false);
    if (!request)
        return blocked(put, OFI_BLOCKED_BUFFERS);
    struct write write = {
        .iov = {{.iov_base = ofi->sink.base, .iov_len = sizeof(uint64_t)}},
        .descriptors = {fi_mr_desc(ofi->sink.mr)},
        .iov_count = 1,
        .address = put->address,
        .key = put->key,
        .bytes = sizeof(uint64_t),
        .with_data = true,
        .data = put->data,
    };
    return post(ofi, put, request, &write);
}

/* DIRECT and GATHER: the next piece, to the target itself. */
static int write_target(struct ofi_driver *ofi, struct ofi_put *put)
{
    const uint64_t left = put->size_bytes - put->posted_bytes;
    const uint64_t most = put->packer ? ofi->requests.segment_bytes : ofi->write_max_bytes;
    const uint64_t piece = left < most ? left : most;
    const bool last = piece == left;

    if (put->outstanding >= (put->packer ? OFI_SEGMENTS_MAX : OFI_PIECES_MAX))
        return blocked(put, OFI_BLOCKED_ORDER);
    if (last && put->notify && !ofi->ordered && put->outstanding > 0)
        return blocked(put, OFI_BLOCKED_ORDER);
    struct ofi_request *request = ofi_write_take(ofi, put, put->packer);
    if (!request)
        return blocked(put, OFI_BLOCKED_BUFFERS);
    struct write write = {
        .iov = {{.iov_base = put->base + put->posted_bytes, .iov_len = piece}},
        .descriptors = {put->descriptor},
        .iov_count = 1,
        .address = put->address + put->posted_bytes,
        .key = put->key,
        .bytes = piece,
        .with_data = last && put->notify,
        .data = put->data,
    };
    if (put->packer) {
        copy_program_pack(put->packer, request->buffer, put->base, put->posted_bytes, piece);
        write.iov[0].iov_base = request->buffer;
        write.descriptors[0] = fi_mr_desc(ofi->requests.bounce_memory.mr);
    }
    int r = post(ofi, put, request, &write);
    put->posted_bytes += r == 0 ? piece : 0;
    return r;
}

/* RING: the next segment, into the next slot of the peer's ring. */
static int write_segment(struct ofi_driver *ofi, struct ofi_put *put)
{
    struct ofi_link *link = &put->peer->link;
    if (put->outstanding >= OFI_SEGMENTS_MAX)
        return blocked(put, OFI_BLOCKED_ORDER);
    if (link->state != OFI_LINK_READY) {
        int r = ofi_link_ask(ofi, put->peer);
        if (r == -EAGAIN)
            return answer(put, -FI_EAGAIN);
        return r < 0 ? r : blocked(put, OFI_BLOCKED_LINK);
    }
    if (link->sent - link->returned == link->slots)
        return blocked(put, OFI_BLOCKED_LINK);
    struct ofi_request *request = ofi_write_take(ofi, put, true);
    if (!request)
        return blocked(put, OFI_BLOCKED_BUFFERS);

    const uint64_t left = put->size_bytes - put->posted_bytes;
    uint64_t piece = link->slot_bytes - sizeof(struct ofi_segment);
    if (piece > ofi->requests.segment_bytes)
        piece = ofi->requests.segment_bytes;
    if (piece > left)
        piece = left;
    struct ofi_segment *segment = (struct ofi_segment *)request->buffer;
    *segment = (struct ofi_segment){
        .secret = link->secret,
        .landing_key = put->landing_key,
        .position_bytes = put->posted_bytes,
        .length_bytes = (uint32_t)piece,
        .landing = put->data,
        .sequence = link->sent,
        .flags = piece == left ? OFI_SEGMENT_LAST : 0,
    };
    void *bounce_descriptor = fi_mr_desc(ofi->requests.bounce_memory.mr);
    struct write write = {
        .iov = {{.iov_base = segment, .iov_len = sizeof(*segment)},
                {.iov_base = put->base + put->posted_bytes, .iov_len = piece}},
        .descriptors = {bounce_descriptor, put->descriptor},
        .iov_count = 2,
        .address = link->address + (uint64_t)(link->sent % link->slots) * link->slot_bytes,
        .key = link->key,
        .bytes = sizeof(*segment) + piece,
        .with_data = true,
        .data = ofi_data_link(OFI_DATA_SEGMENT, link->source_epoch, link->source, link->sent),
    };
    if (put->packer) {
        copy_program_pack(put->packer, segment + 1, put->base, put->posted_bytes, piece);
        write.iov[0].iov_len += piece;
        write.iov_count = 1;
    }
    int r = post(ofi, put, request, &write);
    if (r == 0) {
        put->posted_bytes += piece;
        link->sent++;
    }
    return r;
}

int ofi_write_next(struct ofi_driver *ofi, struct ofi_put *put)
{
    if (put->path == OFI_QUESTION)
        return ofi_flush_ask(ofi, (struct ofi_flush *)put);
    int r = put->path == OFI_NOTIFY ? write_notify(ofi, put)
            : put->path == OFI_RING ? write_segment(ofi, put)
            : may_inject(ofi, put)  ? inject(ofi, put)
                                    : write_target(ofi, put);
    if (r == 0)
        put->posted = put->posted_bytes == put->size_bytes;
    return r;
}
