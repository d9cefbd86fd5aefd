/*
 * Connects to one of several addresses of a host. They are tried in their order, the next one when one
 * has failed, or has not answered for a quarter of a second (RFC 8305). The first connection stays.
 */
#pragma once

#include <stdint.h>

#include "daemon/base/addresses.h"

struct loop;
struct dial;

/* skip: addresses not to be tried, a bit each. done() is called later, once: with the connection, which
 * it owns, and its address, or with a negative errno, of the first address, and what all of them have
 * said. The addresses must exist until then. done() frees the dial. */
int dial_new(struct loop *loop, const struct addresses *addresses, uint32_t skip,
             void (*done)(void *context, int fd, unsigned which, const char *text), void *context,
             struct dial **ret_dial);
/* done() is not called any more. NULL is a no-op. Returns NULL. */
struct dial *dial_free(struct dial *dial);
/* Which addresses have failed, a bit each. */
uint32_t dial_failed(const struct dial *dial);
