/* What drivers do alike when they prepare a put. */
#pragma once

#include <errno.h>
#include <string.h>

#include "drivers/driver.h"
#include "drivers/packed.h"
#include "drivers/window.h"

/* Copies the receiver's description of the landing, which has this size and begins with this
 * number: -EINVAL. */
static inline int puts_read_blob(const struct driver_put_args *args, uint32_t magic, void *ret_blob,
                                 size_t blob_bytes)
{
    if (args->landing_bytes != blob_bytes || memcmp(args->landing, &magic, sizeof(magic)) != 0)
        return -EINVAL;
    memcpy(ret_blob, args->landing, blob_bytes);
    return 0;
}

/* Whether so many bytes fit the landing, which has this size. -EMSGSIZE. Starts that move parts say
 * so themselves. */
static inline int puts_check_size(const struct driver_put_args *args, uint64_t size_bytes)
{
    const uint64_t own_bytes = args->region ? args->layout->size_bytes : 0;
    return args->parts || own_bytes == size_bytes ? 0 : -EMSGSIZE;
}

/* Begins a put, all of whose bytes are zero, of args->region, which is mapped here; base NULL: of
 * no data. -ERANGE, -ENOMEM. */
static inline int puts_init(const struct driver_put_args *args, uint8_t *base,
                            uint64_t length_bytes, struct window_put *put, struct packed *source)
{
    put->flow = (struct flow_put){.peer = args->peer, .flow = args->flow};
    put->cost = 1;
    if (!base)
        return 0;
    if (!layout_fits(args->layout, args->offset_bytes, length_bytes))
        return -ERANGE;
    return packed_source_init(source, base + args->offset_bytes, args->layout, args->program);
}

static inline void puts_describe(const struct packed *source, uint64_t descriptors, bool gathered,
                                 struct driver_put_info *ret_info)
{
    *ret_info = (struct driver_put_info){
        .descriptors = descriptors < UINT32_MAX ? (uint32_t)descriptors : UINT32_MAX,
        .gathered = gathered,
        .memory_bytes = packed_memory_bytes(source),
    };
}
