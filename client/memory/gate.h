/*
 * The gates of attached regions (drivers/shm/attached.h). Other processes write to a gate and look
 * at it later, so its memory is never used for anything else: gates are kept, and used again.
 */
#pragma once

#include "drivers/shm/attached.h"

struct tca;

/* NULL: out of memory. */
struct attached_gate *gate_take(void);

/* Keeps it for the next region; NULL is a no-op. */
void gate_give(struct attached_gate *gate);

/* name: of the region, its daemon's incarnation and its id. */
void gate_open(struct attached_gate *gate, const uint64_t name[2]);

/* Closes the gate of a region, and waits until no other process stores to its memory. -ETIMEDOUT,
 * and the gate is as before: one of them has been stopped. */
int gate_close(struct tca *session, struct attached_gate *gate);
