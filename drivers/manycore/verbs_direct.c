/* Queues that an offload processor drives by itself: soft-RoCE's. The objects are on a uverbs
 * descriptor of the processor's own. They are created by the kernel's commands: libibverbs would
 * map the queues into this process, and soft-RoCE lets each be mapped once. */
#include <errno.h>
#include <fcntl.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_rxe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "drivers/manycore/verbs_hca.h"

struct direct_domain {
    struct verbs_domain base;
    uint32_t handle;
};
struct direct_memory {
    struct verbs_memory base;
    uint32_t handle;
};
struct direct_cq {
    struct verbs_cq base;
    uint32_t handle;
};

/* Every body begins with the address of the response, if there is one. */
static int command(const struct verbs_device *device, uint32_t what, const void *body, size_t bytes,
                   void *ret_response, size_t response_bytes)
{
    struct {
        struct ib_uverbs_cmd_hdr head;
        uint8_t body[sizeof(struct ib_uverbs_modify_qp)];
    } message = {.head = {.command = what,
                          .in_words = (uint16_t)((sizeof(message.head) + bytes) / 4),
                          .out_words = (uint16_t)(response_bytes / 4)}};
    const uint64_t response = (uintptr_t)ret_response;
    memcpy(message.body, body, bytes);
    if (ret_response)
        memcpy(message.body, &response, sizeof(response));
    return write(device->fd, &message, sizeof(message.head) + bytes) < 0 ? -errno : 0;
}

/* ---- domains and memory ---- */

static int domain_new(struct verbs_device *device, struct verbs_domain **ret_domain)
{
    const struct ib_uverbs_alloc_pd body = {0};
    struct ib_uverbs_alloc_pd_resp response;
    struct direct_domain *domain = calloc(1, sizeof(*domain));
    if (!domain)
        return -ENOMEM;
    int r = command(device, IB_USER_VERBS_CMD_ALLOC_PD, &body, sizeof(body), &response,
                    sizeof(response));
    if (r < 0) {
        free(domain);
        return r;
    }
    domain->base.device = device;
    domain->handle = response.pd_handle;
    *ret_domain = &domain->base;
    return 0;
}

static void domain_free(struct verbs_domain *base)
{
    struct direct_domain *domain = (struct direct_domain *)base;
    const struct ib_uverbs_dealloc_pd body = {domain->handle};
    command(base->device, IB_USER_VERBS_CMD_DEALLOC_PD, &body, sizeof(body), NULL, 0);
    free(domain);
}

static int memory_new(struct verbs_domain *base, void *at, uint64_t bytes, uint64_t address,
                      unsigned access, struct verbs_memory **ret_memory)
{
    const struct ib_uverbs_reg_mr body = {.start = (uintptr_t)at,
                                          .length = bytes,
                                          .hca_va = address,
                                          .pd_handle = ((struct direct_domain *)base)->handle,
                                          .access_flags = (uint32_t)hca_access(access)};
    struct ib_uverbs_reg_mr_resp response;
    struct direct_memory *memory = calloc(1, sizeof(*memory));
    if (!memory)
        return -ENOMEM;
    int r = command(base->device, IB_USER_VERBS_CMD_REG_MR, &body, sizeof(body), &response,
                    sizeof(response));
    if (r < 0) {
        free(memory);
        return r;
    }
    memory->base = (struct verbs_memory){base->device, response.lkey, response.rkey};
    memory->handle = response.mr_handle;
    *ret_memory = &memory->base;
    return 0;
}

static void memory_free(struct verbs_memory *base)
{
    struct direct_memory *memory = (struct direct_memory *)base;
    const struct ib_uverbs_dereg_mr body = {memory->handle};
    command(base->device, IB_USER_VERBS_CMD_DEREG_MR, &body, sizeof(body), NULL, 0);
    free(memory);
}

/* ---- queues ---- */

static int cq_new(struct verbs_device *device, uint32_t entries, struct verbs_cq **ret_cq)
{
    const struct ib_uverbs_create_cq body = {.cqe = entries, .comp_channel = -1};
    struct {
        struct ib_uverbs_create_cq_resp base;
        struct rxe_create_cq_resp rxe;
    } response;
    struct direct_cq *cq = calloc(1, sizeof(*cq));
    if (!cq)
        return -ENOMEM;
    int r = command(device, IB_USER_VERBS_CMD_CREATE_CQ, &body, sizeof(body), &response,
                    sizeof(response));
    if (r < 0) {
        free(cq);
        return r;
    }
    cq->base = (struct verbs_cq){device, {response.rxe.mi.offset, response.rxe.mi.size}};
    cq->handle = response.base.cq_handle;
    *ret_cq = &cq->base;
    return 0;
}

static void cq_free(struct verbs_cq *base)
{
    struct direct_cq *cq = (struct direct_cq *)base;
    const struct ib_uverbs_destroy_cq body = {.cq_handle = cq->handle};
    struct ib_uverbs_destroy_cq_resp response;
    command(base->device, IB_USER_VERBS_CMD_DESTROY_CQ, &body, sizeof(body), &response,
            sizeof(response));
    free(cq);
}

