/*
 * CPU stores into memory of other processes: small plans, one for each place and size that is
 * stored to, kept for the next time.
 *
 * Order: the last bytes of a store are a put of their own behind the rest; the next store to a
 * process is started when the one before is complete, and on the same rail. Rails that do not keep
 * the order of puts keep it before a notification: the last put has one. Where the receiver has to
 * copy what comes to memory of its program's own, one is complete when that is done.
 *
 * When that rail is lost, nobody knows whether the store under way has arrived: it is sent again
 * before the next one. Until the rail is back each goes by whatever leads there, and is waited for
 * until it has landed, so that whatever becomes of its way nothing is lost and nothing overtakes.
 */
#pragma once

#include "client/compat/compat.h"

/* Behind those before it to the same process. Errors of these, too, but for -EINVAL. */
tcaresult stores_send(const struct reference *remote, uint64_t offset_bytes, const void *src,
                      size_t size);

/* Until what was stored is on its way, at most so long for each process. What came of it is told in
 * the name of the call. */
tcaresult stores_settle(const char *name, int64_t timeout_ns);

/* For the thread that listens: sends again what has to be, for the program may not call for long,
 * but poll for an answer. Whether any is still under way. */
bool stores_look(void);

/* How many of so many bytes stored at an address come before the last, which lie in eight that are
 * aligned. */
static inline uint64_t store_head(uint64_t address, uint64_t bytes)
{
    uint64_t tail = (address + bytes - 1) & ~7ull;
    return tail > address ? tail - address : 0;
}
