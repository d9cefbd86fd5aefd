#include "drivers/shm/ways.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/segment.h"

enum {
    SHARE_LINES_MIN = 24, /* fewer are stored before the receiver could have taken up anything */
    STREAM_MIN = 32 * 1024,
    STREAM_BLOCK_MIN = 8192,
    HALF_MIN =
        512 *
        1024, /* bytes from which on source and target are more than a second-level cache holds */
};

/* Where half costs what the ring does there is nothing to lose: rather beyond it, for what is near
 * is not always measured so. */
#define WOBBLE 1.25

const struct way_costs way_costs_default = {
    .half_line = 0.15,
    .ring_line_ns = 8,
};

/* Wide: a machine ten times as slow or as fast as any of today is still inside. */
const struct way_cost_field way_cost_fields[WAY_COST_FIELDS] = {
    {"half_line", offsetof(struct way_costs, half_line), 1e-2,
     1}, /* more: the distance was not measured well */
    {"ring_line_ns", offsetof(struct way_costs, ring_line_ns), 1e-2, 1e5},
};

bool way_cost_valid(unsigned field, double value)
{
    return value >= way_cost_fields[field].least &&
           value <= way_cost_fields[field].most; /* no NaN is */
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

/* Whether what follows in the packed order lies on other lines, and comes back to these much later:
 * a transpose. In pieces, each line would be had again and again. */
static bool crosses_lines(const struct layout *layout)
{
    for (uint32_t i = 0; i + 1 < layout->op_count; i++) {
        const struct layout_op *outer = &layout->ops[i], *inner = outer + 1;
        if (outer->kind == LAYOUT_LOOP && inner->kind == LAYOUT_LOOP &&
            llabs(outer->stride_bytes) < LINE_BYTES && llabs(inner->stride_bytes) >= LINE_BYTES &&
            inner->count >= LINE_BYTES)
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
    return target->size_bytes > 0 && lines_touched(target) >= SHARE_LINES_MIN;
}

struct way_choice way_choose(const struct way_costs *costs, const struct layout *target,
                             const struct layout *source)
{
    if (crosses_lines(target) || crosses_lines(source))
        return (struct way_choice){WAY_HALF, WAY_HALF, UINT32_MAX};
    const uint64_t blocks =
        target->block_count > source->block_count ? target->block_count : source->block_count;
    const bool whole_lines =
        target->size_bytes / LINE_BYTES >= blocks; /* else the ring stores fewer */
    return (struct way_choice){
        .near = target->size_bytes >= HALF_MIN && whole_lines ? WAY_HALF : WAY_RING,
        .far = way_streams(target, source) ? WAY_PUSH : WAY_RING,
        .up_to_ns = (uint32_t)(WOBBLE * costs->ring_line_ns / costs->half_line),
    };
}

int way_costs_fit(const struct way_samples *samples, struct way_costs *ret_costs)
{
    const double lines = (double)WAY_LARGE_BYTES / LINE_BYTES;
    const struct way_costs costs = {
        .half_line = (samples->half_ns - samples->touch_ns) / lines / samples->distance_ns,
        .ring_line_ns = (samples->ring_ns - samples->touch_ns) / lines,
    };
    if (!(samples->distance_ns > 0) || !way_costs_valid(&costs))
        return -ERANGE;
    *ret_costs = costs;
    return 0;
}
