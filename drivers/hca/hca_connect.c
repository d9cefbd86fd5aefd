/* The queue pair of a peer: made here, told to the peer by an offer, connected with the peer's. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "drivers/hca/hca.h"

enum { PSN_MASK = 0xffffff, CQ_ENTRIES = HCA_REQUESTS + HCA_RECEIVES };

bool hca_address_is_good(const struct hca_driver *hca, const struct hca_address *address)
{
    return address->magic == HCA_ADDRESS_MAGIC && address->version == HCA_WIRE_VERSION &&
           address->ethernet == hca->address.ethernet && address->mtu >= IBV_MTU_256 &&
           address->mtu <= IBV_MTU_4096 && address->segment_bytes >= HCA_SEGMENT_MIN &&
           address->segment_bytes <= HCA_SEGMENT_MAX;
}

/* ---- the driver's list, and the room in its completion queue ---- */

/* Doubles it while completions are taken from it. -ENOSPC: the device can have no longer one. */
static int grow(struct hca_driver *hca)
{
    const uint32_t now = (uint32_t)hca->cq->cqe,
                   wanted = now < hca->cq_max / 2 ? 2 * now : hca->cq_max;
    if (wanted <= now || ibv_resize_cq(hca->cq, (int)wanted) != 0)
        return -ENOSPC;
    hca->cq_left += (uint32_t)hca->cq->cqe - now;
    return 0;
}

static int enlist(struct hca_driver *hca, struct hca_peer *peer)
{
    pthread_mutex_lock(&hca->lock);
    int r = hca->broken;
    if (r == 0 && hca->cq_left < CQ_ENTRIES)
        r = grow(hca);
    if (r == 0) {
        hca->cq_left -= CQ_ENTRIES;
        peer->next = hca->peers;
        if (peer->next)
            peer->next->previous = peer;
        hca->peers = peer;
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
    if (peer->buffers_mr)
        return 0;
    peer->buffers_bytes = (uint64_t)(HCA_RECEIVES + HCA_WINDOW) * hca->segment_bytes +
                          HCA_COUNTS * sizeof(struct hca_head);
    /* shared: after a fork, the device's pages are still this process's */
    void *buffers =
        mmap(NULL, peer->buffers_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (buffers == MAP_FAILED)
        return -ENOMEM;
    peer->buffers = buffers;
    peer->buffers_mr =
        ibv_reg_mr(peer->domain->pd, buffers, peer->buffers_bytes, IBV_ACCESS_LOCAL_WRITE);
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
    peer->qp = ibv_create_qp(peer->domain->pd, &init);
    if (!peer->qp) { /* some devices have no inline data */
        init.cap.max_inline_data = 0;
        peer->qp = ibv_create_qp(peer->domain->pd, &init);
    }
    if (!peer->qp)
        return -errno;
    peer->qpn = peer->qp->qp_num;
    peer->received = 0;
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

int hca_peer_new(struct hca_driver *hca, struct hca_domain *domain, struct hca_peer **ret_peer)
{
    struct hca_peer *peer = calloc(1, sizeof(*peer));
    int r = peer ? enlist(hca, peer) : -ENOMEM;
    if (r < 0) {
        hca_domain_give(hca, domain);
        free(peer);
        return r;
    }
    peer->hca = hca;
    peer->domain = domain;
    peer->segment_bytes = hca->segment_bytes;
    peer->window = (struct window){.size = HCA_WINDOW,
                                   .piece_bytes = sizeof(peer->pieces[0]),
                                   .pieces = peer->pieces,
                                   .flows = {.turn_bytes = HCA_CHAIN_BYTES}};
    *ret_peer = peer;
    return 0;
}

int hca_peer_offer(struct hca_peer *peer, struct hca_offer *ret_offer)
{
    int r = make_buffers(peer);
    if (r == 0)
        r = make_queues(peer);
    if (r == 0 && getrandom(&peer->psn, sizeof(peer->psn), 0) != sizeof(peer->psn))
        r = -EIO;
    if (r < 0)
        return r;
    peer->psn &= PSN_MASK;
    *ret_offer = (struct hca_offer){.magic = HCA_OFFER_MAGIC,
                                    .qpn = peer->qp->qp_num,
                                    .psn = peer->psn,
                                    .id = peer->hca->address.id};
    return 0;
}

bool hca_port_is_active(const struct hca_driver *hca)
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
    if (address_bytes != sizeof(other))
        return -EINVAL;
    memcpy(&other, address, sizeof(other));
    if (!hca_address_is_good(hca, &other))
        return -EINVAL;
    if (!hca_port_is_active(hca))
        return -ENETDOWN;
    struct hca_offer offer;
    struct hca_peer *peer;
    int r = hca_peer_new(hca, hca_domain_take(hca, hca->domain), &peer);
    if (r < 0)
        return r;
    peer->address = other;
    r = hca_peer_offer(peer, &offer);
    if (r < 0) {
        hca_peer_free(peer);
        return r;
    }
    memcpy(ret_offer, &offer, sizeof(offer));
    *ret_offer_bytes = sizeof(offer);
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
    memcpy(attributes.ah_attr.grh.dgid.raw, peer->address.gid, sizeof(peer->address.gid));
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

int hca_peer_join(struct hca_peer *peer, const struct hca_address *address,
                  const struct hca_offer *offer)
{
    const uint32_t segment_bytes = peer->hca->segment_bytes;
    if (offer->magic != HCA_OFFER_MAGIC || offer->qpn > PSN_MASK || offer->psn > PSN_MASK ||
        !hca_same(offer->id, address->id))
        return -EPROTO;
    peer->address = *address;
    peer->segment_bytes =
        address->segment_bytes < segment_bytes ? address->segment_bytes : segment_bytes;
    int r = receive_from(peer, offer);
    return r < 0 ? r : send_to(peer);
}

int hca_peer_answer(struct driver *driver, struct driver_peer *driver_peer, const void *bytes,
                    size_t count)
{
    struct hca_peer *peer = (struct hca_peer *)driver_peer;
    struct hca_offer offer;
    if (count != sizeof(offer))
        return -EPROTO;
    memcpy(&offer, bytes, sizeof(offer));
    int r = hca_peer_join(peer, &peer->address, &offer);
    if (r == 0)
        recall_join(&peer->hca->recall, &peer->holder);
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
    hca_domain_give(peer->hca, peer->domain);
    free(peer);
}
