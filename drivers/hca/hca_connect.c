/* The queue pair of a peer: made here, told to the peer by an offer, connected with the peer's. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "drivers/hca/hca.h"

enum { PSN_MASK = 0xffffff, CQ_ENTRIES = HCA_REQUESTS + HCA_RECEIVES };

static bool is_good(const struct hca_driver *hca, const struct hca_address *address)
{
    return address->magic == HCA_ADDRESS_MAGIC && address->version == HCA_WIRE_VERSION &&
           address->ethernet == hca->address.ethernet && address->mtu >= IBV_MTU_256 &&
           address->mtu <= IBV_MTU_4096 && address->segment_bytes >= HCA_SEGMENT_MIN &&
           address->segment_bytes <= HCA_SEGMENT_MAX;
}

/* ---- the driver's list, and the room in its completion queue ---- */

static int enlist(struct hca_driver *hca, struct hca_peer *peer)
{
    int r = -ENOSPC; /* the device's completion queue is full */
    pthread_mutex_lock(&hca->lock);
    if (hca->broken < 0) {
        r = hca->broken;
    } else if (hca->cq_left >= CQ_ENTRIES) {
        hca->cq_left -= CQ_ENTRIES;
        peer->next = hca->peers;
        if (peer->next)
            peer->next->previous = peer;
        hca->peers = peer;
        r = 0;
    }
    pthread_mutex_unlock(&hca->lock);
    return r;
}

static void strike(struct hca_driver *hca, struct hca_peer *peer)
{
    pthread_mutex_lock(&hca->lock);
    hca->cq_left += CQ_ENTRIES;
    *(peer->previous ? &peer->previous->next : &hca->peers) = peer->next;
    if (peer->next)
        peer->next->previous = peer->previous;
    pthread_mutex_unlock(&hca->lock);
}

/* ---- making one ---- */

