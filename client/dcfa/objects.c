/* Objects of an offload processor: created and released by commands to tcad. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/core/error.h"
#include "client/dcfa/dcfa.h"
#include "proto/list.h"

static_assert((int)DCFA_LOCAL == (int)DCFA_ACCESS_LOCAL &&
                  (int)DCFA_REMOTE_WRITE == (int)DCFA_ACCESS_WRITE &&
                  (int)DCFA_REMOTE_READ == (int)DCFA_ACCESS_READ &&
                  sizeof(struct dcfa_address) == DCFA_ADDRESS_BYTES,
              "public and wire values are the same");

/* ---- commands ---- */

static int create(struct dcfa *processor, Tca__DcfaCreate *body, struct dcfa_object *object,
                  struct reply *ret_reply)
{
    const Tca__Message request = REQUEST(DCFA_CREATE, dcfa_create, body);
    int r =
        session_request(processor->session, &request, TCA__MESSAGE__BODY_DCFA_CREATED, ret_reply);
    if (r < 0)
        return r;
    object->processor = processor;
    object->kind = (enum dcfa_kind)body->kind;
    object->id = ret_reply->message->dcfa_created->id;
    LIST_ADD(&processor->objects, object, next, link);
    return 0;
}

void dcfa_object_free(struct dcfa_object *object)
{
    if (object->kind == DCFA_CQ)
        direct_cq_unmap((struct dcfa_cq *)object);
    else if (object->kind == DCFA_QP)
        direct_qp_unmap((struct dcfa_qp *)object);
    free(object);
}

static void forget_qp(struct dcfa_qp *qp)
{
    qp->object.processor->qps[qp->object.id % DCFA_QPS_MAX] = NULL;
    if (!qp->direct_send.shared)
        return;
    direct_forget(qp->send_cq, qp);
    direct_forget(qp->receive_cq, qp);
}

static int release(struct dcfa_object *object)
{
    if (!object)
        return 0;
    Tca__DcfaRelease body = TCA__DCFA_RELEASE__INIT;
    body.kind = object->kind;
    body.id = object->id;
    const Tca__Message request = REQUEST(DCFA_RELEASE, dcfa_release, &body);
    int r = session_request(object->processor->session, &request, TCA__MESSAGE__BODY_DONE, NULL);
    if (r < 0 && !object->processor->session->control.lost)
        return r;
    if (object->kind == DCFA_QP)
        forget_qp((struct dcfa_qp *)object);
    LIST_REMOVE(object, next, link);
    dcfa_object_free(object);
    return 0;
}

/* The ring of a queue that tcad has placed. */
static int take_ring(const struct dcfa *processor, uint64_t offset, uint32_t entries,
                     uint32_t entry_bytes, struct ring *ring)
{
    const uint64_t bytes = (uint64_t)dcfa_queue_pages(entries, entry_bytes) * DCFA_PAGE_BYTES;
    if (offset % LINE_BYTES || offset < sizeof(struct dcfa_head) ||
        offset > processor->memory_offset || bytes > processor->memory_offset - offset)
        return error_set(-EPROTO, "tcad placed a queue of %llu bytes at offset %llu",
                         (unsigned long long)bytes, (unsigned long long)offset);
    dcfa_ring_init(ring, (uint8_t *)processor->head + offset, entry_bytes, entries);
    return 0;
}

/* ---- protection domains and completion queues ---- */

int dcfa_pd_new(struct dcfa *processor, struct dcfa_pd **ret_pd)
{
    struct reply reply;
    Tca__DcfaCreate body = TCA__DCFA_CREATE__INIT;
    struct dcfa_pd *pd = calloc(1, sizeof(*pd));
    if (!pd)
        return error_static(-ENOMEM, "out of memory");
    body.kind = DCFA_DOMAIN;
    int r = create(processor, &body, &pd->object, &reply);
    if (r < 0) {
        free(pd);
        return r;
    }
    reply_free(&reply);
    *ret_pd = pd;
    return 0;
}

int dcfa_pd_free(struct dcfa_pd *pd)
{
    return release(pd ? &pd->object : NULL);
}

int dcfa_cq_new(struct dcfa *processor, uint32_t entries, struct dcfa_cq **ret_cq)
{
    struct reply reply;
    Tca__DcfaCreate body = TCA__DCFA_CREATE__INIT;
    struct dcfa_cq *cq = calloc(1, sizeof(*cq));
    if (!cq)
        return error_static(-ENOMEM, "out of memory");
    body.kind = DCFA_CQ;
    body.entries = entries;
    int r = create(processor, &body, &cq->object, &reply);
    if (r < 0) {
        free(cq);
        return r;
    }
    const Tca__DcfaCreated *created = reply.message->dcfa_created;
    r = processor->device_fd >= 0 ? direct_cq_map(cq, entries, created)
                                  : take_ring(processor, created->queue_offset, entries,
                                              sizeof(struct dcfa_completion_entry), &cq->ring);
    reply_free(&reply);
    if (r < 0) {
        release(&cq->object);
        return r;
    }
    *ret_cq = cq;
    return 0;
}

int dcfa_cq_free(struct dcfa_cq *cq)
{
    return release(cq ? &cq->object : NULL);
}

/* ---- queue pairs ---- */

