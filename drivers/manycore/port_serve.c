/* The border between an offload processor and the device: what is in the processor's queues is
 * copied once, checked, and posted; completions go back. */
#include <stdio.h>

#include "drivers/manycore/port.h"

enum {
    BUDGET = 16,      /* of one queue: then it is the next one's turn */
    PORT_BUDGET = 64, /* entries of one processor in one round, however many queues it has */
};

static void break_port(struct port *port, const char *why)
{
    if (port->broken)
        return;
    port->broken = why;
    port->on_broken(port->context, why);
}

static void add(_Atomic uint64_t *counter, uint64_t more)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + more,
                          memory_order_relaxed);
}
#define COUNT(port, counter, more)                                                                 \
    do {                                                                                           \
        add(&(port)->stats.counter, more);                                                         \
        add(&(port)->totals->counter, more);                                                       \
    } while (0)

/* ---- to the processor ---- */

/* Free entries of the ring of completions; 0 also if the processor has broken it. */
static unsigned space_of(struct port *port, struct port_cq *cq)
{
    int used = ring_left(&cq->ring);
    if (used >= 0)
        return cq->entries - (uint32_t)used;
    break_port(port, "the consumer's index of a completion queue is impossible");
    return 0;
}

static void deliver(struct port *port, struct port_cq *cq, uint32_t qp,
                    const struct port_posted *posted, const struct verbs_completion *completion)
{
    const struct dcfa_completion_entry entry = {
        .id = posted->id,
        .qp = qp,
        .bytes = completion->bytes,
        .immediate = completion->immediate,
        .status = (uint8_t)completion->status,
        .opcode = completion->opcode,
        .flags = completion->has_immediate ? DCFA_FLAG_IMMEDIATE : 0,
    };
    if (completion->status != DCFA_ST_OK)
        COUNT(port, errors, 1);
    else if (!posted->signalled)
        return;
    ring_push(&cq->ring, &entry); /* the caller knows of the space */
    COUNT(port, completions, 1);
}

static void took(struct port *port, const struct verbs_completion *completion)
{
    const uint32_t number = (uint32_t)(completion->token >> 1) & (DCFA_QPS_MAX - 1);
    const bool receive = completion->token & 1;
    struct port_qp *qp = port->qps[number];
    if (!qp || qp->generation != (uint32_t)(completion->token >> 32))
        return;
    struct port_queue *queue = receive ? &qp->receive : &qp->send;
    const struct port_posted posted = queue->ids[queue->first++ & (queue->entries - 1)];
    struct verbs_completion known = *completion;
    queue->posted--;
    if (!receive || completion->status != DCFA_ST_OK) /* devices do not tell it for errors */
        known.opcode = posted.opcode;
    deliver(port, port->cqs[receive ? qp->receive_cq : qp->send_cq], number, &posted, &known);
}

static unsigned serve_cq(struct port *port, struct port_cq *cq)
{
    struct verbs_completion completions[BUDGET];
    const unsigned space = space_of(port, cq);
    if (space == 0)
        return 0;
    int n = port->device->ops->poll(cq->cq, completions, space < BUDGET ? space : BUDGET);
    for (int i = 0; i < n; i++)
        took(port, &completions[i]);
    return n > 0 ? (unsigned)n : 0;
}

/* ---- from the processor ---- */

static uint64_t bytes_of(const struct dcfa_entry *entry)
{
    uint64_t bytes = 0;
    for (unsigned i = 0; i < entry->count; i++)
        bytes += entry->pieces[i].bytes;
    return bytes;
}

static bool is_good(const struct dcfa_entry *entry, bool receive)
{
    const uint64_t flags = receive ? 0 : DCFA_FLAGS_SEND;
    if (entry->flags & ~flags)
        return false;
    if (!receive && entry->opcode > DCFA_OP_READ)
        return false;
    if (entry->flags & DCFA_FLAG_INLINE)
        return entry->opcode != DCFA_OP_READ && entry->count <= DCFA_INLINE_MAX_BYTES;
    return entry->count <= DCFA_PIECES_MAX && bytes_of(entry) <= DCFA_MESSAGE_MAX_BYTES;
}

/* Completes an entry without the device. */
static unsigned refuse(struct port *port, struct port_qp *qp, bool receive, enum dcfa_status status,
                       const struct port_posted *posted)
{
    deliver(port, port->cqs[receive ? qp->receive_cq : qp->send_cq], qp->number, posted,
            &(struct verbs_completion){.status = status, .opcode = posted->opcode});
    return 1;
}