static int make_buffers(struct hca_peer *peer)
{
    const struct hca_driver *hca = peer->hca;
    peer->buffers_bytes = (uint64_t)(HCA_RECEIVES + HCA_WINDOW) * hca->segment_bytes +
                          HCA_COUNTS * sizeof(struct hca_head);
    peer->buffers =
        mmap(NULL, peer->buffers_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (peer->buffers == MAP_FAILED) {
        peer->buffers = NULL;
        return -ENOMEM;
    }
    peer->buffers_mr =
        ibv_reg_mr(hca->pd, peer->buffers, peer->buffers_bytes, IBV_ACCESS_LOCAL_WRITE);
    return peer->buffers_mr ? 0 : -errno;
}

static int make_queues(struct hca_peer *peer)
{
    struct hca_driver *hca = peer->hca;
    struct ibv_qp_init_attr init = {
        .send_cq = hca->cq,
        .recv_cq = hca->cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = HCA_REQUESTS,
                .max_recv_wr = HCA_RECEIVES,
                .max_send_sge = hca->sges,
                .max_recv_sge = 1,
                .max_inline_data = HCA_INLINE_BYTES},
    };
    peer->qp = ibv_create_qp(hca->pd, &init);
    if (!peer->qp) { /* some devices have no inline data */
        init.cap.max_inline_data = 0;
        peer->qp = ibv_create_qp(hca->pd, &init);
    }
    if (!peer->qp)
        return -errno;
    peer->inline_bytes = init.cap.max_inline_data;
    struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_INIT,
                                     .port_num = hca->port,
                                     .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
    int r = -ibv_modify_qp(peer->qp, &attributes,
                           IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    for (uint32_t i = 0; r == 0 && i < HCA_RECEIVES; i++)
        r = hca_receive_post(peer, i);
    return r;
}

static struct hca_peer *peer_new(struct hca_driver *hca, const struct hca_address *address)
{
    struct hca_peer *peer = calloc(1, sizeof *peer);
    if (!peer)
        return NULL;
    peer->hca = hca;
    peer->address = *address;
    peer->segment_bytes =
        address->segment_bytes < hca->segment_bytes ? address->segment_bytes : hca->segment_bytes;
    peer->window = (struct window){
        .size = HCA_WINDOW, .piece_bytes = sizeof peer->pieces[0], .pieces = peer->pieces};
    return peer;
}

static bool port_is_active(const struct hca_driver *hca)
{
    struct ibv_port_attr attributes;
    return ibv_query_port(hca->context, hca->port, &attributes) == 0 &&
           attributes.state == IBV_PORT_ACTIVE;
}

int hca_peer_connect(struct driver *driver, const void *address, size_t address_bytes,
                     struct driver_peer **ret_peer, void *ret_offer, size_t *ret_offer_bytes)
{
    struct hca_driver *hca = hca_of(driver);
    struct hca_address other;
    if (address_bytes != sizeof other)
        return -EINVAL;
    memcpy(&other, address, sizeof other);
    if (!is_good(hca, &other))
        return -EINVAL;
    if (!port_is_active(hca))
        return -ENETDOWN;
    struct hca_peer *peer = peer_new(hca, &other);
    if (!peer)
        return -ENOMEM;
    int r = enlist(hca, peer);
    if (r < 0) {
        free(peer);
        return r;
    }
    r = make_buffers(peer);
    if (r == 0)
        r = make_queues(peer);
    if (r == 0 && getrandom(&peer->psn, sizeof peer->psn, 0) != sizeof peer->psn)
        r = -EIO;
    if (r < 0) {
        hca_peer_free(peer);
        return r;
    }
    peer->psn &= PSN_MASK;
    const struct hca_offer offer = {
        .magic = HCA_OFFER_MAGIC, .qpn = peer->qp->qp_num, .psn = peer->psn, .id = hca->address.id};
    memcpy(ret_offer, &offer, sizeof offer);
    *ret_offer_bytes = sizeof offer;
    *ret_peer = (struct driver_peer *)peer;
    return 0;
}

/* ---- connecting it ---- */

static int receive_from(struct hca_peer *peer, const struct hca_offer *offer)
{
    const struct hca_driver *hca = peer->hca;
    const uint8_t mtu = peer->address.mtu < hca->address.mtu ? peer->address.mtu : hca->address.mtu;
    struct ibv_qp_attr attributes = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = (enum ibv_mtu)mtu,
        .dest_qp_num = offer->qpn,
        .rq_psn = offer->psn,
        .max_dest_rd_atomic = 1,
        .min_rnr_timer = 12, /* 0.64 ms; never needed while the peer counts right */
        .ah_attr = {.is_global = peer->address.ethernet,
                    .dlid = peer->address.lid,
                    .port_num = hca->port,
                    .grh = {.sgid_index = hca->gid_index, .hop_limit = 64}},
    };
    memcpy(attributes.ah_attr.grh.dgid.raw, peer->address.gid, sizeof peer->address.gid);
    return -ibv_modify_qp(peer->qp, &attributes,
                          IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                              IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static int send_to(struct hca_peer *peer)
{
    struct ibv_qp_attr attributes = {
        .qp_state = IBV_QPS_RTS,
        .timeout = HCA_TIMEOUT,
        .retry_cnt = HCA_RETRIES,
        .rnr_retry = 7, /* for ever */
        .sq_psn = peer->psn,
        .max_rd_atomic = 1,
    };
    return -ibv_modify_qp(peer->qp, &attributes,
                          IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                              IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

int hca_peer_answer(struct driver *driver, struct driver_peer *driver_peer, const void *bytes,
                    size_t count)
{
    struct hca_peer *peer = (struct hca_peer *)driver_peer;
    struct hca_offer offer;
    if (count != sizeof offer)
        return -EPROTO;
    memcpy(&offer, bytes, sizeof offer);
    if (offer.magic != HCA_OFFER_MAGIC || offer.qpn > PSN_MASK || offer.psn > PSN_MASK ||
        !hca_same(offer.id, peer->address.id))
        return -EPROTO;
    int r = receive_from(peer, &offer);
    if (r == 0)
        r = send_to(peer);
    pthread_mutex_lock(&peer->hca->lock);
    peer->answered = r == 0;
    pthread_mutex_unlock(&peer->hca->lock);
    return r;
}

/* ---- ending it ---- */

void hca_peer_stop(struct hca_peer *peer)
{
    struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_ERR};
    ibv_modify_qp(peer->qp, &attributes, IBV_QP_STATE);
}

void hca_peer_free(struct hca_peer *peer)
{
    if (peer->qp)
        ibv_destroy_qp(peer->qp);
    if (peer->buffers_mr)
        ibv_dereg_mr(peer->buffers_mr);
    if (peer->buffers)
        munmap(peer->buffers, peer->buffers_bytes);
    strike(peer->hca, peer);
    free(peer);
}
