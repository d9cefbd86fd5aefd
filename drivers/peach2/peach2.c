/* The table of the peach2 driver, which peach2.h describes. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "drivers/peach2/peach2.h"
#include "drivers/table.h"

static int peach2_probe(const struct driver_config *config, struct driver_caps *ret_caps)
{
    const struct peach2_config *own = peach2_config_of(config);
    struct peach2_topology topology;
    if (!own->board)
        return -ENODEV;
    int r = peach2_topology_init(&topology, own->nodes > 0 ? own->nodes : PEACH2_NODES, own->rings);
    if (r < 0)
        return r;
    *ret_caps = (struct driver_caps){
        .same_node = true,
        .other_nodes = true,
        .subcluster = true,
        .single = true,
        .ordered = true,
        .device = "0", /* a node has one board */
    };
    if (topology.rings == 1)
        snprintf(ret_caps->detail, sizeof(ret_caps->detail), "ring of %u", topology.nodes);
    else
        snprintf(ret_caps->detail, sizeof(ret_caps->detail), "%u x %u", topology.rings,
                 topology.nodes / topology.rings);
    return 0;
}

static int peach2_address(struct driver *driver, void *ret_address)
{
    const struct peach2 *peach2 = peach2_of(driver);
    const struct address address = {.magic = ADDRESS_MAGIC,
                                    .version = PROTO_VERSION,
                                    .node = (uint16_t)peach2->device.node,
                                    .cookie = peach2->cookie};
    memcpy(ret_address, &address, sizeof(address));
    return sizeof(address);
}

static const struct driver_fabric_ops fabric_ops = {
    .place = peach2_place,
    .reaches = peach2_reaches,
    .hops = peach2_hops_to,
    .cables = peach2_cables,
    .faults = peach2_faults,
    .scratch_landing = peach2_scratch_landing,
};

const struct driver_ops peach2_driver_ops = {
    .name = "peach2",
    .id = DRIVER_PEACH2,
    .probe = peach2_probe,
    .open = peach2_open,
    .close = peach2_close,
    .address = peach2_address,
    .region_add = peach2_region_add,
    .region_remove = peach2_region_remove,
    .peer_connect = peach2_peer_connect,
    .peer_disconnect = peach2_peer_disconnect,
    .peer_fail = peach2_peer_fail,
    .landing_new = peach2_landing_new,
    .landing_free = peach2_landing_free,
    .landing_bytes = peach2_landing_bytes,
    .put_prepare = peach2_put_prepare,
    .put_release = peach2_put_release,
    .put_part = peach2_put_part,
    .put_post = peach2_put_post,
    .peer_flush = peach2_peer_flush,
    .progress = peach2_progress,
    .event_fd = peach2_event_fd,
    .arm = peach2_arm,
    .fabric = &fabric_ops,
};
