/* See direct.h. */
#include "client/dcfa/direct.h"

#include <errno.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <rdma/rdma_user_rxe.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "client/core/error.h"
#include "client/dcfa/dcfa.h"

/* What the kernel's completions and requests contain beyond the headers of its user interface. */
enum {
    RXE_SIGNALLED = 2,
    RXE_INLINE = 8,
    RXE_FENCE = 1,
    RXE_WITH_IMMEDIATE = 2,
    RXE_RECEIVED_WRITE = 129,
    /* ib_wc_status */
    RXE_LENGTH = 1,
    RXE_QP_OPERATION = 2,
    RXE_PROTECTION = 4,
    RXE_FLUSHED = 5,
    RXE_LOCAL_ACCESS = 8,
    RXE_REMOTE_REQUEST = 9,
    RXE_REMOTE_ACCESS = 10,
    RXE_REMOTE_OPERATION = 11,
    RXE_RETRIES = 12,
};
/* wr_id: the queue pair's id, the slot, and what was posted. */
enum { WR_QP_SHIFT = 32, WR_SLOT_SHIFT = 4, WR_WHAT_MASK = 15 };

static _Atomic uint32_t *producer(const struct direct_queue *queue)
{
    return (_Atomic uint32_t *)&queue->shared->producer_index;
}

static _Atomic uint32_t *consumer(const struct direct_queue *queue)
{
    return (_Atomic uint32_t *)&queue->shared->consumer_index;
}

static void *slot(const struct direct_queue *queue, uint32_t at)
{
    return queue->shared->data + (size_t)at * queue->entry_bytes;
}

/* ---- mapping ---- */

static void unmap(struct direct_queue *queue)
{
    if (queue->shared)
        munmap(queue->shared, queue->bytes);
    free(queue->ids);
    queue->shared = NULL;
    queue->ids = NULL;
}

/* least_bytes: of an entry. */
static int map(struct direct_queue *queue, int fd, uint64_t offset, uint64_t bytes,
               uint32_t entries, uint32_t least_bytes)
{
    if (bytes <= sizeof(*queue->shared))
        return error_set(-EPROTO, "tcad sent a queue of %llu bytes", (unsigned long long)bytes);
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
    if (at == MAP_FAILED)
        return error_set(-errno, "mapping a queue of the device: %s", strerrordesc_np(errno));
    queue->shared = at;
    queue->bytes = bytes;
    const uint32_t log = queue->shared->log2_elem_size;
    queue->entry_bytes = 1u << (log & 31);
    queue->slots = queue->shared->index_mask + 1;
    queue->entries = entries;
    if (log > 16 || queue->entry_bytes < least_bytes || queue->slots <= entries ||
        (queue->slots & queue->shared->index_mask) ||
        (uint64_t)queue->slots * queue->entry_bytes > bytes - sizeof(*queue->shared)) {
        unmap(queue);
        return error_set(-EPROTO, "the device has a queue of an unknown format");
    }
    return 0;
}

static int map_with_ids(struct direct_queue *queue, int fd, uint64_t offset, uint64_t bytes,
                        uint32_t entries, uint32_t least_bytes)
{
    int r = map(queue, fd, offset, bytes, entries, least_bytes);
    if (r < 0)
        return r;
    queue->ids = calloc(queue->slots, sizeof(queue->ids[0]));
    return queue->ids ? 0 : error_static(-ENOMEM, "out of memory");
}

int direct_cq_map(struct dcfa_cq *cq, uint32_t entries, const Tca__DcfaCreated *created)
{
    return map(&cq->direct, cq->object.processor->device_fd, created->queue_offset,
               created->queue_bytes, entries, sizeof(struct ib_uverbs_wc));
}

int direct_qp_map(struct dcfa_qp *qp, const struct dcfa_qp_args *args,
                  const Tca__DcfaCreated *created)
{
    const int fd = qp->object.processor->device_fd;
    qp->device_handle = created->device_handle;
    qp->device_number = created->device_number;
    int r = map_with_ids(&qp->direct_send, fd, created->queue_offset, created->queue_bytes,
                         args->send_entries,
                         sizeof(struct rxe_send_wqe) + DCFA_PIECES * sizeof(struct rxe_sge));
    if (r == 0)
        r = map_with_ids(&qp->direct_receive, fd, created->receive_offset, created->receive_bytes,
                         args->receive_entries,
                         sizeof(struct rxe_recv_wqe) + DCFA_PIECES * sizeof(struct rxe_sge));
    return r;
}

void direct_cq_unmap(struct dcfa_cq *cq)
{
    unmap(&cq->direct);
}

void direct_qp_unmap(struct dcfa_qp *qp)
{
    unmap(&qp->direct_send);
    unmap(&qp->direct_receive);
}

/* ---- posting ---- */

