/*
 * Stores to memory of another process that cannot be mapped, by cross-memory attach
 * (process_vm_writev()) where the kernel permits it, with vectors built from the layout. Expensive
 * (half a microsecond per block), so a last resort.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "proto/layout.h"

struct attached {
    pid_t pid;
    uint64_t name_address; /* where the process keeps the region's name */
    uint64_t name[2];      /* the region's name: its daemon's incarnation, and its id */
    uint64_t address;      /* of the layout's base in the process */
    struct layout *layout; /* owned by the creator of this struct */
};

/* Stores packed bytes position .. position + length to the layout. Returns 0, -EPERM (not
 * permitted), -ESRCH, -EOWNERDEAD (the process has ended, perhaps its id was reused) or -EFAULT
 * (the memory is not mapped there). */
int attached_write(const struct attached *attached, uint64_t position_bytes, const void *packed,
                   uint64_t length_bytes);
