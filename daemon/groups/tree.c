#include "daemon/groups/tree.h"

/* Divides what follows the range's own root among its children, in parts that differ by one at
 * most. */
static void add_children(struct tree_place *place)
{
    const uint32_t count = place->range.end - place->range.begin - 1;
    uint32_t at = place->range.begin + 1;

    place->child_count = count < TREE_RADIX ? count : TREE_RADIX;
    for (unsigned i = 0; i < place->child_count; i++) {
        const uint32_t part = count / place->child_count + (i < count % place->child_count);
        place->children[i] = (struct tree_range){at, at + part};
        at += part;
    }
}

struct tree_place tree_find(uint32_t count, uint32_t position)
{
    struct tree_place place = {.parent = TREE_NONE, .range = {0, count}};

    for (add_children(&place); place.range.begin != position; add_children(&place)) {
        unsigned i = 0;
        while (place.children[i].end <= position)
            i++;
        place.parent = place.range.begin;
        place.range = place.children[i];
    }
    return place;
}
