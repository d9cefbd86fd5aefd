/*
 * Memory of another process that cannot be mapped: it is stored to by cross-memory attach
 * (process_vm_writev), where the kernel permits that, with vectors built from the layout. Dear by
 * the block (half a microsecond each), so only for what nobody else does.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "proto/layout.h"

struct attached {
    pid_t pid;
    uint64_t name_address; /* where the process keeps: */
    uint64_t name[2];      /* of the region: its daemon's incarnation, and its number */
    uint64_t address;      /* of the layout's base, there */
    struct layout *layout; /* owned by whoever made this */
};

/* Packed bytes position .. position + length into the layout. 0, -EPERM (not permitted), -ESRCH,
 * -EOWNERDEAD (the process has gone, or that number is another one's by now), -EFAULT (nothing is
 * there). */
int attached_write(const struct attached *attached, uint64_t position_bytes, const void *packed,
                   uint64_t length_bytes);
