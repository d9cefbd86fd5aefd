#include "daemon/plans/order.h"

#include <errno.h>
#include <stdlib.h>

/* ---- an index of byte ranges, for finding overlaps ---- */

struct order_range {
    uint64_t space;
    uint64_t low, high;
    uint32_t step;
};

/* One range per step. All are known beforehand; adding and removing one takes log n. All zero:
 * empty. */
struct order_index {
    uint32_t count;
    uint32_t leaves;            /* a power of two */
    struct order_range *ranges; /* sorted by space and low */
    uint32_t *places;           /* index of each step's range; UINT32_MAX: none */
    uint64_t *highest; /* a tree: the greatest `high` of the added ranges in each subtree */
};

static int compare_ranges(const void *a, const void *b)
{
    const struct order_range *one = a, *other = b;
    if (one->space != other->space)
        return one->space < other->space ? -1 : 1;
    return (one->low > other->low) - (one->low < other->low);
}

static void order_index_deinit(struct order_index *index)
{
    free(index->ranges);
    free(index->places);
    free(index->highest);
    *index = (struct order_index){0};
}

/* Takes over the ranges, even on failure (-ENOMEM). At most one per step; steps count from 0. */
static int order_index_init(struct order_index *index, struct order_range *ranges, uint32_t count,
                            uint32_t step_count)
{
    *index = (struct order_index){.count = count, .leaves = 1, .ranges = ranges};
    while (index->leaves < count)
        index->leaves *= 2;
    index->places = malloc((step_count + 1) * sizeof(*index->places));
    index->highest = calloc(2 * (size_t)index->leaves, sizeof(*index->highest));
    if (!index->places || !index->highest) {
        order_index_deinit(index);
        return -ENOMEM;
    }
    qsort(ranges, count, sizeof(*ranges), compare_ranges);
    for (uint32_t i = 0; i < step_count; i++)
        index->places[i] = UINT32_MAX;
    for (uint32_t i = 0; i < count; i++)
        index->places[ranges[i].step] = i;
    return 0;
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

/* Adds the range of this step, if it has one. */
static void order_index_add(struct order_index *index, uint32_t step)
{
    if (index->count == 0 || index->places[step] == UINT32_MAX)
        return;
    set(index, index->places[step], index->ranges[index->places[step]].high);
}

static void order_index_remove(struct order_index *index, uint32_t step)
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
static uint32_t first_leaf(const struct order_index *index, uint32_t from, uint64_t low)
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

/* The next added range that overlaps: its index, at least `from` (first 0, then the last result +
 * 1), or UINT32_MAX. */
static uint32_t order_index_next(const struct order_index *index, const struct order_range *range,
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
    const uint32_t place = first_leaf(index, from, range->low);
    return place < end ? place : UINT32_MAX;
}

/* ---- steps ---- */

/* Pairs of blocks that are compared to distinguish a step from the earlier ones. */
enum { LOOKS = 64 };

enum relation {
    READS_WRITTEN,
    WRITES_READ,
    WRITES_WRITTEN,
};

struct ordering {
    const struct order_rules *rules;
    struct order_step *steps;
    uint32_t count;
    uint32_t *routes; /* of each step, counted from 0 */
    uint32_t *landed; /* by route: the puts of steps before this one are complete at the target */
    uint32_t *last;   /* by route: its last put so far */
    uint32_t done;    /* all earlier steps are */
    bool several_routes;
    struct order_index of[3]; /* by relation: what earlier steps wrote, read, wrote */
};

/* ---- ranges ---- */

/* Offsets beyond any memory may mean anything. */
static struct order_range range_of(const struct order_bytes *bytes, uint32_t step)
{
    struct order_range range = {.space = bytes->space, .step = step};
    range.low = bytes->base + (uint64_t)bytes->layout->lower_bytes;
    range.high = bytes->base + (uint64_t)bytes->layout->upper_bytes;
    if (range.low > range.high || range.high > LAYOUT_ADDRESS_MAX) {
        range.low = 0;
        range.high = UINT64_MAX;
    }
    return range;
}

static const struct order_bytes *earlier_bytes(enum relation relation,
                                               const struct order_step *step)
{
    return relation == WRITES_READ ? &step->source : &step->target;
}

static const struct order_bytes *later_bytes(enum relation relation, const struct order_step *step)
{
    return relation == READS_WRITTEN ? &step->source : &step->target;
}

/* ---- order within a route ---- */

static bool is_kept(const struct ordering *ordering, enum relation relation, uint32_t earlier,
                    uint32_t later)
{
    const struct order_step *one = &ordering->steps[earlier];
    if (ordering->routes[earlier] != ordering->routes[later])
        return false;
    switch (relation) {
    case READS_WRITTEN:
        return ordering->rules->serial && one->lands;
    case WRITES_READ:
        return ordering->rules->ordered;
    case WRITES_WRITTEN:
        return one->keeps;
    }
    return false;
}

/* Whether a step can make any later one wait. */
static bool matters(const struct ordering *ordering, enum relation relation, uint32_t step)
{
    const struct order_step *one = &ordering->steps[step];
    switch (relation) {
    case READS_WRITTEN:
        return ordering->several_routes || !ordering->rules->serial || !one->lands;
    case WRITES_READ:
        return ordering->several_routes || !ordering->rules->ordered;
    case WRITES_WRITTEN:
        return ordering->rules->crossing || !one->keeps;
    }
    return false;
}

/* An earlier step that no later one need wait for. */
static bool is_over(const struct ordering *ordering, enum relation relation, uint32_t earlier)
{
    if (earlier >= ordering->done)
        return false;
    const struct order_step *step = &ordering->steps[earlier];
    return relation == WRITES_READ || step->lands ||
           earlier < ordering->landed[ordering->routes[earlier]];
}

/* ---- one step ---- */

/* The earlier step that must come first; ORDER_NOTHING: none. */
static uint32_t find(struct ordering *ordering, enum relation relation, uint32_t step)
{
    struct order_index *index = &ordering->of[relation];
    const struct order_bytes *bytes = later_bytes(relation, &ordering->steps[step]);
    const struct order_range range = range_of(bytes, step);
    unsigned looks = LOOKS;
    for (uint32_t place = 0;; place++) {
        place = order_index_next(index, &range, place);
        if (place == UINT32_MAX)
            return ORDER_NOTHING;
        const struct order_range *other = &index->ranges[place];
        if (is_over(ordering, relation, other->step)) {
            order_index_remove(index, other->step);
            continue;
        }
        if (looks-- == 0)
            return other->step;
        if (is_kept(ordering, relation, other->step, step))
            continue;
        const struct order_bytes *its = earlier_bytes(relation, &ordering->steps[other->step]);
        if (range.high == UINT64_MAX || other->high == UINT64_MAX ||
            layout_overlap(bytes->layout, bytes->base, its->layout, its->base, &looks))
            return other->step;
    }
}

static void wait_for(struct ordering *ordering, enum relation relation, uint32_t step,
                     uint32_t earlier)
{
    struct order_step *waiting = &ordering->steps[step];
    waiting->waits = true;
    waiting->after = earlier;
    ordering->done = step;
    if (relation == WRITES_READ || ordering->steps[earlier].lands)
        return;
    const uint32_t route = ordering->routes[earlier];
    uint32_t *landed = &waiting->landed[relation == WRITES_WRITTEN];
    waiting->all_landed |= *landed != ORDER_NOTHING && ordering->routes[*landed] != route;
    *landed = ordering->last[route];
    ordering->landed[route] = step;
}

static void order_put(struct ordering *ordering, uint32_t step)
{
    for (enum relation relation = READS_WRITTEN; relation <= WRITES_WRITTEN; relation++) {
        uint32_t earlier;
        while ((earlier = find(ordering, relation, step)) != ORDER_NOTHING)
            wait_for(ordering, relation, step, earlier);
    }
    for (enum relation relation = READS_WRITTEN; relation <= WRITES_WRITTEN; relation++)
        order_index_add(&ordering->of[relation], step);
    ordering->last[ordering->routes[step]] = step;
}

/* Routes of the puts that may not be done. */
struct in_flight {
    bool any, several;
    uint32_t route;
};

/* A notification promises that the sources of all earlier puts were read. */
static bool notification_waits(const struct ordering *ordering, const struct in_flight *in_flight,
                               uint32_t step)
{
    return ordering->steps[step].notify && in_flight->any &&
           (in_flight->several || in_flight->route != ordering->routes[step] ||
            !ordering->rules->ordered);
}

static void order_all(struct ordering *ordering)
{
    struct in_flight in_flight = {0};
    for (uint32_t i = 0; i < ordering->count; i++) {
        struct order_step *step = &ordering->steps[i];
        step->waits = notification_waits(ordering, &in_flight, i);
        step->landed[0] = step->landed[1] = step->after = ORDER_NOTHING;
        step->all_landed = false;
        if (step->waits)
            ordering->done = i;
        if (step->put)
            order_put(ordering, i);
        if (step->waits)
            in_flight = (struct in_flight){0};
        if (!step->put)
            continue;
        in_flight.several |= in_flight.any && in_flight.route != ordering->routes[i];
        in_flight.any = true;
        in_flight.route = ordering->routes[i];
    }
}

/* ---- before ---- */

static int compare_routes(const void *a, const void *b)
{
    const uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;
    return (one > other) - (one < other);
}

static int number_routes(struct ordering *ordering)
{
    uint64_t *routes = malloc((ordering->count + 1) * sizeof(*routes));
    if (!routes)
        return -ENOMEM;
    for (uint32_t i = 0; i < ordering->count; i++)
        routes[i] = ordering->steps[i].route;
    qsort(routes, ordering->count, sizeof(*routes), compare_routes);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < ordering->count; i++)
        if (kept == 0 || routes[kept - 1] != routes[i])
            routes[kept++] = routes[i];
    for (uint32_t i = 0; i < ordering->count; i++) {
        const uint64_t *found =
            bsearch(&ordering->steps[i].route, routes, kept, sizeof(*routes), compare_routes);
        ordering->routes[i] = (uint32_t)(found - routes);
    }
    ordering->several_routes = kept > 1;
    free(routes);
    return 0;
}

