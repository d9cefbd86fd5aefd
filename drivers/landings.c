#include "drivers/landings.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

enum {
    SLOTS_MAX = 1 << 24,
    FRESH_MAX = 4096, /* slots to create before reusing free ones */
};

void landings_deinit(struct landings *landings)
{
    free(landings->slots);
    *landings = LANDINGS_INIT;
}

static int grow(struct landings *landings)
{
    const uint32_t capacity = landings->capacity > 0 ? landings->capacity * 2 : 64;
    if (capacity > SLOTS_MAX)
        return -ENOSPC;
    struct landing_slot *slots = realloc(landings->slots, capacity * sizeof(slots[0]));
    if (!slots)
        return -ENOMEM;
    landings->slots = slots;
    landings->capacity = capacity;
    return 0;
}

int landings_place(struct landings *landings, void *landing, uint32_t index, uint32_t generation)
{
    int r = 0;
    if (index < landings->count && landings->slots[index].landing)
        return -EEXIST;
    while (r == 0 && index >= landings->capacity)
        r = grow(landings);
    if (r < 0)
        return r;
    while (landings->count <= index)
        landings->slots[landings->count++] = (struct landing_slot){0};
    landings->slots[index] = (struct landing_slot){.landing = landing, .generation = generation};
    landings->placed = true;
    landings->newest = generation;
    return 0;
}

static int make_slot(struct landings *landings, uint32_t *ret_index)
{
    struct landing_slot slot = {0};
    int r = landings->count == landings->capacity ? grow(landings) : 0;
    if (r < 0)
        return r;
    if (getrandom(&slot.generation, sizeof(slot.generation), 0) != sizeof(slot.generation))
        return -EIO;
    *ret_index = landings->count++;
    landings->slots[*ret_index] = slot;
    return 0;
}

int landings_add(struct landings *landings, void *landing, uint32_t *ret_index,
                 uint32_t *ret_generation)
{
    uint32_t index = landings->first_free;
    if (index == UINT32_MAX || landings->count < FRESH_MAX) {
        int r = make_slot(landings, &index);
        if (r < 0)
            return r;
    } else {
        landings->first_free = landings->slots[index].next_free;
        if (landings->first_free == UINT32_MAX)
            landings->last_free = UINT32_MAX;
    }
    landings->slots[index].landing = landing;
    *ret_index = index;
    *ret_generation = landings->slots[index].generation;
    return 0;
}

void landings_remove(struct landings *landings, uint32_t index)
{
    struct landing_slot *slot = &landings->slots[index];
    slot->landing = NULL;
    if (landings->placed)
        return;
    slot->generation++;
    slot->next_free = UINT32_MAX;
    if (landings->last_free == UINT32_MAX)
        landings->first_free = index;
    else
        landings->slots[landings->last_free].next_free = index;
    landings->last_free = index;
}
