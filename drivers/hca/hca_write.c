/* The path WRITE: chains of RDMA writes, the last of which tells the receiver. */
#include <arpa/inet.h>
#include <errno.h>

#include "drivers/hca/hca.h"

struct chain {
    struct ibv_send_wr requests[HCA_CHAIN];
    struct ibv_sge sges[HCA_CHAIN][HCA_SGES];
    unsigned count;
};

/* Where the next bytes of a put go. */
struct target {
    struct layout_cursor cursor; /* with blocks */
    uint64_t address, left_bytes;
};

static void target_init(struct target *target, const struct hca_put *put)
{
    target->left_bytes = 0;
    if (put->blocks) {
        layout_cursor_init(&target->cursor, put->blocks,
                           put->base.made_bytes + put->base.shift_bytes);
    } else {
        target->address = put->target_address + put->base.made_bytes + put->base.shift_bytes;
        target->left_bytes = put->base.end_bytes - put->base.made_bytes;
    }
}

static bool target_next(struct target *target, const struct hca_put *put)
{
    int64_t offset;
    if (target->left_bytes > 0)
        return true;
    if (!put->blocks ||
        !layout_cursor_next(&target->cursor, HCA_CHAIN_BYTES, &offset, &target->left_bytes))
        return false;
    target->address = put->target_address + (uint64_t)offset;
    return true;
}

/* One write, of at most so many bytes, from packed position; returns its bytes. */
static uint64_t add_write(struct chain *chain, const struct hca_put *put, uint64_t position_bytes,
                          uint64_t most_bytes, uint64_t address)
{
    struct iovec parts[HCA_SGES];
    struct ibv_sge *sges = chain->sges[chain->count];
    const unsigned count =
        packed_parts(&put->source, position_bytes, most_bytes, parts, put->peer->hca->sges);
    uint64_t bytes = 0;
    for (unsigned i = 0; i < count; i++) {
        sges[i] = (struct ibv_sge){.addr = (uintptr_t)parts[i].iov_base,
                                   .length = (uint32_t)parts[i].iov_len,
                                   .lkey = put->lkey};
        bytes += parts[i].iov_len;
    }
    chain->requests[chain->count++] = (struct ibv_send_wr){
        .opcode = IBV_WR_RDMA_WRITE,
        .sg_list = sges,
        .num_sge = (int)count,
        .wr.rdma = {.remote_addr = address, .rkey = put->rkey},
    };
    return bytes;
}

/* Returns the packed bytes. */
static uint64_t build(struct chain *chain, const struct hca_put *put)
{
    const uint64_t begin = put->base.made_bytes, left_bytes = put->base.end_bytes - begin,
                   end = begin + (left_bytes < HCA_CHAIN_BYTES ? left_bytes : HCA_CHAIN_BYTES);
    struct target target;
    uint64_t position = begin;
    chain->count = 0;
    target_init(&target, put);
    while (position < end && chain->count < HCA_CHAIN && target_next(&target, put)) {
        const uint64_t left = end - position;
        const uint64_t most = target.left_bytes < left ? target.left_bytes : left;
        const uint64_t bytes = add_write(chain, put, position, most, target.address);
        target.address += bytes;
        target.left_bytes -= bytes;
        position += bytes;
    }
    return position - begin;
}

/* The device may still read what was posted: a message that it will report follows. */
int hca_write_stop(struct hca_put *put)
{
    int r = put->base.made_bytes > put->base.from_bytes
                ? hca_send_notice(put->peer, HCA_ASK, NULL, 0, put)
                : 0;
    if (r < 0)
        return r;
    put->base.error = -ESTALE;
    put->base.made = true;
    return 0;
}

/* tells: the last one carries the immediate data. */
static int send_writes(struct hca_put *put, bool tells)
{
    struct chain chain;
    const uint64_t bytes = build(&chain, put);
    const bool last = put->base.made_bytes + bytes == put->base.end_bytes;
    if (last && tells) {
        struct ibv_send_wr *request = &chain.requests[chain.count - 1];
        request->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
        request->imm_data = htonl(hca_imm(put->landing, put->generation));
    }
    int r = hca_send_chain(put->peer, chain.requests, chain.count, last && tells ? put : NULL);
    if (r < 0)
        return r;
    put->base.made_bytes += bytes;
    return 0;
}

int hca_write_again(struct hca_put *put, const struct hca_piece *piece)
{
    int r = hca_send_has_room(put->peer, HCA_CHAIN) ? send_writes(put, piece->immediate) : -EAGAIN;
    return r < 0 ? r : put->base.made_bytes == put->base.end_bytes;
}

int hca_write(struct hca_put *put)
{
    struct hca_peer *peer = put->peer;
    if (put->base.stale)
        return hca_write_stop(put);
    if (put->base.made_bytes == put->base.end_bytes)
        return hca_send_piece(put); /* there was no room for it */
    struct hca_piece *piece = hca_next_piece(peer);
    if (!piece || !hca_send_has_room(peer, HCA_CHAIN))
        return -EAGAIN;
    int r = send_writes(put, put->landing < HCA_IMM_LANDINGS);
    if (r < 0)
        return r;
    const bool last = put->base.made_bytes == put->base.end_bytes;
    if (last && put->landing < HCA_IMM_LANDINGS) {
        piece->writes = put;
        piece->immediate = true;
        hca_send_count(peer, piece, 0);
    } else if (last) {
        return hca_send_piece(put); /* without payload */
    }
    put->base.made = last;
    return 0;
}
