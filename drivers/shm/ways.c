#include "drivers/shm/ways.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/segment.h"

enum {
    SHARE_LINES_MIN = 24, /* fewer are stored before the receiver could have taken up anything */
    STREAM_MIN = 32 * 1024,
    STREAM_BLOCK_MIN = 8192,
    HALF_MIN = 128 * 1024, /* bytes from which on two caches are better than one */
};

const struct way_costs way_costs_default = {
    .half_base_ns = 150,
    .half_line = 0.22,
    .ring_base_ns = 750,
    .ring_line_ns = 13.5,
    .ring_block_ns = 2,
};

/* Wide: a machine ten times as slow or as fast as any of today is still inside. */
const struct way_cost_field way_cost_fields[WAY_COST_FIELDS] = {
    {"half_base_ns", offsetof(struct way_costs, half_base_ns), 0, 1e6},
    {"half_line", offsetof(struct way_costs, half_line), 1e-2, 1}, /* more: the distance was not measured well */
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

/* On the average: a block begins where its elements may. */
static double lines_touched(const struct layout *layout)
{
    uint64_t block = layout->size_bytes / layout->block_count, align = layout->alignment;
    double across = block > align ? (double)(block - align) / LINE_BYTES : 0;
    double lines = (double)layout->block_count * (1 + across);
    double span = (double)(layout->upper_bytes - layout->lower_bytes) / LINE_BYTES + 1;
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

bool way_streams(const struct layout *target, const struct layout *source)
{
    uint64_t bytes = target->size_bytes;
    return bytes >= STREAM_MIN && bytes / target->block_count >= STREAM_BLOCK_MIN &&
           (target->block_count == 1 || bytes / source->block_count >= STREAM_BLOCK_MIN);
}

bool way_share_pays(const struct layout *target, const struct layout *source)
{
    return target->size_bytes > 0 && !way_streams(target, source) && lines_touched(target) >= SHARE_LINES_MIN;
}

/* Two do in less time what one does: find the many small blocks, or go through more than fits the nearer caches. */
static bool two_are_better(const struct way_costs *costs, const struct layout *target, uint64_t blocks)
{
    if (target->size_bytes >= HALF_MIN)
        return true;
    return costs->ring_block_ns * (double)blocks / 2 > costs->half_base_ns && (double)blocks >= lines_touched(target) * 4 / 5;
}

struct way_choice way_choose(const struct way_costs *costs, const struct layout *target, const struct layout *source)
{
    if (crosses_lines(target) || crosses_lines(source))
        return (struct way_choice){WAY_HALF, UINT32_MAX};
    uint64_t blocks = target->block_count > source->block_count ? target->block_count : source->block_count;
    double blocks_ns = costs->ring_block_ns * (double)blocks;
    double ring_ns = costs->ring_base_ns + costs->ring_line_ns * (double)(target->size_bytes / LINE_BYTES) + blocks_ns;
    enum way near = two_are_better(costs, target, blocks) ? WAY_HALF : WAY_PUSH;
    double near_ns = near == WAY_HALF ? costs->half_base_ns + blocks_ns / 2 : blocks_ns; /* and lines by the distance */
    if (ring_ns <= near_ns)
        return (struct way_choice){near, 0};
    double most = (ring_ns - near_ns) / (costs->half_line * lines_touched(target));
    return (struct way_choice){near, most < 1e9 ? (uint32_t)most : UINT32_MAX};
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
