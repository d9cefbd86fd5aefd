/*
 * Connects to one of several addresses of a host. They are tried in their order, the next one when
 * one has failed, or has not answered for a quarter of a second (RFC 8305). The first connection
 * stays.
 *
 * The owner calls dial_step() when the descriptor is readable, and when the time has come.
 */
#pragma once

#include <stdint.h>

#include "drivers/addresses.h"

struct dial;

/* skip: addresses not to be tried, a bit each. The addresses are copied. Nothing is tried before
 * dial_step(). -ENOMEM or another error. */
int dial_new(const struct addresses *addresses, uint32_t skip, struct dial **ret_dial);
/* Ends all attempts. NULL is a no-op. Returns NULL. */
struct dial *dial_free(struct dial *dial);
/* Readable when an attempt has an end. */
int dial_fd(const struct dial *dial);
/* When the next address is to be tried; 0: all are. */
uint64_t dial_due_ns(const struct dial *dial);
/* The descriptor of a connection, which the caller owns, and its address; -EAGAIN; or why the first
 * address has failed, when all have. Only dial_failed(), dial_text() and dial_free() may follow an
 * end. */
int dial_step(struct dial *dial, uint64_t now_ns, unsigned *ret_which);
/* Which addresses have failed, a bit each. */
uint32_t dial_failed(const struct dial *dial);
/* What came of this address: 0 (not tried), -EINPROGRESS (no answer so far, or connected), or why
 * it has failed. */
int dial_result(const struct dial *dial, unsigned which);
/* Why: "No route to host", or "fd00::1: No route to host; 10.0.0.1: Connection refused". */
void dial_text(const struct dial *dial, char *ret_text, size_t text_bytes);
