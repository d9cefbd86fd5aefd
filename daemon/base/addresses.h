/*
 * Addresses of hosts. Names are looked up as the machine is configured to (nsswitch.conf(5)), in threads
 * of their own: a name server that does not answer holds up nothing else.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct loop;

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

/* Numeric ones: IPv4, or IPv6 with an interface if it is link-local. -EINVAL: it is a name; -ENOMEM. */
int addresses_parse(const char *host, uint16_t port, struct addresses **ret_addresses);
/* Looks the name up in this thread, which can take long. 0 or an error of getaddrinfo(). */
int addresses_look_up(const char *host, uint16_t port, struct addresses **ret_addresses);
bool address_is_loopback(const struct address *address);
/* Without a port: "fe80::1%eth0". */
void address_text(const struct address *address, char *ret_text, size_t text_bytes);

struct lookups;
struct lookup;

int lookups_new(struct loop *loop, struct lookups **ret_lookups);
/* After loop_run(), when all look-ups have been cancelled. Threads that still wait for an answer are
 * left to end with the process. NULL is a no-op. Returns NULL. */
struct lookups *lookups_free(struct lookups *lookups);
/* Looks a name up; done() is called later, on the loop's thread, and owns the addresses. error: of
 * getaddrinfo(). doubtful: the name was not found the last time, so that it goes behind others, and
 * can take only half of the threads. -ENOMEM, -EAGAIN. */
int lookup_new(struct lookups *lookups, const char *host, uint16_t port, bool doubtful,
               void (*done)(void *context, int error, struct addresses *addresses), void *context,
               struct lookup **ret_lookup);
/* done() is not called any more. NULL is a no-op. Returns NULL. */
struct lookup *lookup_cancel(struct lookup *lookup);
