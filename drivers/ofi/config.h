/* What configures an instance of ofi besides struct driver_config: driver_config.own. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct ofi_config {
    const char *provider; /* libfabric's name for it ("tcp"); NULL: the best available */
    const char *address;  /* local address, host name or interface to bind to; NULL: any */
    uint16_t port;        /* 0: any free port */
    int backlog;      /* how many connections may wait to be accepted; 0: as the provider likes */
    bool unprotected; /* accept a provider without access control on its port, else -EPERM */
};
