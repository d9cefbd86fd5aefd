/* Transfers of the device in software: one send at a time per queue pair, in slices. */
#include <string.h>

#include "drivers/manycore/loop.h"
#include "proto/list.h"

/* One end of a transfer: pieces of memory, or the data in the entry. */
struct end {
    const struct loop_device *device;
    const struct loop_domain *domain;
    unsigned access;
    const struct dcfa_piece_entry *pieces;
    unsigned count;
    const uint8_t *data; /* NULL: pieces */
};

static struct loop_work *first(struct loop_queue *queue)
{
    return queue->head == queue->tail ? NULL : &queue->entries[queue->head % queue->capacity];
}

/* Where a piece's byte is; NULL: the piece is not in memory registered for this access. Looked up
 * for every slice, because memory can be released meanwhile. */
static uint8_t *locate(const struct end *end, const struct dcfa_piece_entry *piece, uint64_t from)
{
    const struct loop_memory *memory = loop_find(&end->device->memories, piece->key);
    if (!memory || memory->domain != end->domain || (memory->access & end->access) != end->access)
        return NULL;
    const uint64_t offset = piece->address - memory->address;
    if (offset > memory->bytes || piece->bytes > memory->bytes - offset)
        return NULL;
    return memory->at + offset + from;
}

static uint64_t bytes_of(const struct dcfa_piece_entry *pieces, unsigned count)
{
    uint64_t bytes = 0;
    for (unsigned i = 0; i < count; i++)
        bytes += pieces[i].bytes;
    return bytes;
}

static bool is_legal(const struct end *end)
{
    for (unsigned i = 0; !end->data && i < end->count; i++)
        if (end->pieces[i].bytes > 0 && !locate(end, &end->pieces[i], 0))
            return false;
    return true;
}

/* The memory at `offset` of an end, and how much follows there; NULL: access is denied. */
static uint8_t *at(const struct end *end, uint64_t offset, uint64_t *ret_bytes)
{
    if (end->data) {
        *ret_bytes = UINT64_MAX;
        return (uint8_t *)end->data + offset;
    }
    unsigned i = 0;
    while (offset >= end->pieces[i].bytes)
        offset -= end->pieces[i++].bytes;
    *ret_bytes = end->pieces[i].bytes - offset;
    return locate(end, &end->pieces[i], offset);
}

/* Copies from offset `from` on. Stores where it stopped, and returns the end that denied access, or
 * NULL. */
static const struct end *copy(const struct end *to, const struct end *source, uint64_t total,
                              uint64_t *from)
{
    const uint64_t until = total - *from < LOOP_SLICE_BYTES ? total : *from + LOOP_SLICE_BYTES;
    while (*from < until) {
        uint64_t bytes, more;
        uint8_t *target = at(to, *from, &bytes);
        const uint8_t *data = at(source, *from, &more);
        if (!target || !data)
            return target ? source : to;
        if (more < bytes)
            bytes = more;
        if (until - *from < bytes)
            bytes = until - *from;
        memmove(target, data, bytes);
        *from += bytes;
    }
    return NULL;
}

/* ---- completions ---- */

static void flush(struct loop_queue *queue, struct loop_cq *cq, bool receives)
{
    for (struct loop_work *work; (work = first(queue)); queue->head++)
        loop_complete(cq, &(struct verbs_completion){.token = work->token,
                                                     .status = DCFA_ST_FLUSHED,
                                                     .opcode = receives ? DCFA_OP_RECEIVE
                                                                        : work->entry.opcode});
}

void loop_flush_receives(struct loop_qp *qp)
{
    flush(&qp->receives, qp->receive_cq, true);
}

void loop_leave(struct loop_qp *qp)
{
    if (qp->remote)
        LIST_REMOVE(qp, next_follower, follower_link);
    qp->remote = NULL;
}

void loop_fail(struct loop_qp *qp)
{
    qp->state = LOOP_FAILED;
    loop_leave(qp);
    flush(&qp->sends, qp->send_cq, false);
    loop_flush_receives(qp);
}

static void finish(struct loop_qp *qp, enum dcfa_status status)
{
    const struct loop_work *work = first(&qp->sends);
    loop_complete(qp->send_cq, &(struct verbs_completion){.token = work->token,
                                                          .status = status,
                                                          .opcode = work->entry.opcode});
    qp->sends.head++;
    qp->moved = 0;
    if (status != DCFA_ST_OK)
        loop_fail(qp);
}

void loop_lose(struct loop_qp *qp)
{
    qp->state = LOOP_LOST;
    loop_leave(qp);
    loop_flush_receives(qp);
    if (first(&qp->sends))
        finish(qp, DCFA_ST_UNREACHABLE);
}

