
#include "proto/layout.h"

/* Blocks of one length, starting a positive stride apart. */
struct run {
    int64_t first;
    int64_t block_bytes;
    int64_t stride_bytes;
    int64_t count;
};

/* One side of a comparison. */
struct side {
    const struct layout *layout;
    int64_t base;
    bool regular; /* block-stride: `run` is set */
    struct run run;
};

/* Unsigned, because only the sum is known to be in bounds. */
static int64_t at(int64_t base, int64_t offset)
{
    return (int64_t)((uint64_t)base + (uint64_t)offset);
}

static struct side side_of(const struct layout *layout, uint64_t base)
{
    struct side side = {.layout = layout, .base = (int64_t)base};
    struct layout_strided strided;
    side.regular = layout_as_strided(layout, &strided);
    if (!side.regular)
        return side;
    struct run *run = &side.run;
    run->block_bytes = (int64_t)strided.block_bytes;
    run->first = at(side.base, layout->lower_bytes);
    run->count = run->stride_bytes = 1;
    if (strided.count > 1 && strided.stride_bytes != 0) { /* else all blocks coincide */
        run->count = (int64_t)strided.count;
        run->stride_bytes = strided.stride_bytes < 0 ? -strided.stride_bytes : strided.stride_bytes;
    }
    return side;
}

/* The index of the first block that ends after `low`; run->count if none does. */
static int64_t first_behind(const struct run *run, int64_t low)
{
    const int64_t past = low - run->first - run->block_bytes;
    const int64_t index = past < 0 ? 0 : past / run->stride_bytes + 1;
    return index < run->count ? index : run->count;
}

static bool run_meets_block(const struct run *run, int64_t low, int64_t high)
{
    const int64_t index = first_behind(run, low);
    return index < run->count && run->first + index * run->stride_bytes < high;
}

static bool spend(unsigned *budget, uint64_t cost)
{
    if (cost > *budget) {
        *budget = 0;
        return false;
    }
    *budget -= (unsigned)cost;
    return true;
}

static bool side_meets_block(const struct side *side, int64_t low, int64_t high)
{
    if (side->regular)
        return run_meets_block(&side->run, low, high);
    struct layout_cursor cursor;
    int64_t offset;
    uint64_t length;
    layout_cursor_init(&cursor, side->layout, 0);
    while (layout_cursor_next(&cursor, UINT64_MAX, &offset, &length)) {
        const int64_t first = at(side->base, offset);
        if (first < high && first + (int64_t)length > low)
            return true;
    }
    return false;
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Two blocks overlap if b's start minus a's start is greater than minus b's length and less than
 * a's length. Each such distance is that of the first two blocks plus a multiple of the greatest
 * common divisor of the strides. */
static bool strides_may_meet(const struct run *a, const struct run *b)
{
    const int64_t divisor = common_divisor(a->stride_bytes, b->stride_bytes);
    const int64_t distance = b->first - a->first;
    int64_t least = distance % divisor;
    least += least < 0 ? divisor : 0;
    return least < a->block_bytes || divisor - least < b->block_bytes;
}

/* Compares only those blocks of a that lie within the bounds of b. */
static bool runs_meet(const struct run *a, const struct run *b, unsigned *budget)
{
    const int64_t end = b->first + (b->count - 1) * b->stride_bytes + b->block_bytes;
    const int64_t index = first_behind(a, b->first);
    int64_t count = end <= a->first ? 0 : (end - 1 - a->first) / a->stride_bytes + 1;
    count = (count < a->count ? count : a->count) - index;
    if (count <= 0 || !strides_may_meet(a, b))
        return false;
    if (!spend(budget, (uint64_t)count))
        return true;
    for (int64_t i = 0; i < count; i++) {
        const int64_t low = a->first + (index + i) * a->stride_bytes;
        if (run_meets_block(b, low, low + a->block_bytes))
            return true;
    }
    return false;
}

static bool blocks_meet(const struct side *a, const struct side *b, unsigned *budget)
{
    const uint64_t each = b->regular ? 1 : b->layout->block_count;
    struct layout_cursor cursor;
    int64_t offset;
    uint64_t length;
    if (a->layout->block_count > *budget || !spend(budget, a->layout->block_count * each))
        return true;
    layout_cursor_init(&cursor, a->layout, 0);
    while (layout_cursor_next(&cursor, UINT64_MAX, &offset, &length))
        if (side_meets_block(b, at(a->base, offset), at(a->base, offset) + (int64_t)length))
            return true;
    return false;
}

bool layout_overlap(const struct layout *a, uint64_t a_base, const struct layout *b,
                    uint64_t b_base, unsigned *budget)
{
    const struct side one = side_of(a, a_base), other = side_of(b, b_base);
    if (a->size_bytes == 0 || b->size_bytes == 0 ||
        at(one.base, a->lower_bytes) >= at(other.base, b->upper_bytes) ||
        at(other.base, b->lower_bytes) >= at(one.base, a->upper_bytes))
        return false;
    if (!one.regular)
        return blocks_meet(&one, &other, budget);
    if (!other.regular)
        return blocks_meet(&other, &one, budget);
    return one.run.count <= other.run.count ? runs_meet(&one.run, &other.run, budget)
                                            : runs_meet(&other.run, &one.run, budget);
}