static int take_rings(struct dcfa_qp *qp, const struct dcfa_qp_args *args,
                      const Tca__DcfaCreated *created)
{
    const struct dcfa *processor = qp->object.processor;
    int r = take_ring(processor, created->queue_offset, args->send_entries,
                      sizeof(struct dcfa_entry), &qp->send);
    if (r == 0)
        r = take_ring(processor, created->receive_offset, args->receive_entries,
                      sizeof(struct dcfa_entry), &qp->receive);
    return r;
}

static int take_qp(struct dcfa_qp *qp, const struct dcfa_qp_args *args,
                   const Tca__DcfaCreated *created)
{
    if (qp->object.id >= DCFA_QPS_MAX)
        return error_set(-EPROTO, "tcad sent queue pair %u", qp->object.id);
    int r = qp->object.processor->device_fd >= 0 ? direct_qp_map(qp, args, created)
                                                 : take_rings(qp, args, created);
    if (r == 0 && created->address.len != sizeof(qp->address))
        r = error_set(-EPROTO, "tcad sent an address of %zu bytes", created->address.len);
    if (r == 0)
        memcpy(&qp->address, created->address.data, sizeof(qp->address));
    if (r == 0)
        qp->object.processor->qps[qp->object.id] = qp;
    return r;
}

int dcfa_qp_new(struct dcfa_pd *pd, const struct dcfa_qp_args *args, struct dcfa_qp **ret_qp)
{
    struct reply reply;
    Tca__DcfaCreate body = TCA__DCFA_CREATE__INIT;
    if (!args->send_cq || !args->receive_cq)
        return error_static(-EINVAL, "a queue pair without a completion queue");
    struct dcfa_qp *qp = calloc(1, sizeof(*qp));
    if (!qp)
        return error_static(-ENOMEM, "out of memory");
    qp->send_cq = args->send_cq;
    qp->receive_cq = args->receive_cq;
    body.kind = DCFA_QP;
    body.domain = pd->object.id;
    body.entries = args->send_entries;
    body.receive_entries = args->receive_entries;
    body.send_cq = args->send_cq->object.id;
    body.receive_cq = args->receive_cq->object.id;
    int r = create(pd->object.processor, &body, &qp->object, &reply);
    if (r < 0) {
        free(qp);
        return r;
    }
    r = take_qp(qp, args, reply.message->dcfa_created);
    reply_free(&reply);
    if (r < 0) {
        release(&qp->object);
        return r;
    }
    *ret_qp = qp;
    return 0;
}

int dcfa_qp_free(struct dcfa_qp *qp)
{
    return release(qp ? &qp->object : NULL);
}

uint32_t dcfa_qp_number(const struct dcfa_qp *qp)
{
    return qp->object.id;
}

void dcfa_qp_address(const struct dcfa_qp *qp, struct dcfa_address *ret_address)
{
    *ret_address = qp->address;
}

int dcfa_qp_connect(struct dcfa_qp *qp, const struct dcfa_address *peer)
{
    Tca__DcfaConnect body = TCA__DCFA_CONNECT__INIT;
    body.qp = qp->object.id;
    body.address = (ProtobufCBinaryData){sizeof(peer->bytes), (uint8_t *)peer->bytes};
    const Tca__Message request = REQUEST(DCFA_CONNECT, dcfa_connect, &body);
    int r = session_request(qp->object.processor->session, &request, TCA__MESSAGE__BODY_DONE, NULL);
    if (r == 0)
        qp->connected = true;
    return r;
}

/* ---- memory ---- */

int dcfa_mr_new(struct dcfa_pd *pd, void *address, uint64_t bytes, uint32_t access,
                struct dcfa_mr **ret_mr)
{
    const struct dcfa *processor = pd->object.processor;
    const uint64_t offset = (uintptr_t)address - (uintptr_t)processor->head;
    struct reply reply;
    if (offset < processor->memory_offset || offset > processor->segment_bytes ||
        bytes > processor->segment_bytes - offset || bytes == 0)
        return error_set(-EINVAL,
                         "%llu bytes at %p are not in the processor's memory, which dcfa_memory() "
                         "returns",
                         (unsigned long long)bytes, address);
    struct dcfa_mr *mr = calloc(1, sizeof(*mr));
    if (!mr)
        return error_static(-ENOMEM, "out of memory");
    Tca__DcfaCreate body = TCA__DCFA_CREATE__INIT;
    body.kind = DCFA_MEMORY;
    body.domain = pd->object.id;
    body.offset = offset;
    body.bytes = bytes;
    body.address = (uintptr_t)address;
    body.access = access;
    int r = create(pd->object.processor, &body, &mr->object, &reply);
    if (r < 0) {
        free(mr);
        return r;
    }
    mr->local_key = reply.message->dcfa_created->local_key;
    mr->remote_key = reply.message->dcfa_created->remote_key;
    reply_free(&reply);
    *ret_mr = mr;
    return 0;
}

int dcfa_mr_free(struct dcfa_mr *mr)
{
    return release(mr ? &mr->object : NULL);
}

uint32_t dcfa_mr_local_key(const struct dcfa_mr *mr)
{
    return mr->local_key;
}

uint32_t dcfa_mr_remote_key(const struct dcfa_mr *mr)
{
    return mr->remote_key;
}
