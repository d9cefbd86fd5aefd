/* Addresses of hosts. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum { ADDRESSES_MAX = 16 }; /* of a name; further ones are ignored */

struct address {
    struct sockaddr_storage at;
    socklen_t bytes;
};

/* In the order in which they are to be tried. */
struct addresses {
    unsigned count;
    struct address list[];
};

/* Numeric ones: IPv4, or IPv6 with an interface if it is link-local. -EINVAL: it is a name;
 * -ENOMEM. */
int addresses_parse(const char *host, uint16_t port, struct addresses **ret_addresses);
/* Looks the name up in this thread, which can take long. 0 or an error of getaddrinfo(). */
int addresses_look_up(const char *host, uint16_t port, struct addresses **ret_addresses);
/* Those of the interface with this name, without a port. -ENODEV: there is none with it, or it has
 * no address; -ENOMEM. */
int addresses_of_interface(const char *name, struct addresses **ret_addresses);
/* The families take turns, beginning with that of the first (RFC 8305): one that leads nowhere
 * costs an attempt. What looks addresses up has done this. At least one. */
void addresses_interleave(struct addresses *addresses);
/* Drops the others, unless all would go. */
void addresses_keep(struct addresses *addresses, bool (*is)(const struct address *address));
bool address_is_loopback(const struct address *address);
bool address_is_outside(const struct address *address); /* not that */
/* Means nothing to other hosts without the interface. */
bool address_is_link_local(const struct address *address);
uint16_t address_port(const struct address *address);
void address_set_port(struct address *address, uint16_t port);
/* Without a port: "fe80::1%eth0". */
void address_text(const struct address *address, char *ret_text, size_t text_bytes);
