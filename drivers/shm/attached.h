/*
 * Stores to memory of another process that cannot be mapped, by cross-memory attach
 * (process_vm_writev()) where the kernel permits it, with vectors built from the layout. Expensive
 * (half a microsecond per block), so a last resort.
 *
 * The owner keeps a gate for each such region, so that nobody stores to its memory any more once it
 * has freed the region. A writer leaves its mark with the owner, looks whether the gate is still
 * that of the region, stores, and takes its mark away. The owner closes the gate, and waits for the
 * writers whose marks are there. Writers may come late: a gate stays a gate, and marks have their
 * places, until the process ends. tests/model/gate.pml proves it.
 *
 * Owner and writers know each other by process and thread ids, so they must be in one PID namespace.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/layout.h"

/* The greatest number of thread ids (PID_MAX_LIMIT), and how many share a byte in `used`. */
enum { ATTACHED_THREADS = 4 << 20, ATTACHED_PAGE_THREADS = 512 };

/* The marks of all who write to a process. The kernel only copies to other processes, it exchanges
 * nothing, so each writer has a place that is nobody else's: that of its thread id. Most places have
 * no memory. */
struct attached_marks {
    _Atomic uint8_t used[ATTACHED_THREADS / ATTACHED_PAGE_THREADS]; /* 1: one of them has written */
    _Atomic uint64_t regions[ATTACHED_THREADS]; /* by thread: id of the region, or 0 */
};

struct attached_gate {
    _Atomic uint64_t name[2]; /* of the region: its daemon's incarnation, and its id; 0: closed */
    uint64_t self_address;    /* shows that this is a gate */
    uint64_t marks_address;
};

struct attached {
    pid_t pid;             /* in this process's PID namespace; 0: it has none there */
    uint64_t gate_address; /* in that process */
    uint64_t name[2];      /* what the gate's must be */
    uint64_t address;      /* of the layout's base in the process */
    struct layout *layout; /* owned by the creator of this struct */
};

/* ---- the writer ---- */

/* Returns 0, -EPERM (not permitted, or pid 0), -ESRCH, -EOWNERDEAD (the process has ended, perhaps its id was
 * reused) or -ESTALE (the region was freed). If 0, the same thread calls attached_leave() with the
 * mark soon: meanwhile, the owner cannot free the region. */
int attached_enter(const struct attached *attached, uint64_t *ret_mark_address);
void attached_leave(const struct attached *attached, uint64_t mark_address);

/* Between these, stores packed bytes position .. position + length to the layout. Returns 0, -EPERM,
 * -ESRCH or -EFAULT (the memory is not mapped there). */
int attached_write(const struct attached *attached, uint64_t position_bytes, const void *packed,
                   uint64_t length_bytes);

/* ---- the owner ---- */

/* For all gates of a process; never freed. NULL: out of memory. */
struct attached_marks *attached_marks_new(void);

void attached_gate_open(struct attached_gate *gate, const struct attached_marks *marks,
                        const uint64_t name[2]);

/* No writer enters from now on. */
void attached_gate_close(struct attached_gate *gate);

/* After that: the thread id of a writer that is still there, or 0. With another daemon's region of
 * the same id, the result may be a writer to that one. */
pid_t attached_writer(const struct attached_marks *marks, uint64_t region);
