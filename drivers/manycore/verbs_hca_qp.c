/* Queue pairs of libibverbs: reliable connections. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "drivers/manycore/verbs_hca.h"

enum {
    TIMEOUT = 14, /* 4.096 us * 2^14 = 67 ms for an acknowledgement, */
    RETRIES = 6,  /* this often; rxe takes 7 for ever */
    RNR_FOREVER = 7,
    RNR_TIMER = 1, /* 10 us */
    PSN_MASK = 0xffffff,
};

struct hca_address {
    char magic[8];
    uint32_t qp, psn;
    uint16_t lid;
    uint8_t mtu, reads;
    uint8_t gid[16];
};
static const char address_magic[8] = "tcahca1";
static_assert(sizeof(struct hca_address) <= VERBS_ADDRESS_BYTES, "fits");

/* ---- queue pairs ---- */

static void make_address(struct hca_qp *qp)
{
    const struct hca_device *device = hca_of(qp->base.device);
    struct hca_address address = {.qp = qp->base.number,
                                  .psn = qp->psn,
                                  .lid = device->port.lid,
                                  .mtu = (uint8_t)device->port.active_mtu,
                                  .reads = device->reads};
    memcpy(address.magic, address_magic, sizeof(address.magic));
    memcpy(address.gid, device->gid.raw, sizeof(address.gid));
    memcpy(qp->base.address, &address, sizeof(address));
}

static int modify(struct hca_qp *qp, struct ibv_qp_attr *attributes, int mask)
{
    const struct hca_raw *raw = hca_of(qp->base.device)->raw;
    return raw ? raw->modify_qp(qp, attributes, mask) : -ibv_modify_qp(qp->qp, attributes, mask);
}

