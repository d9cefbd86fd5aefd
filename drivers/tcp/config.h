/* What configures an instance of tcp besides struct driver_config: driver_config.own. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct addresses;

struct tcp_config {
    const char *address;               /* local address, host name or interface; NULL: loopback */
    const struct addresses *addresses; /* NULL, or those of that name, which was looked up */
    uint16_t port;                     /* 0: any free port */
    bool plain;                        /* without TLS */
    bool user_space;                   /* TLS without the kernel's */
};
