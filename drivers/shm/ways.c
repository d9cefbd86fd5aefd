#include "drivers/shm/ways.h"

#include <stdlib.h>

#include "proto/segment.h"

enum {
    SHARE_LINES_MIN = 24, /* fewer are stored before the receiver could have taken up anything */
};

const struct way_costs way_costs_default = {
    .half_base_ns = 150,
    .half_line = 0.2,
    .ring_base_ns = 750,
    .ring_line_ns = 13.5,
    .ring_block_ns = 2,
};

static uint64_t lines_touched(const struct layout *layout)
{
    uint64_t block = layout->size_bytes / layout->block_count;
    uint64_t lines = layout->block_count * (block / LINE_BYTES + 1);
    uint64_t span = (uint64_t)(layout->upper_bytes - layout->lower_bytes) / LINE_BYTES + 1;
    return lines < span ? lines : span;
}

/* Whether what follows in the packed order lies on other lines, and comes back to these much later: a transpose. In pieces, each line
 * would be had again and again. */
static bool crosses_lines(const struct layout *layout)
{
    for (uint32_t i = 0; i + 1 < layout->op_count; i++) {
        const struct layout_op *outer = &layout->ops[i], *inner = outer + 1;
        if (outer->kind == LAYOUT_LOOP && inner->kind == LAYOUT_LOOP && llabs(outer->stride_bytes) < LINE_BYTES &&
            llabs(inner->stride_bytes) >= LINE_BYTES && inner->count >= LINE_BYTES)
            return true;
    }
    return false;
}

bool way_share_pays(const struct layout *target, const struct layout *source)
{
    return target->size_bytes > 0 && lines_touched(target) >= SHARE_LINES_MIN;
}

uint32_t way_half_up_to_ns(const struct way_costs *costs, const struct layout *target, const struct layout *source)
{
    if (crosses_lines(target) || crosses_lines(source))
        return UINT32_MAX;
    uint64_t blocks = target->block_count > source->block_count ? target->block_count : source->block_count;
    double ring_ns = costs->ring_base_ns + costs->ring_line_ns * (double)(target->size_bytes / LINE_BYTES) +
                     costs->ring_block_ns * (double)blocks;
    double half_ns = costs->half_base_ns + costs->ring_block_ns * (double)blocks / 2;
    if (ring_ns <= half_ns)
        return 0;
    double most = (ring_ns - half_ns) / (costs->half_line * (double)lines_touched(target));
    return most < 1e9 ? (uint32_t)most : UINT32_MAX;
}
