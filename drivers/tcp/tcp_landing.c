/* Where puts land. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "drivers/tcp/adopt.h"
#include "drivers/tcp/tcp.h"

/* Without a number. */
static int make(const struct driver_landing_args *args, struct tcp_landing **ret_landing)
{
    const struct mapped *region = (const struct mapped *)args->region;
    struct tcp_address from = {0};
    if (region && !layout_fits(args->layout, args->offset_bytes, region->length_bytes))
        return -ERANGE;
    if (args->from && args->from_bytes != sizeof(from))
        return -EINVAL;
    if (args->from)
        memcpy(&from, args->from, sizeof(from));
    struct tcp_landing *landing = calloc(1, sizeof(*landing));
    if (!landing)
        return -ENOMEM;
    landing->notify = args->notify;
    landing->token = args->token;
    landing->grant = args->grant;
    landing->from_one = args->from != NULL;
    landing->from = from.id;
    int r = region ? packed_target_init(&landing->target, region->base + args->offset_bytes,
                                        args->layout, args->program)
                   : 0;
    if (r < 0) {
        free(landing);
        return r;
    }
    *ret_landing = landing;
    return 0;
}

static void unmake(struct tcp_landing *landing)
{
    packed_deinit(&landing->target);
    free(landing);
}

static size_t describe(uint32_t index, uint32_t generation, uint64_t size_bytes, struct tcp_id id,
                       void *ret_blob)
{
    const struct tcp_blob blob = {
        .magic = TCP_BLOB_MAGIC,
        .landing = index,
        .generation = generation,
        .size_bytes = size_bytes,
        .id = id,
    };
    memcpy(ret_blob, &blob, sizeof(blob));
    return sizeof(blob);
}

int tcp_landing_new(struct driver *driver, const struct driver_landing_args *args,
                    struct driver_landing **ret_landing, void *ret_blob, size_t *ret_blob_bytes)
{
    struct tcp_driver *tcp = tcp_of(driver);
    struct tcp_landing *landing;
    int r = make(args, &landing);
    if (r < 0)
        return r;
    r = landings_add(&tcp->landings, landing, &landing->index, &landing->generation);
    if (r < 0) {
        unmake(landing);
        return r;
    }
    *ret_blob_bytes = describe(landing->index, landing->generation, landing->target.size_bytes,
                               tcp->address.id, ret_blob);
    *ret_landing = (struct driver_landing *)landing;
    return 0;
}

int tcp_seat_landing(struct driver *driver, const struct driver_landing_args *args, uint32_t index,
                     uint32_t generation, struct driver_landing **ret_landing)
{
    struct tcp_driver *tcp = tcp_of(driver);
    struct tcp_landing *landing;
    int r = make(args, &landing);
    if (r < 0)
        return r;
    r = landings_place(&tcp->landings, landing, index, generation);
    if (r < 0) {
        unmake(landing);
        return r;
    }
    landing->index = index;
    tcp_receivers_resume(tcp);
    *ret_landing = (struct driver_landing *)landing;
    return 0;
}

size_t tcp_seat_blob(uint32_t index, uint32_t generation, uint64_t size_bytes,
                     uint8_t ret_blob[LANDING_MAX_BYTES])
{
    return describe(index, generation, size_bytes, (struct tcp_id){{0, 0}}, ret_blob);
}

void tcp_landing_free(struct driver *driver, struct driver_landing *driver_landing)
{
    struct tcp_landing *landing = (struct tcp_landing *)driver_landing;
    landings_remove(&tcp_of(driver)->landings, landing->index);
    unmake(landing);
}

uint64_t tcp_landing_bytes(const struct driver_landing *landing)
{
    return packed_memory_bytes(&((const struct tcp_landing *)landing)->target);
}
