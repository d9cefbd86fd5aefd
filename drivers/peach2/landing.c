/* Targets of puts. Each has its own bus address, which is revoked when the landing is freed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "drivers/peach2/peach2.h"

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

/* The nodes that may put into a landing, a bit each. */
static uint32_t putters(const struct peach2 *peach2, const struct driver_landing_args *args)
{
    struct address from = {.node = PEACH2_NODES};
    if (args->from && args->from_bytes == sizeof(from))
        memcpy(&from, args->from, sizeof(from));
    return from.node < peach2->topology.nodes ? UINT32_C(1) << from.node
                                              : (UINT32_C(1) << peach2->topology.nodes) - 1;
}

static void free_landing(struct peach2 *peach2, struct landing *landing)
{
    if (landing->alias)
        peach2_memory_unmap(peach2, landing->alias, landing->nodes);
    free(landing);
}

int peach2_landing_new(struct driver *driver, const struct driver_landing_args *args,
                       struct driver_landing **ret_landing, void *ret_blob, size_t *ret_blob_bytes)
{
    struct peach2 *peach2 = peach2_of(driver);
    const struct region *region = (const struct region *)args->region;
    struct blob blob = {.magic = BLOB_MAGIC,
                        .cookie = peach2->cookie,
                        .flags = args->notify ? BLOB_NOTIFY : 0,
                        .recall = peach2->recall.number};
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
    if (r == 0)
        r = landings_add(&peach2->landings, landing, &landing->index, &landing->generation);
    if (r < 0) {
        free_landing(peach2, landing);
        return r;
    }
    landing->nodes = putters(peach2, args);
    landing->notify = args->notify;
    landing->token = args->token;
    blob.id = (uint64_t)landing->generation << 32 | landing->index;
    memcpy(ret_blob, &blob, sizeof(blob));
    *ret_blob_bytes = sizeof(blob);
    *ret_landing = (struct driver_landing *)landing;
    return 0;
}

static_assert(sizeof(struct landing) + sizeof(struct mapping) + 2 * sizeof(struct span) +
                      2 * sizeof(struct landing_slot) <=
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
    landings_remove(&peach2->landings, landing->index);
    free_landing(peach2, landing);
}

/* Uses the board's general-purpose memory. No landing has this id, so no notification is raised. */
int peach2_scratch_landing(struct driver *driver, struct driver_peer *peer, uint64_t bytes,
                           void *ret_blob)
{
    const struct blob blob = {.magic = BLOB_MAGIC,
                              .cookie = ((const struct peer *)peer)->address.cookie,
                              .bus = PEACH2_INTERNAL | PEACH2_AT_MEMORY,
                              .size_bytes = bytes,
                              .id = UINT64_MAX,
                              .recall = UINT64_MAX};
    if (bytes > PEACH2_INTERNAL_NOTIFY_BYTES)
        return -EMSGSIZE;
    memcpy(ret_blob, &blob, sizeof(blob));
    return sizeof(blob);
}
