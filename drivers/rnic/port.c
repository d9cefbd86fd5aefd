#include "drivers/rnic/port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

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
    snprintf(mapped, sizeof(mapped), "%s%.46s", strchr(text, ':') ? "" : "::ffff:", text);
    return inet_pton(AF_INET6, mapped, ret_ip) == 1 ? 0 : -EINVAL;
}

static int choose_gid(const char *address, struct rnic_port *port)
{
    struct ibv_gid_entry entries[GIDS_MAX];
    const struct ibv_gid_entry *best = NULL;
    struct in6_addr wanted;
    if (address && parse_ip(address, &wanted) < 0)
        return -EINVAL;
    const ssize_t count = ibv_query_gid_table(port->context, entries, GIDS_MAX, 0);
    for (ssize_t i = 0; i < count; i++) {
        const struct ibv_gid_entry *entry = &entries[i];
        if (entry->port_num == port->number && entry->gid_index <= UINT8_MAX &&
            (!address || memcmp(entry->gid.raw, &wanted, sizeof(wanted)) == 0) && rate(entry) > 0 &&
            (!best || rate(entry) > rate(best)))
            best = entry;
    }
    if (!best)
        return -EADDRNOTAVAIL;
    port->gid = best->gid;
    port->gid_index = (uint8_t)best->gid_index;
    port->kind = kind_of(best);
    return 0;
}

/* ---- device and port ---- */

/* The port with this number; 0: the first active one, else the first. */
static int choose_port(uint32_t wanted, struct rnic_port *port)
{
    const uint32_t count = port->device.phys_port_cnt;
    if (wanted > count)
        return -ENODEV;
    for (uint32_t number = wanted ? wanted : 1; number <= (wanted ? wanted : count); number++) {
        struct ibv_port_attr attributes;
        if (ibv_query_port(port->context, (uint8_t)number, &attributes) != 0 ||
            (port->number > 0 && attributes.state != IBV_PORT_ACTIVE))
            continue;
        port->number = (uint8_t)number;
        port->attributes = attributes;
        if (attributes.state == IBV_PORT_ACTIVE)
            break;
    }
    port->ethernet = port->attributes.link_layer == IBV_LINK_LAYER_ETHERNET;
    return port->number > 0 ? 0 : -ENODEV;
}

static int try_device(struct ibv_device *found, uint32_t number, const char *address,
                      struct rnic_port *ret_port)
{
    struct rnic_port port = {.context = ibv_open_device(found)};
    if (!port.context)
        return errno == EACCES || errno == EPERM ? -EACCES : -ENODEV;
    int r = ibv_query_device(port.context, &port.device) == 0 ? 0 : -ENODEV;
    if (r == 0)
        r = choose_port(number, &port);
    if (r == 0)
        r = choose_gid(address, &port);
    if (r < 0) {
        ibv_close_device(port.context);
        return r;
    }
    *ret_port = port;
    return 0;
}

int rnic_port_open(const char *device, uint32_t number, const char *address,
                   struct rnic_port *ret_port)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct rnic_port port, best = {0};
    int why = -ENODEV;
    for (struct ibv_device **at = list; at && *at; at++) {
        if (device && strcmp(device, ibv_get_device_name(*at)) != 0)
            continue;
        int r = try_device(*at, number, address, &port);
        if (r < 0) {
            why = r;
            continue;
        }
        if (!best.context || (rnic_port_is_active(&port) && !rnic_port_is_active(&best))) {
            if (best.context)
                ibv_close_device(best.context);
            best = port;
        } else {
            ibv_close_device(port.context);
        }
        if (rnic_port_is_active(&best))
            break;
    }
    if (list)
        ibv_free_device_list(list);
    if (!best.context)
        return why;
    *ret_port = best;
    return 0;
}

static int open_nth(struct ibv_device *device, unsigned *left, struct rnic_port *ret_port)
{
    struct rnic_port port;
    int r;
    for (uint32_t number = 1; (r = try_device(device, number, NULL, &port)) != -ENODEV; number++) {
        if (r == -EACCES)
            return r;
        if (r < 0)
            continue;
        if (rnic_port_is_active(&port) && (*left)-- == 0) {
            *ret_port = port;
            return 0;
        }
        ibv_close_device(port.context);
    }
    return -ENODEV;
}

int rnic_port_open_nth(unsigned nth, struct rnic_port *ret_port)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    int r = -ENODEV;
    for (struct ibv_device **at = list; r < 0 && at && *at; at++)
        r = open_nth(*at, &nth, ret_port);
    if (list)
        ibv_free_device_list(list);
    return r;
}
