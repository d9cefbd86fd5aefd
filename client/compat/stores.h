/*
 * CPU stores into memory of other processes. Each place and size gets a small plan, which is
 * cached.
 *
 * Order: the last bytes of a store are a separate put after the rest. The next store to the same
 * process starts when the previous one is complete, and uses the same rail. Rails that do not order
 * puts order a notification after them, so the last put has one.
 *
 * When the rail is lost, it is unknown whether the store in flight has arrived, so it is sent again
 * before the next one. Until the rail is back, each store takes any available rail and is waited
 * for until it has landed, so that no store is lost or overtaken, whichever rail fails.
 */
#pragma once

#include "client/compat/compat.h"

/* Sends a store, after all earlier ones to the same process. Also returns errors of those, except
 * invalid arguments. */
tcaresult stores_send(const struct reference *remote, uint64_t offset_bytes, const void *src,
                      size_t size);

/* Waits until all stores are complete locally, at most timeout_ns for each process. Returns their
 * errors. `name`: of the calling function, for the error text. */
tcaresult stores_finish(const char *name, int64_t timeout_ns);

/* For the listening thread: repeats stores where needed, because the program may poll for an answer
 * without calling the API. Returns whether any store is still in flight. */
bool stores_look(void);

/* The size of the first part of a store. The rest, the last bytes, lies within eight aligned
 * bytes. */
static inline uint64_t store_head(uint64_t address, uint64_t bytes)
{
    uint64_t tail = (address + bytes - 1) & ~7ull;
    return tail > address ? tail - address : 0;
}