static int post(struct port *port, struct port_qp *qp, struct port_queue *queue,
                const struct dcfa_entry *entry)
{
    const struct verbs_ops *ops = port->device->ops;
    const bool receive = queue == &qp->receive;
    const uint64_t token = (uint64_t)qp->generation << 32 | qp->number << 1 | receive;
    if (!receive && !qp->connected)
        return -ENOTCONN;
    return receive ? ops->post_receive(qp->qp, entry, token) : ops->post_send(qp->qp, entry, token);
}

static unsigned take(struct port *port, struct port_qp *qp, struct port_queue *queue,
                     const struct dcfa_entry *entry)
{
    const bool receive = queue == &qp->receive;
    const struct port_posted posted = {.id = entry->id,
                                       .opcode = receive                         ? DCFA_OP_RECEIVE
                                                 : entry->opcode <= DCFA_OP_READ ? entry->opcode
                                                                                 : DCFA_OP_SEND,
                                       .signalled = receive || entry->flags & DCFA_FLAG_SIGNALLED};
    if (queue->failed)
        return refuse(port, qp, receive, DCFA_ST_FLUSHED, &posted);
    if (!is_good(entry, receive) || post(port, qp, queue, entry) < 0) {
        queue->bad = true;
        queue->refused = posted;
        return 1;
    }
    queue->ids[(queue->first + queue->posted++) & (queue->entries - 1)] = posted;
    COUNT(port, entries, 1);
    if (!receive)
        COUNT(port, bytes, entry->flags & DCFA_FLAG_INLINE ? entry->count : bytes_of(entry));
    return 1;
}

/* A malformed entry completes after those before it, and the queue pair fails. */
static unsigned serve_bad(struct port *port, struct port_qp *qp, struct port_queue *queue)
{
    if (queue->posted > 0)
        return 0;
    queue->bad = false;
    queue->failed = true;
    if (qp->connected)
        port->device->ops->qp_fail(qp->qp);
    return refuse(port, qp, queue == &qp->receive, DCFA_ST_ENTRY, &queue->refused);
}

static unsigned serve_queue(struct port *port, struct port_qp *qp, struct port_queue *queue)
{
    struct port_cq *cq = port->cqs[queue == &qp->receive ? qp->receive_cq : qp->send_cq];
    unsigned work = 0;
    for (unsigned i = 0; i < BUDGET && !port->broken; i++) {
        struct dcfa_entry entry;
        if (queue->bad) {
            if (space_of(port, cq) == 0 || serve_bad(port, qp, queue) == 0)
                return work;
            work++;
            continue;
        }
        if (queue->posted == queue->entries || (queue->failed && space_of(port, cq) == 0))
            return work;
        int r = ring_pop(&queue->ring, &entry);
        if (r < 0)
            break_port(port, "the producer's index of a queue is impossible");
        if (r <= 0)
            return work;
        work += take(port, qp, queue, &entry);
    }
    return work;
}

static unsigned serve_qps(struct port *port)
{
    unsigned work = 0;
    uint32_t idle = 0;
    while (idle < port->qp_end && work < PORT_BUDGET && !port->broken) {
        port->turn = port->turn + 1 < port->qp_end ? port->turn + 1 : 0;
        struct port_qp *qp = port->qps[port->turn];
        const unsigned took =
            qp ? serve_queue(port, qp, &qp->receive) + serve_queue(port, qp, &qp->send) : 0;
        idle = took > 0 ? 0 : idle + 1;
        work += took;
    }
    return work;
}

unsigned port_serve(struct port *port)
{
    unsigned work = serve_qps(port);
    for (uint32_t i = 0; i < port->cq_end && !port->broken; i++)
        if (port->cqs[i])
            work += serve_cq(port, port->cqs[i]);
    return work;
}

/* ---- before sleeping ---- */

bool port_arm(struct port *port)
{
    if (port->broken)
        return true;
    atomic_store_explicit(&port->head->armed, 1, memory_order_relaxed);
    /* pairs with the fence in the processor's post (client/dcfa/post.c): either it sees `armed`, or
     * this sees its entry */
    atomic_thread_fence(memory_order_seq_cst);
    port->full = false;
    for (uint32_t i = 0; i < port->cq_end; i++) {
        struct port_cq *cq = port->cqs[i];
        if (cq && port->device->event_fd >= 0 && port->device->ops->arm(cq->cq) < 0)
            return false;
        port->full |= cq && space_of(port, cq) == 0;
    }
    return port_serve(port) == 0;
}

void port_disarm(struct port *port)
{
    atomic_store_explicit(&port->head->armed, 0, memory_order_relaxed);
}
