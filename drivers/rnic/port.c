/* Finding the device, its port and the GID to use. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "drivers/hca/hca.h"

/* ---- the GID ---- */

enum { GIDS_MAX = 256 };

/* Higher is better; 0: cannot be used. */
static unsigned rate(const struct ibv_gid_entry *entry)
{
    const struct in6_addr *ip = (const struct in6_addr *)entry->gid.raw;
    switch (entry->gid_type) {
    case IBV_GID_TYPE_IB:
        return entry->gid_index == 0 ? 4 : 0;
    case IBV_GID_TYPE_ROCE_V2:
        return IN6_IS_ADDR_V4MAPPED(ip) ? 4 : IN6_IS_ADDR_LINKLOCAL(ip) ? 2 : 3;
    case IBV_GID_TYPE_ROCE_V1:
        return 1;
    }
    return 0;
}

static const char *kind_of(const struct ibv_gid_entry *entry)
{
    return entry->gid_type == IBV_GID_TYPE_IB        ? "InfiniBand"
           : entry->gid_type == IBV_GID_TYPE_ROCE_V1 ? "RoCE v1"
                                                     : "RoCE v2";
}

/* IPv4: as IPv6 has it. */
static int parse_ip(const char *text, struct in6_addr *ret_ip)
{
    char mapped[INET6_ADDRSTRLEN + 8];
    snprintf(mapped, sizeof mapped, "%s%.46s", strchr(text, ':') ? "" : "::ffff:", text);
    return inet_pton(AF_INET6, mapped, ret_ip) == 1 ? 0 : -EINVAL;
}

static int choose_gid(const struct hca_config *config, struct hca_device *device)
{
    struct ibv_gid_entry entries[GIDS_MAX];
    const struct ibv_gid_entry *best = NULL;
    struct in6_addr wanted;
    if (config->address && parse_ip(config->address, &wanted) < 0)
        return -EINVAL;
    const ssize_t count = ibv_query_gid_table(device->context, entries, GIDS_MAX, 0);
    for (ssize_t i = 0; i < count; i++) {
        const struct ibv_gid_entry *entry = &entries[i];
        if (entry->port_num == device->port && entry->gid_index <= UINT8_MAX &&
            (!config->address || memcmp(entry->gid.raw, &wanted, sizeof wanted) == 0) &&
            rate(entry) > 0 && (!best || rate(entry) > rate(best)))
            best = entry;
    }
    if (!best)
        return -EADDRNOTAVAIL;
    device->gid = best->gid;
    device->gid_index = (uint8_t)best->gid_index;
    device->kind = kind_of(best);
    return 0;
}

/* ---- device and port ---- */

/* The port with this number; 0: the first active one, else the first. */
static int choose_port(uint32_t wanted, struct hca_device *device)
{
    const uint32_t count = device->attributes.phys_port_cnt;
    if (wanted > count)
        return -ENODEV;
    for (uint32_t port = wanted ? wanted : 1; port <= (wanted ? wanted : count); port++) {
        struct ibv_port_attr attributes;
        if (ibv_query_port(device->context, (uint8_t)port, &attributes) != 0 ||
            (device->port > 0 && attributes.state != IBV_PORT_ACTIVE))
            continue;
        device->port = (uint8_t)port;
        device->port_attributes = attributes;
        if (attributes.state == IBV_PORT_ACTIVE)
            break;
    }
    device->ethernet = device->port_attributes.link_layer == IBV_LINK_LAYER_ETHERNET;
    return device->port > 0 ? 0 : -ENODEV;
}

static int try_device(const struct hca_config *config, struct ibv_device *found,
                      struct hca_device *ret_device)
{
    struct hca_device device = {.context = ibv_open_device(found)};
    if (!device.context)
        return errno == EACCES || errno == EPERM ? -EACCES : -ENODEV;
    int r = ibv_query_device(device.context, &device.attributes) == 0 ? 0 : -ENODEV;
    if (r == 0)
        r = choose_port(config->port, &device);
    if (r == 0)
        r = choose_gid(config, &device);
    if (r < 0) {
        ibv_close_device(device.context);
        return r;
    }
    *ret_device = device;
    return 0;
}

static bool is_active(const struct hca_device *device)
{
    return device->port_attributes.state == IBV_PORT_ACTIVE;
}

/* The device that is named, or the first that is active, or the first. */
int hca_device_open(const struct hca_config *config, struct hca_device *ret_device)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct hca_device device, best = {0};
    int why = -ENODEV;
    for (struct ibv_device **at = list; at && *at; at++) {
        if (config->device && strcmp(config->device, ibv_get_device_name(*at)) != 0)
            continue;
        int r = try_device(config, *at, &device);
        if (r < 0) {
            why = r;
            continue;
        }
        if (!best.context || (is_active(&device) && !is_active(&best))) {
            if (best.context)
                ibv_close_device(best.context);
            best = device;
        } else {
            ibv_close_device(device.context);
        }
        if (is_active(&best))
            break;
    }
    if (list)
        ibv_free_device_list(list);
    if (!best.context)
        return why;
    *ret_device = best;
    return 0;
}

void hca_device_describe(const struct hca_device *device, struct driver_caps *caps)
{
    const char *name = ibv_get_device_name(device->context->device);
    char ip[INET6_ADDRSTRLEN];
    snprintf(caps->device, sizeof caps->device, "%.24s:%u", name, device->port);
    snprintf(caps->medium, sizeof caps->medium, "%s", device->ethernet ? "roce" : "ib");
    inet_ntop(AF_INET6, device->gid.raw, ip, sizeof ip);
    snprintf(caps->detail, sizeof caps->detail, "%s at %s", device->kind, ip);
}
