/*
 * Ports of RDMA devices (libibverbs), for drivers/hca/ and drivers/manycore/: finding the device,
 * its port and the GID to use.
 */
#pragma once

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

struct rnic_port {
    struct ibv_context *context; /* whoever opens the port closes it */
    struct ibv_device_attr device;
    struct ibv_port_attr attributes;
    uint8_t number, gid_index;
    union ibv_gid gid;
    bool ethernet;
    const char *kind; /* "RoCE v2" */
};

/* device: "mlx5_0"; NULL: the first with an active port, or the first. number: counted from 1; 0:
 * the first active port, or the first. address: the IP address of the GID; NULL: chosen by kind,
 * IPv4 first. -ENODEV, -EACCES, -EADDRNOTAVAIL (no such GID), -EINVAL (no IP address). */
int rnic_port_open(const char *device, uint32_t number, const char *address,
                   struct rnic_port *ret_port);
/* One of the active ports of all devices, counted from 0. -ENODEV: there are fewer. */
int rnic_port_open_nth(unsigned nth, struct rnic_port *ret_port);

static inline bool rnic_port_is_active(const struct rnic_port *port)
{
    return port->attributes.state == IBV_PORT_ACTIVE;
}
