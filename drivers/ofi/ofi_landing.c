/* Where puts land: a table of slots with generations, so that what comes late for a freed landing
 * is known as such. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "drivers/ofi/ofi.h"

static int grow(struct ofi_landings *landings)
{
    uint32_t capacity = landings->capacity > 0 ? landings->capacity * 2 : 64;
    if (capacity > OFI_LANDINGS_MAX)
        return -ENOSPC;
    struct ofi_landing_entry *entries = realloc(landings->entries, capacity * sizeof(entries[0]));
    if (!entries)
        return -ENOMEM;
    landings->entries = entries;
    landings->capacity = capacity;
    return 0;
}

/* New slots first, while they are cheap; then the one that was freed longest ago. */
static int take_slot(struct ofi_landings *landings, uint32_t *ret_index)
{
    enum { FRESH_MAX = 4096 }; /* unused slots that we make before we use old ones again */
    bool fresh = landings->count < FRESH_MAX || landings->first_free == UINT32_MAX;
    if (!fresh) {
        *ret_index = landings->first_free;
        landings->first_free = landings->entries[*ret_index].next_free;
        if (landings->first_free == UINT32_MAX)
            landings->last_free = UINT32_MAX;
        return 0;
    }
    if (landings->count == landings->capacity) {
        int r = grow(landings);
        if (r < 0)
            return r;
    }
    uint16_t generation;
    int r = ofi_random(&generation, sizeof(generation));
    if (r < 0)
        return r;
    *ret_index = landings->count++;
    landings->entries[*ret_index] =
        (struct ofi_landing_entry){.generation = generation % OFI_GENERATIONS};
    return 0;
}

static void give_slot(struct ofi_landings *landings, uint32_t index)
{
    struct ofi_landing_entry *entry = &landings->entries[index];
    entry->landing = NULL;
    entry->generation = (entry->generation + 1) % OFI_GENERATIONS;
    entry->next_free = UINT32_MAX;
    if (landings->last_free == UINT32_MAX)
        landings->first_free = index;
    else
        landings->entries[landings->last_free].next_free = index;
    landings->last_free = index;
}

struct ofi_landing *ofi_landing_find(const struct ofi_landings *landings, uint32_t id)
{
    uint32_t index = id & (OFI_LANDINGS_MAX - 1);
    if (index >= landings->count)
        return NULL;
    struct ofi_landing *landing = landings->entries[index].landing;
    return landing && landing->id == id ? landing : NULL;
}

static void fill_blob(struct ofi_driver *ofi, const struct driver_landing_args *args,
                      const struct ofi_landing *landing, struct ofi_blob *ret_blob)
{
    struct ofi_region *region = (struct ofi_region *)args->region;
    *ret_blob = (struct ofi_blob){
        .magic = OFI_BLOB_MAGIC,
        .landing = landing->id,
        .cookie = ofi->address.cookie,
        .landing_key = landing->key,
    };
    ret_blob->size_bytes = landing->size_bytes;
    if (landing->size_bytes > 0 && !landing->unpacker) {
        ret_blob->flags |= OFI_BLOB_CONTIGUOUS;
        ret_blob->address = ofi_memory_remote(ofi, &region->memory, landing->base);
        ret_blob->key = fi_mr_key(region->memory.mr);
        region->told = true;
    }
}

static int set_target(struct ofi_landing *landing, const struct driver_landing_args *args)
{
    const struct ofi_region *region = (const struct ofi_region *)args->region;
    struct layout_strided strided;
    landing->base = region->memory.base + args->offset_bytes;
    landing->size_bytes = args->layout->size_bytes;
    if (layout_as_strided(args->layout, &strided) && strided.count == 1) {
        landing->base += strided.offset_bytes;
        return 0;
    }
    struct layout *packed;
    int r = layout_contiguous(landing->size_bytes, &packed);
    if (r < 0)
        return r;
    r = copy_program_new(args->layout, packed, &landing->unpacker);
    free(packed);
    return r;
}

static void landing_free(struct ofi_landing *landing)
{
    copy_program_free(landing->unpacker);
    free(landing);
}

int ofi_landing_new(struct driver *driver, const struct driver_landing_args *args,
                    struct driver_landing **ret_landing, void *ret_blob, size_t *ret_blob_bytes)
{
    struct ofi_driver *ofi = ofi_of(driver);
    const struct ofi_region *region = (const struct ofi_region *)args->region;
    uint32_t index = 0;

    if (region && !layout_fits(args->layout, args->offset_bytes, region->memory.length_bytes))
        return -ERANGE;
    struct ofi_landing *landing = calloc(1, sizeof(*landing));
    if (!landing)
        return -ENOMEM;
    int r = ofi_random(&landing->key, sizeof(landing->key));
    if (r == 0 && region)
        r = set_target(landing, args);
    if (r == 0)
        r = take_slot(&ofi->landings, &index);
    if (r < 0) {
        landing_free(landing);
        return r;
    }
    struct ofi_landing_entry *entry = &ofi->landings.entries[index];
    entry->landing = landing;
    landing->id = ofi_landing_id(index, entry->generation);
    landing->notify = args->notify;
    landing->token = args->token;
    struct ofi_blob blob;
    fill_blob(ofi, args, landing, &blob);
    memcpy(ret_blob, &blob, sizeof(blob));
    *ret_blob_bytes = sizeof(blob);
    *ret_landing = (struct driver_landing *)landing;
    return 0;
}

static_assert(sizeof(struct ofi_landing) + 2 * sizeof(struct ofi_landing_entry) <=
                  DRIVER_LANDING_BYTES,
              "what a landing is charged as");

uint64_t ofi_landing_bytes(const struct driver_landing *driver_landing)
{
    return copy_program_bytes(((const struct ofi_landing *)driver_landing)->unpacker);
}

void ofi_landing_free(struct driver *driver, struct driver_landing *driver_landing)
{
    struct ofi_landing *landing = (struct ofi_landing *)driver_landing;
    give_slot(&ofi_of(driver)->landings, landing->id & (OFI_LANDINGS_MAX - 1));
    landing_free(landing);
}
