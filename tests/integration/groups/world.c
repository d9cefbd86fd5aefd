#include "tests/integration/groups/world.h"

#include "client/include/tca-group.h"

enum { KEYS = 4 };

struct world world_all(uint32_t size)
{
    struct world world = {.size = size};

    for (uint32_t rank = 0; rank < size; rank++)
        world.ranks[rank] = rank;
    return world;
}

uint32_t world_place(const struct world *world, uint32_t rank)
{
    uint32_t place = 0;

    while (place < world->size && world->ranks[place] != rank)
        place++;
    return place;
}

uint32_t world_split(const struct world *parent, uint32_t session_size, uint32_t rank,
                     struct random *random, struct world *ret_own, int32_t *ret_key)
{
    const uint64_t colours = 1 + random_below(random, 3), keys = 1 + random_below(random, KEYS);
    uint32_t colour[WORLD_RANKS_MAX], own = TCA_GROUP_NONE;
    int32_t key[WORLD_RANKS_MAX];

    for (uint32_t r = 0; r < session_size; r++) {
        const uint32_t some = (uint32_t)random_below(random, colours) * 7;
        colour[r] = random_below(random, 8) ? some : TCA_GROUP_NONE;
        key[r] = (int32_t)random_below(random, keys) - 1;
    }
    if (world_place(parent, rank) < parent->size)
        own = colour[rank];
    *ret_key = key[rank];
    ret_own->size = 0;
    for (int32_t k = -1; own != TCA_GROUP_NONE && k < KEYS; k++)
        for (uint32_t i = 0; i < parent->size; i++)
            if (colour[parent->ranks[i]] == own && key[parent->ranks[i]] == k)
                ret_own->ranks[ret_own->size++] = parent->ranks[i];
    return own;
}