static int create_qp(const struct verbs_qp_args *args, struct hca_qp *qp)
{
    const struct ib_uverbs_create_qp body = {
        .pd_handle = ((struct direct_domain *)args->domain)->handle,
        .send_cq_handle = ((struct direct_cq *)args->send_cq)->handle,
        .recv_cq_handle = ((struct direct_cq *)args->receive_cq)->handle,
        .max_send_wr = args->send_entries,
        .max_recv_wr = args->receive_entries,
        .max_send_sge = DCFA_PIECES_MAX,
        .max_recv_sge = DCFA_PIECES_MAX,
        .max_inline_data = DCFA_INLINE_MAX_BYTES,
        .qp_type = IBV_QPT_RC,
    };
    struct {
        struct ib_uverbs_create_qp_resp base;
        struct rxe_create_qp_resp rxe;
    } response;
    int r = command(qp->base.device, IB_USER_VERBS_CMD_CREATE_QP, &body, sizeof(body), &response,
                    sizeof(response));
    if (r < 0)
        return r;
    qp->base.send = (struct verbs_map){response.rxe.sq_mi.offset, response.rxe.sq_mi.size};
    qp->base.receive = (struct verbs_map){response.rxe.rq_mi.offset, response.rxe.rq_mi.size};
    qp->base.handle = response.base.qp_handle;
    qp->base.number = response.base.qpn;
    return 0;
}

static void destroy_qp(struct hca_qp *qp)
{
    const struct ib_uverbs_destroy_qp body = {.qp_handle = qp->base.handle};
    struct ib_uverbs_destroy_qp_resp response;
    command(qp->base.device, IB_USER_VERBS_CMD_DESTROY_QP, &body, sizeof(body), &response,
            sizeof(response));
}

static int modify_qp(struct hca_qp *qp, const struct ibv_qp_attr *attributes, int mask)
{
    const struct ibv_ah_attr *path = &attributes->ah_attr;
    struct ib_uverbs_modify_qp body = {
        .qp_handle = qp->base.handle,
        .attr_mask = (uint32_t)mask,
        .qp_state = (uint8_t)attributes->qp_state,
        .qp_access_flags = attributes->qp_access_flags,
        .port_num = attributes->port_num,
        .path_mtu = (uint8_t)attributes->path_mtu,
        .dest_qp_num = attributes->dest_qp_num,
        .rq_psn = attributes->rq_psn,
        .sq_psn = attributes->sq_psn,
        .max_rd_atomic = attributes->max_rd_atomic,
        .max_dest_rd_atomic = attributes->max_dest_rd_atomic,
        .min_rnr_timer = attributes->min_rnr_timer,
        .timeout = attributes->timeout,
        .retry_cnt = attributes->retry_cnt,
        .rnr_retry = attributes->rnr_retry,
        .dest = {.dlid = path->dlid,
                 .port_num = path->port_num,
                 .is_global = path->is_global,
                 .sgid_index = path->grh.sgid_index,
                 .hop_limit = path->grh.hop_limit},
    };
    memcpy(body.dest.dgid, path->grh.dgid.raw, sizeof(body.dest.dgid));
    return command(qp->base.device, IB_USER_VERBS_CMD_MODIFY_QP, &body, sizeof(body), NULL, 0);
}

/* ---- the device ---- */

static void close_device(struct verbs_device *device)
{
    if (device->fd >= 0)
        close(device->fd);
    free(device);
}

static int get_context(struct verbs_device *device)
{
    const struct ib_uverbs_get_context body = {0};
    struct ib_uverbs_get_context_resp response;
    int r = command(device, IB_USER_VERBS_CMD_GET_CONTEXT, &body, sizeof(body), &response,
                    sizeof(response));
    if (r == 0)
        close((int)response.async_fd);
    return r;
}

static const struct hca_raw raw = {create_qp, destroy_qp, modify_qp};

int verbs_open_direct(struct verbs_device *of, struct verbs_device **ret_device)
{
    static const struct verbs_ops ops = {
        .close = close_device,
        .domain_new = domain_new,
        .domain_free = domain_free,
        .memory_new = memory_new,
        .memory_free = memory_free,
        .cq_new = cq_new,
        .cq_free = cq_free,
        .qp_new = hca_qp_new,
        .qp_free = hca_qp_free,
        .qp_connect = hca_qp_connect,
        .qp_fail = hca_qp_fail,
    };
    char path[300];
    if (!hca_is_rxe(of))
        return -EOPNOTSUPP;
    struct hca_device *device = malloc(sizeof(*device));
    if (!device)
        return -ENOMEM;
    *device = *hca_of(of);
    device->base.ops = &ops;
    device->raw = &raw;
    snprintf(path, sizeof(path), "/dev/infiniband/%s", device->context->device->dev_name);
    device->context = NULL;
    device->channel = NULL;
    device->base.event_fd = -1;
    snprintf(device->base.name, sizeof(device->base.name), "%.50s direct", of->name);
    device->base.fd = open(path, O_RDWR | O_CLOEXEC);
    int r = device->base.fd < 0 ? -errno : get_context(&device->base);
    if (r < 0) {
        close_device(&device->base);
        return r;
    }
    *ret_device = &device->base;
    return 0;
}
