/*
 * Look-ups of names of hosts, as the machine is configured to make them (nsswitch.conf(5)), in a
 * worker of their own: a name server that does not answer holds up nothing else.
 */
#pragma once

#include "drivers/addresses.h"

struct worker;

enum { LOOKUP_THREADS = 16 };   /* of the worker that looks names up */
#define LOOKUP_LANE UINT64_C(0) /* of that worker, free for what else has to be looked up */

struct lookup;

/* Looks a name up; done() is called later, on the loop's thread, and owns the addresses. error: of
 * getaddrinfo(). doubtful: the name was not found the last time, so that it can take only half of
 * the threads. All look-ups must have been cancelled before worker_leave(names). -ENOMEM. */
int lookup_new(struct worker *names, const char *host, uint16_t port, bool doubtful,
               void (*done)(void *context, int error, struct addresses *addresses), void *context,
               struct lookup **ret_lookup);
/* done() is not called any more. NULL is a no-op. Returns NULL. */
struct lookup *lookup_cancel(struct lookup *lookup);
