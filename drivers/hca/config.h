/* What configures an instance of hca besides struct driver_config: driver_config.own. */
#pragma once

#include <stdint.h>

struct hca_config {
    const char *device;  /* "mlx5_0"; NULL: the first one with an active port */
    uint32_t port;       /* counted from 1; 0: the first active one */
    const char *address; /* RoCE: the IP address to use; NULL: chosen by kind, IPv4 first */
    /* Not 0: instead of these, one of the active ports of all devices; 0 would be the first. */
    unsigned nth;
    /* How many peers it may have: segments are so short that the buffers of all of them take at
     * most 1 GiB. 0: only segment_bytes counts. */
    uint32_t peers;
};