static int to_init(struct hca_qp *qp)
{
    struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_INIT,
                                     .port_num = hca_of(qp->base.device)->port_number,
                                     .qp_access_flags =
                                         IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
    return modify(qp, &attributes,
                  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static int create(const struct verbs_qp_args *args, struct hca_qp *qp)
{
    struct ibv_qp_init_attr attributes = {
        .send_cq = ((struct hca_cq *)args->send_cq)->cq,
        .recv_cq = ((struct hca_cq *)args->receive_cq)->cq,
        .cap = {.max_send_wr = args->send_entries,
                .max_recv_wr = args->receive_entries,
                .max_send_sge = DCFA_PIECES_MAX,
                .max_recv_sge = DCFA_PIECES_MAX,
                .max_inline_data = DCFA_INLINE_MAX_BYTES},
        .qp_type = IBV_QPT_RC,
        .sq_sig_all = 1, /* the server counts them; the processor gets what it has asked for */
    };
    qp->qp = ibv_create_qp(((struct hca_domain *)args->domain)->pd, &attributes);
    if (!qp->qp)
        return -errno;
    qp->base.number = qp->qp->qp_num;
    return 0;
}

int hca_qp_new(const struct verbs_qp_args *args, struct verbs_qp **ret_qp)
{
    const struct hca_raw *raw = hca_of(args->domain->device)->raw;
    struct hca_qp *qp = calloc(1, sizeof(*qp));
    if (!qp)
        return -ENOMEM;
    qp->base.device = args->domain->device;
    int r = getrandom(&qp->psn, sizeof(qp->psn), 0) < 0 ? -errno : 0;
    qp->psn &= PSN_MASK;
    if (r == 0)
        r = raw ? raw->create_qp(args, qp) : create(args, qp);
    if (r < 0) {
        free(qp);
        return r;
    }
    r = to_init(qp);
    if (r < 0) {
        hca_qp_free(&qp->base);
        return r;
    }
    make_address(qp);
    *ret_qp = &qp->base;
    return 0;
}

void hca_qp_free(struct verbs_qp *base)
{
    const struct hca_raw *raw = hca_of(base->device)->raw;
    struct hca_qp *qp = (struct hca_qp *)base;
    if (raw)
        raw->destroy_qp(qp);
    else
        ibv_destroy_qp(qp->qp);
    free(qp);
}

int hca_qp_connect(struct verbs_qp *base, const uint8_t bytes[static VERBS_ADDRESS_BYTES])
{
    const struct hca_device *device = hca_of(base->device);
    struct hca_qp *qp = (struct hca_qp *)base;
    const bool ethernet = device->port.link_layer == IBV_LINK_LAYER_ETHERNET;
    struct hca_address peer;
    memcpy(&peer, bytes, sizeof(peer));
    if (memcmp(peer.magic, address_magic, sizeof(peer.magic)) != 0 || peer.mtu < IBV_MTU_256 ||
        peer.mtu > IBV_MTU_4096)
        return -EINVAL;
    const uint8_t reads = peer.reads < device->reads ? peer.reads : device->reads;
    struct ibv_qp_attr attributes = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = peer.mtu < device->port.active_mtu ? peer.mtu : device->port.active_mtu,
        .dest_qp_num = peer.qp,
        .rq_psn = peer.psn & PSN_MASK,
        .max_dest_rd_atomic = reads,
        .min_rnr_timer = RNR_TIMER,
        .ah_attr = {.dlid = peer.lid, .port_num = device->port_number, .is_global = ethernet},
    };
    if (ethernet) {
        memcpy(attributes.ah_attr.grh.dgid.raw, peer.gid, sizeof(peer.gid));
        attributes.ah_attr.grh.sgid_index = device->gid_index;
        attributes.ah_attr.grh.hop_limit = 64;
    }
    int r = modify(qp, &attributes,
                   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    if (r < 0)
        return r;
    attributes = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
                                      .sq_psn = qp->psn,
                                      .timeout = TIMEOUT,
                                      .retry_cnt = RETRIES,
                                      .rnr_retry = RNR_FOREVER,
                                      .max_rd_atomic = reads};
    return modify(qp, &attributes,
                  IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                      IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
}

void hca_qp_fail(struct verbs_qp *qp)
{
    struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_ERR};
    modify((struct hca_qp *)qp, &attributes, IBV_QP_STATE);
}

/* ---- transfers ---- */

static int fill(struct ibv_sge list[DCFA_PIECES_MAX], const struct dcfa_entry *entry)
{
    if (entry->flags & DCFA_FLAG_INLINE) {
        list[0] = (struct ibv_sge){(uintptr_t)entry->data, entry->count, 0};
        return 1;
    }
    for (unsigned i = 0; i < entry->count; i++)
        list[i] = (struct ibv_sge){entry->pieces[i].address, entry->pieces[i].bytes,
                                   entry->pieces[i].key};
    return entry->count;
}

int hca_post_send(struct verbs_qp *qp, const struct dcfa_entry *entry, uint64_t token)
{
    static const enum ibv_wr_opcode opcodes[] = {
        [DCFA_OP_SEND] = IBV_WR_SEND,        [DCFA_OP_SEND_IMMEDIATE] = IBV_WR_SEND_WITH_IMM,
        [DCFA_OP_WRITE] = IBV_WR_RDMA_WRITE, [DCFA_OP_WRITE_IMMEDIATE] = IBV_WR_RDMA_WRITE_WITH_IMM,
        [DCFA_OP_READ] = IBV_WR_RDMA_READ,
    };
    struct ibv_sge list[DCFA_PIECES_MAX];
    struct ibv_send_wr request = {
        .wr_id = token,
        .sg_list = list,
        .num_sge = fill(list, entry),
        .opcode = opcodes[entry->opcode],
        .send_flags = (entry->flags & DCFA_FLAG_INLINE ? IBV_SEND_INLINE : 0) |
                      (entry->flags & DCFA_FLAG_FENCE ? IBV_SEND_FENCE : 0),
        .imm_data = entry->immediate,
        .wr.rdma = {entry->remote_address, entry->remote_key},
    };
    struct ibv_send_wr *bad;
    return -ibv_post_send(((struct hca_qp *)qp)->qp, &request, &bad);
}

int hca_post_receive(struct verbs_qp *qp, const struct dcfa_entry *entry, uint64_t token)
{
    struct ibv_sge list[DCFA_PIECES_MAX];
    struct ibv_recv_wr request = {.wr_id = token, .sg_list = list, .num_sge = fill(list, entry)};
    struct ibv_recv_wr *bad;
    return -ibv_post_recv(((struct hca_qp *)qp)->qp, &request, &bad);
}

static enum dcfa_status status_of(enum ibv_wc_status status)
{
    switch (status) {
    case IBV_WC_SUCCESS:
        return DCFA_ST_OK;
    case IBV_WC_LOC_LEN_ERR:
        return DCFA_ST_LOCAL_LENGTH;
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
    case IBV_WC_LOC_QP_OP_ERR: /* what rxe says of a bad local key; entries are well-formed here */
        return DCFA_ST_LOCAL_ACCESS;
    case IBV_WC_WR_FLUSH_ERR:
        return DCFA_ST_FLUSHED;
    case IBV_WC_REM_ACCESS_ERR:
        return DCFA_ST_REMOTE_ACCESS;
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_OP_ERR:
    case IBV_WC_REM_ABORT_ERR:
        return DCFA_ST_REMOTE;
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR:
        return DCFA_ST_UNREACHABLE;
    default:
        return DCFA_ST_DEVICE;
    }
}

int hca_poll(struct verbs_cq *cq, struct verbs_completion *ret_completions, unsigned max)
{
    struct ibv_wc found[16];
    int n = ibv_poll_cq(((struct hca_cq *)cq)->cq, max < 16 ? (int)max : 16, found);
    for (int i = 0; i < n; i++)
        ret_completions[i] = (struct verbs_completion){
            .token = found[i].wr_id,
            .status = status_of(found[i].status),
            .opcode = found[i].opcode == IBV_WC_RECV_RDMA_WITH_IMM ? DCFA_OP_RECEIVE_IMMEDIATE
                                                                   : DCFA_OP_RECEIVE,
            .bytes = found[i].byte_len,
            .immediate = found[i].imm_data,
            .has_immediate = found[i].wc_flags & IBV_WC_WITH_IMM,
        };
    return n < 0 ? -EIO : n;
}
