/* Addresses as text: "10.0.0.7:7080", "[2001:db8::7]:7080", "node7" (with a default port). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CONFIG_PORT_DEFAULT = 7080,
    CONFIG_HOST_MAX_BYTES = 254,   /* with NUL; DNS allows 253 characters */
    CONFIG_ADDRESS_TEXT_MAX = 272, /* host, brackets, port */
};

struct config_address {
    char host[CONFIG_HOST_MAX_BYTES]; /* numeric or a DNS name, IPv6 without its brackets; "": no
                                         address */
    uint16_t port;
};

/* default_port 0: the text must contain the port. 0, or -EINVAL with the reason in why. */
int config_address_parse(const char *text, uint16_t default_port,
                         struct config_address *ret_address, char *why, size_t why_bytes);

/* A text that parses to the same address; "" for no address. */
void config_address_format(const struct config_address *address,
                           char text[static CONFIG_ADDRESS_TEXT_MAX]);

bool config_address_equal(const struct config_address *a, const struct config_address *b);
