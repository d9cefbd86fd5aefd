/* The tables of notices of this process, and the handles of those of others. */
#include <stdlib.h>

#include "client/compat/notice.h"

enum {
    PLACES_MAX = 16 * 1024,
    PLACES_MIN = 256,
    PLACES_OF_ALL = 128 * 1024, /* limits the memory in large jobs */
};

/* One region: notices by sender and place, then reports of what was taken, by receiver and
 * place. */
static struct {
    struct tca_region *region;
    struct tca_handle *all; /* of this region of every rank */
    uint32_t places;
} tables;

static uint64_t notices_bytes(void)
{
    return (uint64_t)compat.size * tables.places * sizeof(struct notice);
}

static uint64_t taken_bytes(void)
{
    return (uint64_t)compat.size * tables.places * sizeof(uint64_t);
}

static uint32_t choose_places(void)
{
    uint32_t places = PLACES_OF_ALL / compat.size;
    return places > PLACES_MAX ? PLACES_MAX : places < PLACES_MIN ? PLACES_MIN : places;
}

tcaresult notices_open(void)
{
    struct tca_handle own;
    tables.places = choose_places();
    free(tables.all);
    tables.all = calloc(compat.size, sizeof(*tables.all));
    if (!tables.all)
        return compat_fail(TCA_ERROR_OUT_OF_MEMORY, "out of memory for the handles of %u processes",
                           compat.size);
    int r = tca_region_alloc(compat.session, notices_bytes() + taken_bytes(), &tables.region);
    if (r == 0)
        r = tca_region_handle(tables.region, 0, TCA_ALL, &own);
    if (r == 0)
        r = tca_allgather(compat.session, &own, sizeof(own), tables.all, TCA_DEFAULT);
    return r < 0 ? compat_fail_errno(r, "tcaInit: memory for notifications") : TCA_SUCCESS;
}

uint32_t notices_per_process(void)
{
    return tables.places;
}

struct notice *notices_from(uint32_t rank)
{
    struct notice *notices = tca_region_address(tables.region);
    return notices + (size_t)rank * tables.places;
}

const _Atomic uint64_t *taken_at(uint32_t rank)
{
    const uint8_t *base = tca_region_address(tables.region);
    return (const _Atomic uint64_t *)(base + taken_offset(rank));
}

struct tca_handle notices_at(uint32_t rank)
{
    return tables.all[rank];
}

uint64_t taken_offset(uint32_t rank_of_receiver)
{
    return notices_bytes() + (uint64_t)rank_of_receiver * tables.places * sizeof(uint64_t);
}
