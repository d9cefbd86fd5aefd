/* Chains of descriptors. */
#pragma once

#include "client/compat/program.h"

/* The arguments of the calls that set a descriptor. */
struct request {
    const tcaHandle *target, *source;
    off_t target_offset, source_offset;
    size_t target_pitch, source_pitch;
    size_t width, height;
    int flags, slot, tag;
};

/* A request with one row. For more rows, set the pitches and the height. */
static inline struct request request_1d(const tcaHandle *dst, off_t dst_off, const tcaHandle *src,
                                        off_t src_off, size_t size, int flags, int slot, int tag)
{
    return (struct request){.target = dst,
                            .target_offset = dst_off,
                            .target_pitch = size,
                            .source = src,
                            .source_offset = src_off,
                            .source_pitch = size,
                            .width = size,
                            .height = 1,
                            .flags = flags,
                            .slot = slot,
                            .tag = tag};
}

/* Checks the request. `name`: of the calling function, for the error text. */
tcaresult transfer_make(const struct request *request, const char *name,
                        struct transfer *ret_transfer);
tcaresult desc_append(tcaDesc *desc, const struct transfer *transfer);
