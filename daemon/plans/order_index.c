#include "daemon/plans/order_index.h"

#include <errno.h>
#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    const struct order_range *one = a, *other = b;
    if (one->space != other->space)
        return one->space < other->space ? -1 : 1;
    return (one->low > other->low) - (one->low < other->low);
}

int order_index_init(struct order_index *index, struct order_range *ranges, uint32_t count,
                     uint32_t step_count)
{
    *index = (struct order_index){.count = count, .leaves = 1, .ranges = ranges};
    while (index->leaves < count)
        index->leaves *= 2;
    index->places = malloc((step_count + 1) * sizeof *index->places);
    index->highest = calloc(2 * (size_t)index->leaves, sizeof *index->highest);
    if (!index->places || !index->highest) {
        order_index_deinit(index);
        return -ENOMEM;
    }
    qsort(ranges, count, sizeof *ranges, compare);
    for (uint32_t i = 0; i < step_count; i++)
        index->places[i] = UINT32_MAX;
    for (uint32_t i = 0; i < count; i++)
        index->places[ranges[i].step] = i;
    return 0;
}

void order_index_deinit(struct order_index *index)
{
    free(index->ranges);
    free(index->places);
    free(index->highest);
    *index = (struct order_index){0};
}

static void set(struct order_index *index, uint32_t place, uint64_t high)
{
    uint32_t at = index->leaves + place;
    index->highest[at] = high;
    while (at > 1) {
        at /= 2;
        const uint64_t left = index->highest[2 * at], right = index->highest[2 * at + 1];
        index->highest[at] = left > right ? left : right;
    }
}

void order_index_add(struct order_index *index, uint32_t step)
{
    if (index->count == 0 || index->places[step] == UINT32_MAX)
        return;
    set(index, index->places[step], index->ranges[index->places[step]].high);
}

void order_index_remove(struct order_index *index, uint32_t step)
{
    set(index, index->places[step], 0);
}

/* The first range that begins there or behind. */
static uint32_t place_of(const struct order_index *index, uint64_t space, uint64_t low)
{
    uint32_t first = 0, end = index->count;
    while (first < end) {
        const uint32_t middle = first + (end - first) / 2;
        const struct order_range *range = &index->ranges[middle];
        if (range->space < space || (range->space == space && range->low < low))
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

/* The first leaf from `from` on with more than `low`: up until a subtree to the right has one, then
 * down. */
static uint32_t find(const struct order_index *index, uint32_t from, uint64_t low)
{
    uint32_t at = index->leaves + from;
    while (index->highest[at] <= low) {
        while (at & 1)
            at /= 2;
        if (at == 0)
            return UINT32_MAX; /* it was the last one */
        at++;
    }
    while (at < index->leaves)
        at = index->highest[2 * at] > low ? 2 * at : 2 * at + 1;
    return at - index->leaves;
}

uint32_t order_index_next(const struct order_index *index, const struct order_range *range,
                          uint32_t from)
{
    if (index->count == 0)
        return UINT32_MAX;
    const uint32_t first = place_of(index, range->space, 0);
    const uint32_t end = place_of(index, range->space, range->high);
    if (from < first)
        from = first;
    if (from >= end)
        return UINT32_MAX;
    const uint32_t place = find(index, from, range->low);
    return place < end ? place : UINT32_MAX;
}
