/* Devices of libibverbs: InfiniBand and RoCE. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "drivers/manycore/verbs_hca.h"
#include "drivers/rnic/port.h"

enum { READS_MAX = 16 }; /* in flight from one queue pair */

/* ---- objects ---- */

static int domain_new(struct verbs_device *device, struct verbs_domain **ret_domain)
{
    struct hca_domain *domain = calloc(1, sizeof(*domain));
    if (!domain)
        return -ENOMEM;
    domain->base.device = device;
    domain->pd = ibv_alloc_pd(hca_of(device)->context);
    if (!domain->pd) {
        int r = -errno;
        free(domain);
        return r;
    }
    *ret_domain = &domain->base;
    return 0;
}

static void domain_free(struct verbs_domain *base)
{
    struct hca_domain *domain = (struct hca_domain *)base;
    ibv_dealloc_pd(domain->pd);
    free(domain);
}

static int memory_new(struct verbs_domain *base, void *at, uint64_t bytes, uint64_t address,
                      unsigned access, struct verbs_memory **ret_memory)
{
    const struct hca_domain *domain = (struct hca_domain *)base;
    struct hca_memory *memory = calloc(1, sizeof(*memory));
    if (!memory)
        return -ENOMEM;
    memory->mr = ibv_reg_mr_iova(domain->pd, at, bytes, address, hca_access(access));
    if (!memory->mr) {
        int r = -errno;
        free(memory);
        return r;
    }
    memory->base = (struct verbs_memory){base->device, memory->mr->lkey, memory->mr->rkey};
    *ret_memory = &memory->base;
    return 0;
}

static void memory_free(struct verbs_memory *base)
{
    struct hca_memory *memory = (struct hca_memory *)base;
    ibv_dereg_mr(memory->mr);
    free(memory);
}

static int cq_new(struct verbs_device *device, uint32_t entries, struct verbs_cq **ret_cq)
{
    struct hca_cq *cq = calloc(1, sizeof(*cq));
    if (!cq)
        return -ENOMEM;
    cq->base.device = device;
    cq->cq = ibv_create_cq(hca_of(device)->context, (int)entries, cq, hca_of(device)->channel, 0);
    if (!cq->cq) {
        int r = -errno;
        free(cq);
        return r;
    }
    *ret_cq = &cq->base;
    return 0;
}

static void cq_free(struct verbs_cq *base)
{
    struct hca_cq *cq = (struct hca_cq *)base;
    ibv_destroy_cq(cq->cq);
    free(cq);
}

/* ---- events ---- */

static void take_events(struct verbs_device *device)
{
    struct ibv_cq *cq;
    void *context;
    while (ibv_get_cq_event(hca_of(device)->channel, &cq, &context) == 0)
        ibv_ack_cq_events(cq, 1);
}

static int arm(struct verbs_cq *cq)
{
    return -ibv_req_notify_cq(((struct hca_cq *)cq)->cq, 0);
}

/* ---- the device ---- */

static void close_device(struct verbs_device *base)
{
    struct hca_device *device = hca_of(base);
    if (device->channel)
        ibv_destroy_comp_channel(device->channel);
    if (device->context)
        ibv_close_device(device->context);
    free(device);
}

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
    .post_send = hca_post_send,
    .post_receive = hca_post_receive,
    .poll = hca_poll,
    .take_events = take_events,
    .arm = arm,
};

static int open_channel(struct hca_device *device)
{
    device->channel = ibv_create_comp_channel(device->context);
    if (!device->channel || fcntl(device->channel->fd, F_SETFL, O_NONBLOCK) < 0)
        return -errno;
    device->base.event_fd = device->channel->fd;
    return 0;
}

static int device_new(const struct rnic_port *port, struct verbs_device **ret_device)
{
    const int reads = port->device.max_qp_rd_atom;
    struct hca_device *device = calloc(1, sizeof(*device));
    if (!device) {
        ibv_close_device(port->context);
        return -ENOMEM;
    }
    *device = (struct hca_device){.base = {.ops = &ops, .fd = -1, .event_fd = -1},
                                  .context = port->context,
                                  .port = port->attributes,
                                  .port_number = port->number,
                                  .gid_index = port->gid_index,
                                  .reads = (uint8_t)(reads < READS_MAX ? reads : READS_MAX),
                                  .gid = port->gid};
    snprintf(device->base.name, sizeof(device->base.name), "%.50s:%u",
             ibv_get_device_name(port->context->device), port->number);
    int r = rnic_port_is_active(port) ? open_channel(device) : -ENETDOWN;
    if (r < 0)
        close_device(&device->base);
    else
        *ret_device = &device->base;
    return r;
}

/* soft-RoCE, unlike others, names the network device below it. */
bool hca_is_rxe(const struct verbs_device *device)
{
    char path[300];
    if (device->ops != &ops)
        return false;
    snprintf(path, sizeof(path), "%s/parent",
             ((const struct hca_device *)device)->context->device->ibdev_path);
    return access(path, F_OK) == 0;
}

int verbs_open_hca(const char *name, struct verbs_device **ret_device, char *text,
                   size_t text_bytes)
{
    char device[64];
    struct rnic_port port;
    const size_t length = name ? strcspn(name, ":") : 0;
    const unsigned number =
        name && name[length] ? (unsigned)strtoul(name + length + 1, NULL, 10) : 0;
    snprintf(device, sizeof(device), "%.*s", (int)length, name ? name : "");
    int r = length < sizeof(device) ? rnic_port_open(name ? device : NULL, number, NULL, &port)
                                    : -ENODEV;
    if (r == 0)
        r = device_new(&port, ret_device);
    if (r == -ENETDOWN && !name)
        r = -ENODEV;
    if (r < 0)
        snprintf(text, text_bytes, "%s%s: %s (dcfa.device; ibv_devinfo lists devices and ports)",
                 name ? "RDMA device " : "RDMA devices", name ? name : "",
                 r == -ENODEV          ? "there is none"
                 : r == -ENETDOWN      ? "the port is not active"
                 : r == -EADDRNOTAVAIL ? "the port has no address"
                                       : strerrordesc_np(-r));
    return r;
}
