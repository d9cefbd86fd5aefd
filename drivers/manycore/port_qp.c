/* Queue pairs of a port. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drivers/manycore/port.h"
#include "drivers/manycore/server.h"
#include "proto/siphash.h"

struct address {
    uint8_t device[VERBS_ADDRESS_BYTES];
    uint32_t user, zero;
    uint64_t signature[2]; /* of the above */
};
static_assert(sizeof(struct address) == DCFA_ADDRESS_BYTES, "wire format");

static bool is_size(uint32_t entries)
{
    return entries >= 2 && entries <= DCFA_ENTRIES_MAX && (entries & (entries - 1)) == 0;
}

/* Every entry must find space for its completion. */
static int check_cqs(const struct port *port, const struct port_request *request, char *text,
                     size_t text_bytes)
{
    const uint32_t ids[] = {request->send_cq, request->receive_cq};
    const uint32_t wanted[] = {request->entries, request->receive_entries};
    for (int i = 0; i < 2; i++) {
        const struct port_cq *cq = ids[i] < DCFA_CQS_MAX ? port->cqs[ids[i]] : NULL;
        if (!cq) {
            snprintf(text, text_bytes, "there is no completion queue %u", ids[i]);
            return -EINVAL;
        }
        const uint32_t need = ids[0] == ids[1] ? wanted[0] + wanted[1] : wanted[i];
        if (need > cq->entries - cq->reserved) {
            snprintf(text, text_bytes,
                     "completion queue %u has %u entries, %u of them for other queues, and this "
                     "queue pair needs %u: create a longer one",
                     ids[i], cq->entries, cq->reserved, need);
            return -ENOSPC;
        }
    }
    return 0;
}

static int check(const struct port *port, const struct port_request *request, char *text,
                 size_t text_bytes)
{
    if (!is_size(request->entries) || !is_size(request->receive_entries)) {
        snprintf(text, text_bytes,
                 "queues of %u and %u entries: each must be a power of two from 2 to %u",
                 request->entries, request->receive_entries, DCFA_ENTRIES_MAX);
        return -EINVAL;
    }
    if (request->domain >= DCFA_DOMAINS_MAX || !port->domains[request->domain]) {
        snprintf(text, text_bytes, "there is no protection domain %u", request->domain);
        return -EINVAL;
    }
    return check_cqs(port, request, text, text_bytes);
}

static int queue_init(struct port *port, struct port_queue *queue, uint32_t entries)
{
    if (!port_is_direct(port))
        queue->ids = calloc(entries, sizeof(*queue->ids));
    if (!queue->ids && !port_is_direct(port))
        return -ENOMEM;
    int page = port_take_pages(port, port_queue_pages(port, entries, sizeof(struct dcfa_entry)));
    if (page < 0)
        return page;
    queue->entries = entries;
    queue->page = (uint32_t)page;
    if (page > 0)
        dcfa_ring_init(&queue->ring, port_page(port, queue->page), sizeof(struct dcfa_entry),
                       entries);
    return 0;
}

static void queue_deinit(struct port *port, struct port_queue *queue)
{
    if (queue->entries)
        port_return_pages(port, queue->page,
                          port_queue_pages(port, queue->entries, sizeof(struct dcfa_entry)));
    free(queue->ids);
}

static void qp_free(struct port *port, struct port_qp *qp)
{
    if (qp->qp)
        port->device->ops->qp_free(qp->qp);
    queue_deinit(port, &qp->send);
    queue_deinit(port, &qp->receive);
    free(qp);
}

static int make(struct port *port, const struct port_request *request, struct port_qp *qp)
{
    const struct verbs_qp_args args = {.owner = port,
                                       .domain = port->domains[request->domain]->domain,
                                       .send_cq = port->cqs[request->send_cq]->cq,
                                       .receive_cq = port->cqs[request->receive_cq]->cq,
                                       .send_entries = request->entries,
                                       .receive_entries = request->receive_entries};
    int r = queue_init(port, &qp->send, request->entries);
    if (r == 0)
        r = queue_init(port, &qp->receive, request->receive_entries);
    return r < 0 ? r : port->device->ops->qp_new(&args, &qp->qp);
}

static void enter(struct port *port, const struct port_request *request, struct port_qp *qp)
{
    qp->domain = request->domain;
    qp->send_cq = request->send_cq;
    qp->receive_cq = request->receive_cq;
    qp->generation = ++port->generation;
    port_server_lock(port->server);
    port->domains[qp->domain]->users++;
    port->cqs[qp->send_cq]->users++;
    port->cqs[qp->send_cq]->reserved += request->entries;
    port->cqs[qp->receive_cq]->users++;
    port->cqs[qp->receive_cq]->reserved += request->receive_entries;
    port->qps[qp->number] = qp;
    if (port->qp_end <= qp->number)
        port->qp_end = qp->number + 1;
    port_server_unlock(port->server);
}

