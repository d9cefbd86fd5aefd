/* Type maps of shapes, entry by entry, as the MPI standard defines them. */
#include <stdlib.h>

#include "tests/unit/client/shapes.h"

static bool map_add(struct map *map, int64_t place, int type)
{
    if (map->count == SHAPE_ENTRIES_MAX)
        return false;
    if (!map->entries)
        map->entries = malloc(SHAPE_ENTRIES_MAX * sizeof(*map->entries));
    map->entries[map->count++] = (struct map_entry){place, type};
    return true;
}

void map_free(struct map *map)
{
    free(map->entries);
    *map = (struct map){0};
}

static bool is_mark(int type)
{
    return type == MARK_LOWER || type == MARK_UPPER;
}

/* The lower or upper bound of the map, as the standard defines them, without the epsilon. */
static int64_t bound(const struct map *map, int mark)
{
    bool marked = false, any = false;
    int64_t found = 0;
    for (size_t i = 0; i < map->count; i++)
        marked |= map->entries[i].type == mark;
    for (size_t i = 0; i < map->count; i++) {
        const struct map_entry *entry = &map->entries[i];
        if (marked ? entry->type != mark : is_mark(entry->type))
            continue;
        int64_t at = entry->place;
        if (mark == MARK_UPPER && !marked)
            at += shape_type_bytes((enum tca_type)entry->type);
        if (!any || (mark == MARK_LOWER ? at < found : at > found))
            found = at;
        any = true;
    }
    return found;
}

void map_extent(const struct map *map, int64_t *ret_lower, int64_t *ret_extent)
{
    int64_t lower = bound(map, MARK_LOWER), extent = bound(map, MARK_UPPER) - lower, alignment = 1;
    bool marked = false;
    for (size_t i = 0; i < map->count; i++) {
        int type = map->entries[i].type;
        marked |= type == MARK_UPPER;
        if (!is_mark(type) && shape_type_alignment((enum tca_type)type) > alignment)
            alignment = shape_type_alignment((enum tca_type)type);
    }
    while (!marked && extent % alignment != 0)
        extent++;
    *ret_lower = lower;
    *ret_extent = extent;
}

void map_bounds(const struct map *map, int64_t *ret_lower, int64_t *ret_upper)
{
    bool any = false;
    *ret_lower = *ret_upper = 0;
    for (size_t i = 0; i < map->count; i++) {
        const struct map_entry *entry = &map->entries[i];
        if (is_mark(entry->type))
            continue;
        int64_t end = entry->place + shape_type_bytes((enum tca_type)entry->type);
        if (!any || entry->place < *ret_lower)
            *ret_lower = entry->place;
        if (!any || end > *ret_upper)
            *ret_upper = end;
        any = true;
    }
}

uint64_t map_size(const struct map *map)
{
    uint64_t size = 0;
    for (size_t i = 0; i < map->count; i++)
        size += is_mark(map->entries[i].type)
                    ? 0
                    : shape_type_bytes((enum tca_type)map->entries[i].type);
    return size;
}

bool map_overlaps(const struct map *map)
{
    int64_t lower, upper;
    map_bounds(map, &lower, &upper);
    uint8_t *touched = calloc(1, (size_t)(upper - lower) + 1);
    bool twice = false;
    for (size_t i = 0; i < map->count; i++) {
        const struct map_entry *entry = &map->entries[i];
        for (uint32_t b = 0;
             !is_mark(entry->type) && b < shape_type_bytes((enum tca_type)entry->type); b++)
            twice |= touched[entry->place - lower + b]++ > 0;
    }
    free(touched);
    return twice;
}

/* `count` copies of the inner map, the first at this offset, the others one extent apart each. */
static bool map_copies(struct map *map, const struct map *inner, int64_t place, uint64_t count)
{
    int64_t lower, extent;
    map_extent(inner, &lower, &extent);
    for (uint64_t i = 0; i < count; i++)
        for (size_t j = 0; j < inner->count; j++)
            if (!map_add(map, inner->entries[j].place + place + (int64_t)i * extent,
                         inner->entries[j].type))
                return false;
    return true;
}

static bool map_vector(struct map *map, const struct map *inner, const struct shape *shape,
                       int64_t unit)
{
    for (uint64_t i = 0; i < shape->count; i++)
        if (!map_copies(map, inner, (int64_t)i * shape->stride * unit, shape->length))
            return false;
    return true;
}

