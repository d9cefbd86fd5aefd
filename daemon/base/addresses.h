/*
 * Addresses of hosts. Names are looked up as the machine is configured to (nsswitch.conf(5)), in a worker
 * of their own: a name server that does not answer holds up nothing else.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct worker;

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

enum { ADDRESSES_THREADS = 16 };   /* of the worker that looks names up */
#define ADDRESSES_LANE UINT64_C(0) /* of that worker, free for what else has to be looked up */

struct lookup;

/* Looks a name up; done() is called later, on the loop's thread, and owns the addresses. error: of
 * getaddrinfo(). doubtful: the name was not found the last time, so that it can take only half of the
 * threads. All look-ups must have been cancelled before worker_leave(names). -ENOMEM. */
int lookup_new(struct worker *names, const char *host, uint16_t port, bool doubtful,
               void (*done)(void *context, int error, struct addresses *addresses), void *context,
               struct lookup **ret_lookup);
/* done() is not called any more. NULL is a no-op. Returns NULL. */
struct lookup *lookup_cancel(struct lookup *lookup);