static void sign(const struct port *port, const struct address *address, uint64_t ret_signature[2])
{
    siphash_128(port->owner.secret, address, offsetof(struct address, signature), ret_signature);
}

static void make_address(const struct port *port, const struct port_qp *qp,
                         uint8_t ret_address[static DCFA_ADDRESS_BYTES])
{
    struct address address = {.user = port->owner.user};
    memcpy(address.device, qp->qp->address, sizeof(address.device));
    sign(port, &address, address.signature);
    memcpy(ret_address, &address, sizeof(address));
}

/* Of a queue pair that this processor's may be connected to: 0, -EINVAL or -EACCES. */
static int check_address(const struct port *port, const struct address *address)
{
    uint64_t own[2];
    sign(port, address, own);
    if ((own[0] ^ address->signature[0]) | (own[1] ^ address->signature[1]))
        return -EINVAL;
    return address->user == port->owner.user ? 0 : -EACCES;
}

int port_qp_create(struct port *port, const struct port_request *request,
                   struct port_created *ret_created, char *text, size_t text_bytes)
{
    int r = check(port, request, text, text_bytes);
    uint32_t number = 0;
    while (r == 0 && number < DCFA_QPS_MAX && port->qps[number])
        number++;
    if (r == 0 && number == DCFA_QPS_MAX) {
        snprintf(text, text_bytes, "an offload processor has at most %u queue pairs: release some",
                 DCFA_QPS_MAX);
        r = -EDQUOT;
    }
    if (r < 0)
        return r;
    struct port_qp *qp = calloc(1, sizeof(*qp));
    r = qp ? make(port, request, qp) : -ENOMEM;
    if (r < 0) {
        if (qp)
            qp_free(port, qp);
        snprintf(text, text_bytes, "%s could not create a queue pair of %u and %u entries: %s",
                 port->device->name, request->entries, request->receive_entries,
                 strerrordesc_np(-r));
        return r;
    }
    qp->number = number;
    qp->bytes = port_request_bytes(request);
    enter(port, request, qp);
    ret_created->id = number;
    ret_created->queue = qp->qp->send;
    ret_created->receive = qp->qp->receive;
    ret_created->device_handle = qp->qp->handle;
    ret_created->device_number = qp->qp->number;
    if (!port_is_direct(port)) {
        ret_created->queue.offset = (uint64_t)qp->send.page * DCFA_PAGE_BYTES;
        ret_created->receive.offset = (uint64_t)qp->receive.page * DCFA_PAGE_BYTES;
    }
    make_address(port, qp, ret_created->address);
    return 0;
}

int64_t port_qp_destroy(struct port *port, uint32_t id)
{
    struct port_qp *qp = port->qps[id];
    const int64_t bytes = (int64_t)qp->bytes;
    port_server_lock(port->server);
    port->qps[id] = NULL;
    port->domains[qp->domain]->users--;
    port->cqs[qp->send_cq]->users--;
    port->cqs[qp->send_cq]->reserved -= qp->send.entries;
    port->cqs[qp->receive_cq]->users--;
    port->cqs[qp->receive_cq]->reserved -= qp->receive.entries;
    port_server_unlock(port->server);
    qp_free(port, qp);
    port_server_wake(port->server); /* its peer's completions */
    return bytes;
}

static const char *why_not(int r)
{
    switch (r) {
    case -EINVAL:
        return "the address is not one of a queue pair of this cluster, and of such a device";
    case -EHOSTUNREACH:
        return "it belongs to another tcad, and this device is in software: set dcfa.device";
    case -ECONNREFUSED:
        return "it was released: get the address of a new one";
    case -EACCES:
        return "it belongs to another user";
    default:
        return strerrordesc_np(-r);
    }
}

int port_connect(struct port *port, uint32_t id, const uint8_t *bytes, size_t address_bytes,
                 char *text, size_t text_bytes)
{
    struct address address;
    struct port_qp *qp = id < DCFA_QPS_MAX ? port->qps[id] : NULL;
    if (!qp || address_bytes != DCFA_ADDRESS_BYTES) {
        snprintf(text, text_bytes, "no queue pair %u, or an address of %zu bytes", id,
                 address_bytes);
        return -EINVAL;
    }
    if (qp->connected) {
        snprintf(text, text_bytes, "queue pair %u is connected already: create another", id);
        return -EISCONN;
    }
    memcpy(&address, bytes, sizeof(address));
    int r = check_address(port, &address);
    if (r == 0)
        r = port->device->ops->qp_connect(qp->qp, address.device);
    if (r < 0) {
        snprintf(text, text_bytes, "queue pair %u: %s cannot reach the peer: %s", id,
                 port->device->name, why_not(r));
        return r;
    }
    port_server_lock(port->server);
    qp->connected = true;
    port_server_unlock(port->server);
    return 0;
}