static bool map_indexed(struct map *map, const struct map *inner, const struct shape *shape,
                        int64_t unit)
{
    bool equal = shape->kind == SHAPE_INDEXED_BLOCK || shape->kind == SHAPE_HINDEXED_BLOCK;
    for (uint64_t i = 0; i < shape->count; i++)
        if (!map_copies(map, inner, shape->offsets[i] * unit,
                        equal ? shape->length : shape->lengths[i]))
            return false;
    return true;
}

static bool map_struct(struct map *map, const struct shape *shape)
{
    bool ok = true;
    for (uint64_t i = 0; i < shape->count && ok; i++) {
        struct map inner = {0};
        ok = shape_map(shape->inners[i], &inner) &&
             map_copies(map, &inner, shape->offsets[i], shape->lengths[i]);
        map_free(&inner);
    }
    return ok;
}

/* Every index of the box, the fastest first: its offset is a sum of products. */
static bool map_box(struct map *map, const struct map *inner, const struct shape *shape)
{
    uint64_t total = 1, index[SHAPE_DIMENSIONS_MAX] = {0};
    int64_t lower, extent, whole;
    map_extent(inner, &lower, &extent);
    for (uint32_t d = 0; d < shape->dimensions; d++)
        total *= shape->subsizes[d];
    for (uint64_t n = 0; n < total; n++) {
        int64_t place = 0, step = extent;
        for (uint32_t i = 0; i < shape->dimensions; i++) {
            uint32_t d = shape->order == TCA_ORDER_FORTRAN ? i : shape->dimensions - 1 - i;
            place += (int64_t)(shape->starts[d] + index[d]) * step;
            step *= (int64_t)shape->sizes[d];
        }
        for (size_t j = 0; j < inner->count; j++)
            if (!is_mark(inner->entries[j].type) &&
                !map_add(map, inner->entries[j].place + place, inner->entries[j].type))
                return false;
        for (uint32_t i = 0; i < shape->dimensions; i++) {
            uint32_t d = shape->order == TCA_ORDER_FORTRAN ? i : shape->dimensions - 1 - i;
            if (++index[d] < shape->subsizes[d])
                break;
            index[d] = 0;
        }
    }
    whole = extent;
    for (uint32_t d = 0; d < shape->dimensions; d++)
        whole *= (int64_t)shape->sizes[d];
    return map_add(map, 0, MARK_LOWER) && map_add(map, whole, MARK_UPPER);
}

static bool map_resized(struct map *map, const struct map *inner, const struct shape *shape)
{
    for (size_t j = 0; j < inner->count; j++)
        if (!is_mark(inner->entries[j].type) &&
            !map_add(map, inner->entries[j].place, inner->entries[j].type))
            return false;
    return map_add(map, shape->lower, MARK_LOWER) &&
           map_add(map, shape->lower + shape->extent, MARK_UPPER);
}

static bool map_of_inner(struct map *map, const struct map *inner, const struct shape *shape)
{
    int64_t lower, extent;
    map_extent(inner, &lower, &extent);
    switch (shape->kind) {
    case SHAPE_ARRAY:
        return map_copies(map, inner, 0, shape->count);
    case SHAPE_VECTOR:
        return map_vector(map, inner, shape, extent);
    case SHAPE_HVECTOR:
        return map_vector(map, inner, shape, 1);
    case SHAPE_INDEXED:
    case SHAPE_INDEXED_BLOCK:
        return map_indexed(map, inner, shape, extent);
    case SHAPE_HINDEXED:
    case SHAPE_HINDEXED_BLOCK:
        return map_indexed(map, inner, shape, 1);
    case SHAPE_SUBARRAY:
        return map_box(map, inner, shape);
    case SHAPE_RESIZED:
        return map_resized(map, inner, shape);
    default:
        return map_copies(map, inner, 0, 1);
    }
}

bool shape_map(const struct shape *shape, struct map *ret_map)
{
    struct map map = {0}, inner = {0};
    bool ok;
    if (shape->kind == SHAPE_ELEMENT) {
        ok = map_add(&map, 0, (int)shape->type);
    } else if (shape->kind == SHAPE_STRUCT) {
        ok = map_struct(&map, shape);
    } else {
        ok = shape_map(shape->inner, &inner) && map_of_inner(&map, &inner, shape);
        map_free(&inner);
    }
    if (ok)
        *ret_map = map;
    else
        map_free(&map);
    return ok;
}
