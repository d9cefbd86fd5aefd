/* The landings of a driver by number: a table of slots with generations, so that late messages for
 * a freed landing are recognised. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct landing_slot {
    void *landing; /* NULL: free */
    uint32_t generation;
    uint32_t next_free;
};

/* Initialise with LANDINGS_INIT. */
struct landings {
    struct landing_slot *slots;
    uint32_t count, capacity;
    uint32_t first_free, last_free; /* a queue, so that slots are reused as late as possible */
    bool placed;                    /* somebody else numbers them */
    uint32_t newest;                /* of those, the last generation */
};
#define LANDINGS_INIT ((struct landings){.first_free = UINT32_MAX, .last_free = UINT32_MAX})

void landings_deinit(struct landings *landings);
/* Returns 0, -ENOSPC (more than 2^24) or -ENOMEM. */
int landings_add(struct landings *landings, void *landing, uint32_t *ret_index,
                 uint32_t *ret_generation);
/* Of an owner for whom somebody else numbers them, and who so never calls landings_add(): at this
 * index, which is free (-EEXIST). Generations only increase, by less than 2^31 each. */
int landings_place(struct landings *landings, void *landing, uint32_t index, uint32_t generation);
/* Whether one with this generation is still to be placed. */
static inline bool landings_await(const struct landings *landings, uint32_t generation)
{
    return (int32_t)(generation - landings->newest) > 0;
}
void landings_remove(struct landings *landings, uint32_t index);
/* NULL: the numbers are not those of a landing, or it was removed. */
static inline void *landings_find(const struct landings *landings, uint32_t index,
                                  uint32_t generation)
{
    if (index >= landings->count || landings->slots[index].generation != generation)
        return 0;
    return landings->slots[index].landing;
}