/* Chains of one put, and those that only put from here to elsewhere, have nothing to compare. */
static bool can_meet(const struct ordering *ordering, enum relation relation)
{
    uint32_t puts = 0;
    bool met = relation == WRITES_WRITTEN;
    for (uint32_t i = 0; i < ordering->count; i++) {
        const struct order_step *step = &ordering->steps[i];
        puts += step->put;
        met |= step->put && step->target.space == step->source.space;
    }
    return met && puts > 1;
}

static int make_index(struct ordering *ordering, enum relation relation)
{
    if (!can_meet(ordering, relation))
        return 0;
    struct order_range *ranges = calloc(ordering->count, sizeof(*ranges));
    uint32_t count = 0;
    if (!ranges)
        return -ENOMEM;
    for (uint32_t i = 0; i < ordering->count; i++)
        if (ordering->steps[i].put && matters(ordering, relation, i))
            ranges[count++] = range_of(earlier_bytes(relation, &ordering->steps[i]), i);
    return order_index_init(&ordering->of[relation], ranges, count, ordering->count);
}

int order_steps(const struct order_rules *rules, struct order_step *steps, uint32_t count)
{
    struct ordering ordering = {.rules = rules, .steps = steps, .count = count};
    ordering.routes = calloc(count + 1, sizeof(*ordering.routes));
    ordering.landed = calloc(count + 1, sizeof(*ordering.landed));
    ordering.last = calloc(count + 1, sizeof(*ordering.last));
    int r =
        ordering.routes && ordering.landed && ordering.last ? number_routes(&ordering) : -ENOMEM;
    for (enum relation relation = READS_WRITTEN; r == 0 && relation <= WRITES_WRITTEN; relation++)
        r = make_index(&ordering, relation);
    if (r == 0)
        order_all(&ordering);
    for (enum relation relation = READS_WRITTEN; relation <= WRITES_WRITTEN; relation++)
        order_index_deinit(&ordering.of[relation]);
    free(ordering.routes);
    free(ordering.landed);
    free(ordering.last);
    return r;
}
