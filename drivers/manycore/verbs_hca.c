/* Devices of libibverbs: InfiniBand and RoCE. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drivers/manycore/verbs_hca.h"

enum { READS_MAX = 16 }; /* in flight from one queue pair */

/* ---- objects ---- */

static int domain_new(struct verbs_device *device, struct verbs_domain **ret_domain)
{
    struct hca_domain *domain = calloc(1, sizeof *domain);
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
    const int flags = IBV_ACCESS_LOCAL_WRITE |
                      (access & DCFA_ACCESS_WRITE ? IBV_ACCESS_REMOTE_WRITE : 0) |
                      (access & DCFA_ACCESS_READ ? IBV_ACCESS_REMOTE_READ : 0);
    struct hca_memory *memory = calloc(1, sizeof *memory);
    if (!memory)
        return -ENOMEM;
    memory->mr = ibv_reg_mr_iova(domain->pd, at, bytes, address, flags);
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
    struct hca_cq *cq = calloc(1, sizeof *cq);
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

static int event_fd(struct verbs_device *device)
{
    return hca_of(device)->channel->fd;
}

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
    .event_fd = event_fd,
    .take_events = take_events,
    .arm = arm,
};

/* RoCE v2 for IPv4 if there is one, because routers know it; else any RoCE v2. */
static int choose_gid(struct hca_device *device)
{
    int best = -1, rank = 0;
    for (uint32_t i = 0; i < (uint32_t)device->port.gid_tbl_len && i < 256; i++) {
        struct ibv_gid_entry entry;
        if (ibv_query_gid_ex(device->context, device->port_number, i, &entry, 0) != 0 ||
            entry.gid_type != IBV_GID_TYPE_ROCE_V2)
            continue;
        static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
        const int rank_here = memcmp(entry.gid.raw, mapped, sizeof mapped) == 0 ? 2 : 1;
        if (rank_here > rank) {
            rank = rank_here;
            best = (int)i;
            device->gid = entry.gid;
        }
    }
    if (best < 0)
        return -ENODEV;
    device->gid_index = (uint8_t)best;
    return 0;
}

static bool use_port(struct hca_device *device, unsigned number)
{
    if (ibv_query_port(device->context, (uint8_t)number, &device->port) != 0 ||
        device->port.state != IBV_PORT_ACTIVE)
        return false;
    device->port_number = (uint8_t)number;
    return device->port.link_layer != IBV_LINK_LAYER_ETHERNET || choose_gid(device) == 0;
}

/* port 0: the first active one. */
static int open_one(struct ibv_device *of, unsigned port, struct verbs_device **ret_device)
{
    struct ibv_device_attr attributes;
    struct hca_device *device = calloc(1, sizeof *device);
    if (!device)
        return -ENOMEM;
    device->base.ops = &ops;
    int r = 0;
    device->context = ibv_open_device(of);
    if (!device->context)
        r = -errno;
    if (r == 0)
        r = -ibv_query_device(device->context, &attributes);
    if (r == 0) {
        bool found = false;
        for (unsigned i = port ? port : 1; !found && i <= (port ? port : attributes.phys_port_cnt);
             i++)
            found = use_port(device, i);
        r = found ? 0 : -ENETDOWN;
    }
    if (r == 0) {
        device->reads = (uint8_t)(attributes.max_qp_rd_atom < READS_MAX ? attributes.max_qp_rd_atom
                                                                        : READS_MAX);
        device->channel = ibv_create_comp_channel(device->context);
        if (!device->channel || fcntl(device->channel->fd, F_SETFL, O_NONBLOCK) < 0)
            r = -errno;
    }
    if (r < 0) {
        close_device(&device->base);
        return r;
    }
    snprintf(device->base.name, sizeof device->base.name, "%.50s:%u", ibv_get_device_name(of),
             device->port_number);
    *ret_device = &device->base;
    return 0;
}

int verbs_open_hca(const char *name, struct verbs_device **ret_device, char *text,
                   size_t text_bytes)
{
    int count = 0, r = -ENODEV;
    struct ibv_device **list = ibv_get_device_list(&count);
    const char *colon = name ? strchr(name, ':') : NULL;
    const size_t length = colon ? (size_t)(colon - name) : name ? strlen(name) : 0;
    const unsigned port = colon ? (unsigned)strtoul(colon + 1, NULL, 10) : 0;
    for (int i = 0; list && i < count && r != 0; i++) {
        const char *here = ibv_get_device_name(list[i]);
        if (!name || (strlen(here) == length && strncmp(here, name, length) == 0))
            r = open_one(list[i], port, ret_device);
    }
    if (list)
        ibv_free_device_list(list);
    if (r == -ENETDOWN && !name)
        r = -ENODEV;
    if (r < 0)
        snprintf(text, text_bytes, "%s%s: %s (dcfa.device; ibv_devinfo lists devices and ports)",
                 name ? "RDMA device " : "RDMA devices", name ? name : "",
                 r == -ENODEV     ? "there is none"
                 : r == -ENETDOWN ? "the port is not active"
                                  : strerrordesc_np(-r));
    return r;
}