static void finish_receive(struct loop_qp *peer, const struct dcfa_entry *entry, uint64_t bytes,
                           enum dcfa_status status)
{
    const bool write = entry->opcode == DCFA_OP_WRITE_IMMEDIATE;
    loop_complete(peer->receive_cq,
                  &(struct verbs_completion){
                      .token = first(&peer->receives)->token,
                      .status = status,
                      .opcode = write ? DCFA_OP_RECEIVE_IMMEDIATE : DCFA_OP_RECEIVE,
                      .bytes = (uint32_t)bytes,
                      .immediate = entry->immediate,
                      .has_immediate = write || entry->opcode == DCFA_OP_SEND_IMMEDIATE});
    peer->receives.head++;
    if (status != DCFA_ST_OK)
        loop_fail(peer);
}

/* ---- one send ---- */

static bool is_send(const struct dcfa_entry *entry)
{
    return entry->opcode == DCFA_OP_SEND || entry->opcode == DCFA_OP_SEND_IMMEDIATE;
}

static bool takes_receive(const struct dcfa_entry *entry)
{
    return is_send(entry) || entry->opcode == DCFA_OP_WRITE_IMMEDIATE;
}

/* Ends it at both ends, after the remote end has denied access. */
static void deny(struct loop_qp *qp, struct loop_qp *peer, const struct dcfa_entry *entry,
                 enum dcfa_status of_receive)
{
    const struct dcfa_entry copy = *entry;
    finish(qp, is_send(entry) ? DCFA_ST_REMOTE : DCFA_ST_REMOTE_ACCESS);
    if (peer == qp)
        return;
    if (is_send(&copy))
        finish_receive(peer, &copy, 0, of_receive);
    else
        loop_fail(peer);
}

/* The bytes that were moved. */
static uint64_t move(struct loop_device *device, struct loop_qp *qp, struct loop_qp *peer)
{
    const uint64_t from = qp->moved;
    const struct dcfa_entry *entry = &first(&qp->sends)->entry;
    const bool inlined = entry->flags & DCFA_FLAG_INLINE;
    const uint64_t bytes = inlined ? entry->count : bytes_of(entry->pieces, entry->count);
    const struct dcfa_piece_entry range = {entry->remote_address, (uint32_t)bytes,
                                           entry->remote_key};
    struct end own = {device,        qp->domain,   DCFA_ACCESS_LOCAL,
                      entry->pieces, entry->count, inlined ? entry->data : NULL};
    struct end other = {device,
                        peer->domain,
                        entry->opcode == DCFA_OP_READ ? DCFA_ACCESS_READ : DCFA_ACCESS_WRITE,
                        &range,
                        1,
                        NULL};
    if (is_send(entry)) {
        const struct dcfa_entry *receive = &first(&peer->receives)->entry;
        other.access = DCFA_ACCESS_LOCAL;
        other.pieces = receive->pieces;
        other.count = receive->count;
        if (bytes > bytes_of(receive->pieces, receive->count)) {
            deny(qp, peer, entry, DCFA_ST_LOCAL_LENGTH);
            return 0;
        }
    }
    if (!is_legal(&own)) {
        finish(qp, DCFA_ST_LOCAL_ACCESS);
        return 0;
    }
    if (!is_legal(&other)) {
        deny(qp, peer, entry, DCFA_ST_LOCAL_ACCESS);
        return 0;
    }
    const bool read = entry->opcode == DCFA_OP_READ;
    const struct end *denied = copy(read ? &own : &other, read ? &other : &own, bytes, &qp->moved);
    const uint64_t moved = qp->moved - from;
    if (denied == &own) {
        finish(qp, DCFA_ST_LOCAL_ACCESS);
    } else if (denied) {
        deny(qp, peer, entry, DCFA_ST_LOCAL_ACCESS);
    } else if (qp->moved == bytes) {
        if (takes_receive(entry))
            finish_receive(peer, entry, bytes, DCFA_ST_OK);
        finish(qp, DCFA_ST_OK);
    }
    return moved;
}

uint64_t loop_advance(struct loop_device *device, struct loop_qp *qp)
{
    const struct loop_work *work = first(&qp->sends);
    if (!work)
        return 0;
    struct loop_qp *peer = qp->remote;
    if (!peer || (peer->state != LOOP_NEW && peer->remote != qp)) {
        finish(qp, DCFA_ST_UNREACHABLE);
        return LOOP_ENTRY_BYTES;
    }
    if (peer->state == LOOP_NEW || (takes_receive(&work->entry) && !first(&peer->receives)))
        return 0; /* until the peer has done that */
    return LOOP_ENTRY_BYTES + move(device, qp, peer);
}
