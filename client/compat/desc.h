/* Chains of descriptors. */
#pragma once

#include "client/compat/program.h"

/* What the calls that set a descriptor are given. */
struct request {
    const tcaHandle *target, *source;
    off_t target_offset, source_offset;
    size_t target_pitch, source_pitch;
    size_t width, height;
    int flags, slot, tag;
};

/* Checks it. */
tcaresult transfer_make(const struct request *request, const char *name,
                        struct transfer *ret_transfer);
tcaresult desc_append(tcaDesc *desc, const struct transfer *transfer);
