/*
 * Stores to memory of another process that cannot be mapped, by cross-memory attach
 * (process_vm_writev()) where the kernel permits it, with vectors built from the layout. Expensive
 * (half a microsecond per block), so a last resort.
 *
 * The owner keeps a gate for each such region, so that nobody stores to its memory any more once it
 * has freed the region. A writer puts its process id at the gate, looks whether the gate is still
 * that of the region, stores, and takes its id away. The owner closes the gate, and waits for the
 * writers that are there. Writers may come late: a gate stays a gate until its process ends.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/layout.h"

/* By process id modulo this: two writers at one place, whose ids are that far apart, do not see each
 * other. */
enum { ATTACHED_WRITERS = 256 };

struct attached_gate {
    _Atomic uint64_t name[2]; /* of the region: its daemon's incarnation, and its id; 0: closed */
    uint64_t writers_address; /* of the following: shows that this is a gate */
    _Atomic uint32_t writers[ATTACHED_WRITERS]; /* process ids, or 0 */
};

struct attached {
    pid_t pid;
    uint64_t gate_address; /* in that process */
    uint64_t name[2];      /* what the gate's must be */
    uint64_t address;      /* of the layout's base in the process */
    struct layout *layout; /* owned by the creator of this struct */
};

/* ---- the writer ---- */

/* Returns 0, -EPERM (not permitted), -ESRCH, -EOWNERDEAD (the process has ended, perhaps its id was
 * reused) or -ESTALE (the region was freed). If 0, call attached_leave() soon: meanwhile, the owner
 * cannot free the region. */
int attached_enter(const struct attached *attached);
void attached_leave(const struct attached *attached);

/* Between these, stores packed bytes position .. position + length to the layout. Returns 0, -EPERM,
 * -ESRCH or -EFAULT (the memory is not mapped there). */
int attached_write(const struct attached *attached, uint64_t position_bytes, const void *packed,
                   uint64_t length_bytes);

/* ---- the owner ---- */

void attached_gate_open(struct attached_gate *gate, const uint64_t name[2]);

/* No writer enters from now on. */
void attached_gate_close(struct attached_gate *gate);

/* After that: the process id of a writer that is still there, or 0. */
pid_t attached_gate_writer(const struct attached_gate *gate);
