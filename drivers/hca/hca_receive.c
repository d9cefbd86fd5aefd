/* What the device has received from a peer. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "drivers/hca/hca.h"

int hca_receive_post(struct hca_peer *peer, uint32_t buffer)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)peer->buffers + (uint64_t)buffer * peer->hca->segment_bytes,
        .length = peer->hca->segment_bytes,
        .lkey = peer->buffers_mr->lkey,
    };
    struct ibv_recv_wr *bad,
        request = {.wr_id = (uintptr_t)peer | 1, .sg_list = &sge, .num_sge = 1};
    return -ibv_post_recv(peer->qp, &request, &bad);
}

static void notify(const struct hca_driver *hca, const struct hca_landing *landing)
{
    const struct driver_events *events = &hca->driver.events;
    if (landing->notify && events->notified)
        events->notified(events->context, landing->token);
}

static bool may_use(const struct hca_peer *peer, const struct hca_landing *landing)
{
    return !landing->from || landing->from == peer;
}

/* The landing may be gone: then nobody is told. */
static int take_immediate(const struct hca_peer *peer, uint32_t immediate)
{
    const struct hca_driver *hca = peer->hca;
    const uint32_t index = immediate / HCA_IMM_GENERATIONS;
    if (index >= hca->landings.count)
        return 0;
    const struct landing_slot *slot = &hca->landings.slots[index];
    if (!slot->landing || hca_imm(index, slot->generation) != immediate)
        return 0;
    if (!may_use(peer, slot->landing))
        return -EPROTO;
    notify(hca, slot->landing);
    return 0;
}

int hca_take_piece(struct hca_peer *peer, const struct hca_head *head, void *payload)
{
    const struct hca_driver *hca = peer->hca;
    const struct hca_landing *landing =
        landings_find(&hca->landings, head->landing, head->generation);
    if (!landing) { /* freed meanwhile */
        if (hca->role->landing_gone)
            hca->role->landing_gone(peer, head->landing, head->generation);
        return 0;
    }
    if (!may_use(peer, landing))
        return -EPROTO;
    const uint64_t size = landing->target.size_bytes;
    if (head->length_bytes > size || head->position_bytes > size - head->length_bytes)
        return -EPROTO;
    if (head->length_bytes > 0)
        packed_write(&landing->target, payload, head->position_bytes, head->length_bytes);
    if (head->flags & HCA_LAST)
        notify(hca, landing);
    return 0;
}

int hca_take_nothing(struct hca_peer *peer, const struct hca_head *head, void *payload)
{
    return 0;
}

static int take_message(struct hca_peer *peer, uint8_t *buffer, uint32_t bytes)
{
    struct hca_head head;
    if (bytes < sizeof(head))
        return -EPROTO;
    memcpy(&head, buffer, sizeof(head));
    if (head.length_bytes != bytes - sizeof(head) ||
        head.counted > (peer->paused ? peer->again : peer->window.made))
        return -EPROTO;
    int (*const take)(struct hca_peer *, const struct hca_head *, void *) =
        head.kind < HCA_KINDS ? peer->hca->role->take[head.kind] : NULL;
    int r = take ? take(peer, &head, buffer + sizeof(head)) : -EPROTO;
    if (r < 0)
        return r;
    if (head.kind != HCA_COUNT)
        credits_count(&peer->credits, 0);
    if (head.flags & HCA_TELL)
        peer->asked = true;
    /* Of a lost peer, everything has been completed. */
    if (peer->error == 0 && head.counted > peer->window.counted) {
        window_count(&peer->window, head.counted);
        hca_recall_counted(peer);
    }
    return 0;
}

int hca_receive(struct hca_peer *peer, const struct ibv_wc *completion)
{
    const uint32_t index = peer->received;
    int r = 0;
    peer->received = (index + 1) % HCA_RECEIVES;
    if (completion->opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
        r = take_immediate(peer, ntohl(completion->imm_data));
        credits_count(&peer->credits, 0);
    } else {
        r = take_message(peer, peer->buffers + (uint64_t)index * peer->hca->segment_bytes,
                         completion->byte_len);
    }
    if (r < 0 || peer->error < 0)
        return r;
    r = peer->qp ? hca_receive_post(peer, index) : 0;
    peer->asked |= credits_due(&peer->credits, HCA_WINDOW / 4, UINT64_MAX);
    if (peer->listens) {
        peer->listens = false;
        peer->answered = true;
        hca_peer_activate(peer);
    }
    if (peer->asked || window_next_put(&peer->window))
        hca_peer_activate(peer);
    return r;
}
