/* Opening and closing an instance. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

#include "drivers/hca/hca.h"
#include "drivers/table.h"

static int open_port(const struct driver_config *config, struct rnic_port *ret_port)
{
    static const struct hca_config defaults;
    const struct hca_config *own = config->own ? config->own : &defaults;
    return own->nth > 0 ? rnic_port_open_nth(own->nth, ret_port)
                        : rnic_port_open(own->device, own->port, own->address, ret_port);
}

static void describe(const struct rnic_port *port, struct driver_caps *caps)
{
    const char *name = ibv_get_device_name(port->context->device);
    char ip[INET6_ADDRSTRLEN];
    snprintf(caps->device, sizeof(caps->device), "%.24s:%u", name, port->number);
    snprintf(caps->medium, sizeof(caps->medium), "%s", port->ethernet ? "roce" : "ib");
    inet_ntop(AF_INET6, port->gid.raw, ip, sizeof(ip));
    snprintf(caps->detail, sizeof(caps->detail), "%s at %s", port->kind, ip);
}

int hca_probe(const struct driver_config *config, struct driver_caps *ret_caps)
{
    struct rnic_port port;
    int r = open_port(config, &port);
    if (r < 0)
        return r;
    struct driver_caps caps = {
        .same_node = true,
        .other_nodes = true,
        .ordered = true,
        .inline_bytes = HCA_COPY_BYTES,
    };
    describe(&port, &caps);
    ibv_close_device(port.context);
    *ret_caps = caps;
    return 0;
}

static uint32_t lesser(uint64_t a, uint64_t b)
{
    return (uint32_t)(a < b ? a : b);
}

static int watch(int epoll_fd, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};
    const int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
        return -errno;
    return 0;
}

static int open_queues(struct hca_driver *hca, int entries)
{
    hca->channel = ibv_create_comp_channel(hca->context);
    hca->cq = hca->channel ? ibv_create_cq(hca->context, entries, NULL, hca->channel, 0) : NULL;
    hca->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (!hca->cq || hca->epoll_fd < 0)
        return errno > 0 ? -errno : -ENOMEM;
    hca->cq_left = (uint32_t)hca->cq->cqe;
    int r = watch(hca->epoll_fd, hca->channel->fd);
    if (r == 0)
        r = watch(hca->epoll_fd, hca->context->async_fd);
    if (r == 0)
        r = hca_alive_init(hca);
    return r < 0 ? r : recall_init(&hca->recall, &hca_recall, hca, 0, hca->epoll_fd);
}

static struct hca_address address_of(const struct hca_driver *hca, const struct rnic_port *port)
{
    struct hca_address address = {
        .magic = HCA_ADDRESS_MAGIC,
        .version = HCA_WIRE_VERSION,
        .lid = port->attributes.lid,
        .ethernet = port->ethernet,
        .mtu = (uint8_t)port->attributes.active_mtu,
        .segment_bytes = hca->segment_bytes,
    };
    static_assert(sizeof(address.gid) == sizeof(port->gid.raw), "both are GIDs");
    for (unsigned i = 0; i < sizeof(address.gid); i++)
        address.gid[i] = port->gid.raw[i];
    return address;
}

/* A message has to hold a copied put. */
uint32_t hca_segment_bytes(const struct driver_config *config)
{
    const struct hca_config *own = config->own;
    const uint64_t least = (sizeof(struct hca_head) + HCA_COPY_BYTES + 63) & ~UINT64_C(63);
    uint64_t bytes = config->segment_bytes ? config->segment_bytes : HCA_SEGMENT_BYTES;
    if (own && own->peers > 0)
        bytes =
            lesser(bytes, HCA_BUFFERS_MAX / ((HCA_RECEIVES + HCA_WINDOW) * (uint64_t)own->peers));
    return lesser(bytes < least ? least : bytes, HCA_SEGMENT_MAX) & ~UINT32_C(63);
}

int hca_new(const struct hca_role *role, const struct rnic_port *port,
            const struct driver_config *config, const struct driver_events *events,
            struct hca_driver **ret_hca)
{
    struct hca_driver *hca = calloc(1, sizeof(*hca));
    if (!hca) {
        ibv_close_device(port->context);
        return -ENOMEM;
    }
    hca->driver = (struct driver){.ops = role->ops, .events = *events};
    hca->role = role;
    hca->context = port->context;
    hca->port = port->number;
    hca->gid_index = port->gid_index;
    hca->sges = lesser((uint64_t)port->device.max_sge, HCA_SGES);
    hca->segment_bytes = hca_segment_bytes(config);
    hca->cq_max = (uint32_t)port->device.max_cqe;
    hca->landings = LANDINGS_INIT;
    hca->epoll_fd = hca->look_fd = -1;
    pthread_mutex_init(&hca->lock, NULL);
    hca->address = address_of(hca, port);
    int r = open_queues(hca, (int)lesser(hca->cq_max, HCA_CQ_FIRST));
    if (r == 0 &&
        getrandom(&hca->address.id, sizeof(hca->address.id), 0) != (ssize_t)sizeof(hca->address.id))
        r = -EIO;
    if (r < 0) {
        hca_close(&hca->driver);
        return r;
    }
    *ret_hca = hca;
    return 0;
}

int hca_open(const struct driver_config *config, const struct driver_events *events,
             struct driver **ret_driver)
{
    struct rnic_port port;
    struct hca_driver *hca;
    int r = open_port(config, &port);
    if (r == 0)
        r = hca_new(&hca_daemon, &port, config, events, &hca);
    if (r < 0)
        return r;
    r = hca_domain_new(hca, &hca->domain);
    if (r == 0)
        r = recall_start_thread(&hca->recall, "tcad-hca");
    if (r < 0) {
        hca_close(&hca->driver);
        return r;
    }
    *ret_driver = &hca->driver;
    return 0;
}

void hca_close(struct driver *driver)
{
    struct hca_driver *hca = hca_of(driver);
    while (hca->dead) {
        struct hca_peer *peer = hca->dead;
        hca->dead = peer->next_dead;
        hca_peer_free(peer);
    }
    recall_deinit(&hca->recall);
    hca_alive_deinit(hca);
    landings_deinit(&hca->landings);
    if (hca->cq)
        ibv_destroy_cq(hca->cq);
    if (hca->channel)
        ibv_destroy_comp_channel(hca->channel);
    hca_domain_give(hca, hca->domain);
    if (hca->epoll_fd >= 0)
        close(hca->epoll_fd);
    ibv_close_device(hca->context);
    pthread_mutex_destroy(&hca->lock);
    free(hca);
}

int hca_address(struct driver *driver, void *ret_address)
{
    const struct hca_driver *hca = hca_of(driver);
    *(struct hca_address *)ret_address = hca->address;
    return sizeof(hca->address);
}

int hca_describe_device(const struct driver *driver, void *ret_device)
{
    const struct hca_driver *hca = (const struct hca_driver *)driver;
    struct hca_device device = {.magic = HCA_DEVICE_MAGIC, .port = hca->port};
    memcpy(device.gid, hca->address.gid, sizeof(device.gid));
    snprintf(device.name, sizeof(device.name), "%.31s", ibv_get_device_name(hca->context->device));
    memcpy(ret_device, &device, sizeof(device));
    return sizeof(device);
}
