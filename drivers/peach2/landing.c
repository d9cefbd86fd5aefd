/* Targets of puts. Each has its own bus address, which is revoked when the landing is freed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "drivers/peach2/peach2.h"

enum { LANDINGS_MAX = 1 << 24, NONE = 0xffffffff };

static int take_slot(struct peach2 *peach2, uint32_t *ret_index)
{
    if (peach2->landing_free != NONE) {
        *ret_index = peach2->landing_free;
        peach2->landing_free = peach2->landings[*ret_index].next_free;
        return 0;
    }
    if (peach2->landing_count == peach2->landing_capacity) {
        uint32_t capacity = peach2->landing_capacity > 0 ? 2 * peach2->landing_capacity : 64;
        if (capacity > LANDINGS_MAX)
            return -ENOSPC;
        struct landing_slot *slots = realloc(peach2->landings, capacity * sizeof(slots[0]));
        if (!slots)
            return -ENOMEM;
        peach2->landings = slots;
        peach2->landing_capacity = capacity;
    }
    struct landing_slot slot = {0};
    if (getrandom(&slot.generation, sizeof(slot.generation), 0) != sizeof(slot.generation))
        return -EIO;
    *ret_index = peach2->landing_count++;
    peach2->landings[*ret_index] = slot;
    return 0;
}

struct landing *peach2_landing_find(const struct peach2 *peach2, uint64_t id)
{
    uint32_t index = (uint32_t)id;
    if (index >= peach2->landing_count)
        return NULL;
    struct landing *landing = peach2->landings[index].landing;
    return landing && landing->id == id ? landing : NULL;
}

static int make_alias(struct peach2 *peach2, const struct driver_landing_args *args,
                      struct landing *landing, uint64_t *ret_base)
{
    const struct region *region = (const struct region *)args->region;
    const struct layout *layout = args->layout;
    uint64_t first = args->offset_bytes + (uint64_t)layout->lower_bytes;
    int r =
        peach2_memory_alias(peach2, region->bus + first,
                            (uint64_t)(layout->upper_bytes - layout->lower_bytes), &landing->alias);
    if (r == 0)
        *ret_base = landing->alias->bus - (uint64_t)layout->lower_bytes;
    return r;
}

int peach2_landing_new(struct driver *driver, const struct driver_landing_args *args,
                       struct driver_landing **ret_landing, void *ret_blob, size_t *ret_blob_bytes)
{
    struct peach2 *peach2 = peach2_of(driver);
    const struct region *region = (const struct region *)args->region;
    struct blob blob = {
        .magic = BLOB_MAGIC, .cookie = peach2->cookie, .flags = args->notify ? BLOB_NOTIFY : 0};
    uint32_t index = 0;
    if (region && !layout_fits(args->layout, args->offset_bytes, region->length_bytes))
        return -ERANGE;
    struct landing *landing = calloc(1, sizeof(*landing));
    if (!landing)
        return -ENOMEM;
    int r = 0;
    if (region && args->layout->size_bytes > 0) {
        blob.size_bytes = args->layout->size_bytes;
        r = make_alias(peach2, args, landing, &blob.bus);
    }
    if (r == 0 && (r = take_slot(peach2, &index)) < 0 && landing->alias)
        peach2_memory_unmap(peach2, landing->alias);
    if (r < 0) {
        free(landing);
        return r;
    }
    struct landing_slot *slot = &peach2->landings[index];
    slot->landing = landing;
    landing->id = (uint64_t)slot->generation << 32 | index;
    landing->notify = args->notify;
    landing->token = args->token;
    blob.id = landing->id;
    memcpy(ret_blob, &blob, sizeof(blob));
    *ret_blob_bytes = sizeof(blob);
    *ret_landing = (struct driver_landing *)landing;
    return 0;
}

static_assert(sizeof(struct landing) + sizeof(struct mapping) + 2 * sizeof(struct landing_slot) <=
                  DRIVER_LANDING_BYTES,
              "a landing is charged as this");

/* Nothing: only the sender uses the layout. */
uint64_t peach2_landing_bytes(const struct driver_landing *landing)
{
    return 0;
}

void peach2_landing_free(struct driver *driver, struct driver_landing *driver_landing)
{
    struct peach2 *peach2 = peach2_of(driver);
    struct landing *landing = (struct landing *)driver_landing;
    struct landing_slot *slot = &peach2->landings[(uint32_t)landing->id];
    slot->landing = NULL;
    slot->generation++;
    slot->next_free = peach2->landing_free;
    peach2->landing_free = (uint32_t)landing->id;
    if (landing->alias)
        peach2_memory_unmap(peach2, landing->alias);
    free(landing);
}

/* Uses the board's general-purpose memory. No landing has this id, so no notification is raised. */
int peach2_scratch_landing(struct driver *driver, struct driver_peer *peer, uint64_t bytes,
                           void *ret_blob)
{
    const struct blob blob = {.magic = BLOB_MAGIC,
                              .cookie = ((const struct peer *)peer)->address.cookie,
                              .bus = PEACH2_INTERNAL | PEACH2_AT_MEMORY,
                              .size_bytes = bytes,
                              .id = UINT64_MAX};
    if (bytes > PEACH2_INTERNAL_NOTIFY_BYTES)
        return -EMSGSIZE;
    memcpy(ret_blob, &blob, sizeof(blob));
    return sizeof(blob);
}
