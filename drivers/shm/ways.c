#include "drivers/shm/ways.h"

#include <errno.h>
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

/* Wide: a machine ten times as slow or as fast as any of today is still inside. */
const struct way_cost_field way_cost_fields[WAY_COST_FIELDS] = {
    {"half_base_ns", offsetof(struct way_costs, half_base_ns), 0, 1e6},
    {"half_line", offsetof(struct way_costs, half_line), 1e-3, 1e3},
    {"ring_base_ns", offsetof(struct way_costs, ring_base_ns), 0, 1e6},
    {"ring_line_ns", offsetof(struct way_costs, ring_line_ns), 1e-2, 1e5},
    {"ring_block_ns", offsetof(struct way_costs, ring_block_ns), 0, 1e5},
};

bool way_cost_valid(unsigned field, double value)
{
    return value >= way_cost_fields[field].least && value <= way_cost_fields[field].most; /* no NaN is */
}

bool way_costs_valid(const struct way_costs *costs)
{
    struct way_costs copy = *costs;
    for (unsigned field = 0; field < WAY_COST_FIELDS; field++)
        if (!way_cost_valid(field, *way_cost_at(&copy, field)))
            return false;
    return true;
}

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

static double at_least_0(double value)
{
    return value < 0 ? 0 : value; /* NaN stays */
}

int way_costs_fit(const struct way_samples *samples, struct way_costs *ret_costs)
{
    const double short_lines = WAY_SHORT_BYTES / LINE_BYTES, long_lines = WAY_LONG_BYTES / LINE_BYTES,
                 block_lines = WAY_BLOCKS * 8.0 / LINE_BYTES;
    double half_line_ns = (samples->half_long_ns - samples->half_short_ns) / (long_lines - short_lines);
    double ring_line_ns = (samples->ring_long_ns - samples->ring_short_ns) / (long_lines - short_lines);
    double ring_base_ns = at_least_0(samples->ring_short_ns - short_lines * ring_line_ns);
    const struct way_costs costs = {
        .half_base_ns = at_least_0(samples->half_short_ns - short_lines * half_line_ns),
        .half_line = half_line_ns / samples->distance_ns,
        .ring_base_ns = ring_base_ns,
        .ring_line_ns = ring_line_ns,
        .ring_block_ns = at_least_0((samples->ring_blocks_ns - ring_base_ns - block_lines * ring_line_ns) / WAY_BLOCKS),
    };
    if (!(samples->distance_ns > 0) || !way_costs_valid(&costs))
        return -ERANGE;
    *ret_costs = costs;
    return 0;
}