/* The queue's number of entries whose completion was not polled: their limit keeps completion
 * queues from overflowing. acquire: direct_poll() has read the id of the entry in this slot, and
 * the device the entry. */
static bool full(const struct direct_queue *queue)
{
    const uint32_t done = atomic_load_explicit(&queue->done, memory_order_acquire);
    return ((queue->mine - done) & (queue->slots - 1)) >= queue->entries;
}

static void announce(struct direct_queue *queue)
{
    queue->mine = (queue->mine + 1) & (queue->slots - 1);
    /* release: the device sees the entry before the index */
    atomic_store_explicit(producer(queue), queue->mine, memory_order_release);
}

static uint64_t note(const struct dcfa_qp *qp, struct direct_queue *queue, uint64_t id,
                     uint32_t what)
{
    queue->ids[queue->mine] = id;
    return (uint64_t)qp->object.id << WR_QP_SHIFT | (uint64_t)queue->mine << WR_SLOT_SHIFT | what;
}

static void take_pieces(struct rxe_dma_info *data, const struct dcfa_piece *pieces, uint32_t count)
{
    struct rxe_sge *list = data->sge;
    data->num_sge = count;
    for (uint32_t i = 0; i < count; i++) {
        list[i] = (struct rxe_sge){(uintptr_t)pieces[i].address, pieces[i].bytes, pieces[i].key};
        data->length += pieces[i].bytes;
    }
    data->resid = data->length;
}

static void take_inline(struct rxe_dma_info *data, const struct dcfa_piece *pieces, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        memcpy(data->inline_data + data->length, pieces[i].address, pieces[i].bytes);
        data->length += pieces[i].bytes;
    }
    data->resid = data->length;
}

/* soft-RoCE has no doorbell register, but runs in this call. Not by write(), which the kernel
 * denies to processes other than the one that opened the descriptor. */
static int ring_doorbell(const struct dcfa_qp *qp)
{
    const struct ib_uverbs_post_send body = {.qp_handle = qp->device_handle,
                                             .wqe_size = sizeof(struct ib_uverbs_send_wr)};
    struct ib_uverbs_post_send_resp response;
    struct {
        struct ib_uverbs_ioctl_hdr head;
        struct ib_uverbs_attr attributes[3];
    } call = {
        .head = {.length = sizeof(call),
                 .object_id = UVERBS_OBJECT_DEVICE,
                 .method_id = UVERBS_METHOD_INVOKE_WRITE,
                 .num_attrs = 3,
                 .driver_id = RDMA_DRIVER_RXE},
        .attributes = {{.attr_id = UVERBS_ATTR_CORE_IN,
                        .len = sizeof(body),
                        .flags = UVERBS_ATTR_F_MANDATORY,
                        .data = (uintptr_t)&body},
                       {.attr_id = UVERBS_ATTR_CORE_OUT,
                        .len = sizeof(response),
                        .flags = UVERBS_ATTR_F_MANDATORY,
                        .data = (uintptr_t)&response},
                       {.attr_id = UVERBS_ATTR_WRITE_CMD,
                        .len = sizeof(uint64_t),
                        .flags = UVERBS_ATTR_F_MANDATORY,
                        .data = IB_USER_VERBS_CMD_POST_SEND}},
    };
    return ioctl(qp->object.processor->device_fd, RDMA_VERBS_IOCTL, &call) < 0
               ? error_set(-errno, "the device's doorbell: %s", strerrordesc_np(errno))
               : 0;
}

int direct_post_send(struct dcfa_qp *qp, const struct dcfa_send *send)
{
    static const uint8_t opcodes[] = {
        [DCFA_SEND] = IB_UVERBS_WR_SEND,
        [DCFA_SEND_IMMEDIATE] = IB_UVERBS_WR_SEND_WITH_IMM,
        [DCFA_WRITE] = IB_UVERBS_WR_RDMA_WRITE,
        [DCFA_WRITE_IMMEDIATE] = IB_UVERBS_WR_RDMA_WRITE_WITH_IMM,
        [DCFA_READ] = IB_UVERBS_WR_RDMA_READ,
    };
    struct direct_queue *queue = &qp->direct_send;
    if (full(queue))
        return error_static(-EAGAIN, "the queue is full: poll its completion queue");
    struct rxe_send_wqe *entry = slot(queue, queue->mine);
    memset(entry, 0, sizeof(*entry)); /* what follows is read as far as it is written */
    entry->wr.wr_id = note(qp, queue, send->id, send->what);
    entry->wr.opcode = opcodes[send->what];
    entry->wr.send_flags = (send->flags & DCFA_SIGNALLED ? RXE_SIGNALLED : 0) |
                           (send->flags & DCFA_INLINE ? RXE_INLINE : 0) |
                           (send->flags & DCFA_FENCE ? RXE_FENCE : 0);
    entry->wr.ex.imm_data = send->immediate;
    entry->wr.wr.rdma.remote_addr = entry->iova = send->remote_address;
    entry->wr.wr.rdma.rkey = send->remote_key;
    entry->ssn = queue->serial++;
    if (send->flags & DCFA_INLINE)
        take_inline(&entry->dma, send->pieces, send->piece_count);
    else
        take_pieces(&entry->dma, send->pieces, send->piece_count);
    announce(queue);
    return ring_doorbell(qp);
}

