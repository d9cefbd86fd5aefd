/* Connects to one of several addresses of a host (drivers/dial.h), on the loop. */
#pragma once

#include "drivers/dial.h"

struct loop;
struct loop_dial;

/* skip: addresses not to be tried, a bit each. done() is called later, once: with the connection,
 * which it owns, and its address, or with a negative errno, of the first address, and what all of
 * them have said. done() frees the dial. */
int loop_dial_new(struct loop *loop, const struct addresses *addresses, uint32_t skip,
                  void (*done)(void *context, int fd, unsigned which, const char *text),
                  void *context, struct loop_dial **ret_dial);
/* done() is not called any more. NULL is a no-op. Returns NULL. */
struct loop_dial *loop_dial_free(struct loop_dial *dial);
/* Which addresses have failed, a bit each. */
uint32_t loop_dial_failed(const struct loop_dial *dial);
/* What came of this address, as of dial_result(). */
int loop_dial_result(const struct loop_dial *dial, unsigned which);