int direct_post_receive(struct dcfa_qp *qp, uint64_t id, const struct dcfa_piece *pieces,
                        uint32_t piece_count)
{
    struct direct_queue *queue = &qp->direct_receive;
    if (full(queue))
        return error_static(-EAGAIN, "the queue is full: poll its completion queue");
    struct rxe_recv_wqe *entry = slot(queue, queue->mine);
    memset(entry, 0, sizeof(*entry));
    entry->wr_id = note(qp, queue, id, DCFA_RECEIVE);
    take_pieces(&entry->dma, pieces, piece_count);
    announce(queue);
    return 0;
}

/* ---- completions ---- */

static uint32_t result_of(uint32_t status)
{
    switch (status) {
    case 0:
        return DCFA_OK;
    case RXE_LENGTH:
        return DCFA_LENGTH;
    case RXE_QP_OPERATION:
    case RXE_PROTECTION:
    case RXE_LOCAL_ACCESS:
        return DCFA_ACCESS;
    case RXE_FLUSHED:
        return DCFA_FLUSHED;
    case RXE_REMOTE_ACCESS:
        return DCFA_REMOTE_ACCESS;
    case RXE_REMOTE_REQUEST:
    case RXE_REMOTE_OPERATION:
        return DCFA_REMOTE_REFUSED;
    case RXE_RETRIES:
        return DCFA_UNREACHABLE;
    default:
        return DCFA_DEVICE_ERROR;
    }
}

static void take(const struct dcfa_cq *cq, const struct ib_uverbs_wc *entry,
                 struct dcfa_completion *ret_completion)
{
    struct dcfa_qp *qp =
        cq->object.processor->qps[entry->wr_id >> WR_QP_SHIFT & (DCFA_QPS_MAX - 1)];
    const uint32_t what = entry->wr_id & WR_WHAT_MASK;
    const bool received = what == DCFA_RECEIVE, good = entry->status == 0;
    struct direct_queue *queue = received ? &qp->direct_receive : &qp->direct_send;
    const uint32_t at = (uint32_t)entry->wr_id >> WR_SLOT_SHIFT & (queue->slots - 1);
    *ret_completion = (struct dcfa_completion){
        .id = queue->ids[at],
        .qp = qp->object.id,
        .what = received && good && entry->opcode == RXE_RECEIVED_WRITE ? DCFA_RECEIVE_WRITE : what,
        .result = result_of(entry->status),
        .bytes = received && good ? entry->byte_len : 0,
        .has_immediate = received && good && entry->wc_flags & RXE_WITH_IMMEDIATE,
    };
    if (ret_completion->has_immediate)
        ret_completion->immediate = entry->ex.imm_data;
    /* release: the id was read before the slot is used again */
    atomic_store_explicit(&queue->done, (at + 1) & (queue->slots - 1), memory_order_release);
}

static void advance(struct direct_queue *queue, uint32_t entries)
{
    queue->mine = (queue->mine + entries) & (queue->slots - 1);
    /* release: the entries were read before their space is used again */
    atomic_store_explicit(consumer(queue), queue->mine, memory_order_release);
}

int direct_poll(struct dcfa_cq *cq, uint32_t max, struct dcfa_completion *ret_completions)
{
    struct direct_queue *queue = &cq->direct;
    uint32_t n = 0;
    /* acquire: the device has written the entries before its index */
    while (n < max && atomic_load_explicit(producer(queue), memory_order_acquire) != queue->mine) {
        take(cq, slot(queue, queue->mine), &ret_completions[n++]);
        advance(queue, 1);
    }
    return (int)n;
}

void direct_forget(struct dcfa_cq *cq, const struct dcfa_qp *qp)
{
    struct direct_queue *queue = &cq->direct;
    const uint32_t mask = queue->slots - 1;
    uint32_t gone = 0;
    /* acquire: as in direct_poll() */
    const uint32_t end = atomic_load_explicit(producer(queue), memory_order_acquire) & mask;
    /* backwards: the remaining ones move up to the device's index */
    for (uint32_t i = end; i != queue->mine;) {
        i = (i - 1) & mask;
        const struct ib_uverbs_wc *entry = slot(queue, i);
        if (entry->qp_num == qp->device_number)
            gone++;
        else if (gone > 0)
            memcpy(slot(queue, (i + gone) & mask), entry, sizeof(*entry));
    }
    advance(queue, gone);
}
