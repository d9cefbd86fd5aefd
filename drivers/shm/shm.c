/*
 * The shm driver: regions are memory mapped in this process, and a put is a copy. A landing is
 * valid only in the driver instance that made it and its branches; the blob of another instance is
 * -ESTALE.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "drivers/shm/shm.h"
#include "drivers/table.h"

static int shm_probe(const struct driver_config *config, struct driver_caps *ret_caps)
{
    *ret_caps = (struct driver_caps){
        .same_node = true,
        .ordered = true,
    };
    snprintf(ret_caps->detail, sizeof(ret_caps->detail), "load and store");
    return 0;
}

/* Elements of any type. */
static uint64_t whole(uint64_t bytes)
{
    return (bytes + OPERATOR_BYTES_MAX - 1) & ~(uint64_t)(OPERATOR_BYTES_MAX - 1);
}

static int shm_open_driver(const struct driver_config *config, const struct driver_events *events,
                           struct driver **ret_driver)
{
    uint64_t cookie;
    if (getrandom(&cookie, sizeof(cookie), 0) != sizeof(cookie))
        return -EIO;
    struct shm_driver *shm = calloc(1, sizeof(*shm));
    if (!shm)
        return -ENOMEM;
    shm->driver = (struct driver){.ops = &shm_driver_ops, .events = *events};
    shm->cookie = cookie;
    shm->piece_bytes = whole(config->segment_bytes > 0 ? config->segment_bytes : SHM_PIECE_BYTES);
    shm->segment_bytes = shm->at_once_max = shm->shared_max = UINT64_MAX;
    if (config->segment_bytes > 0) {
        shm->segment_bytes = config->segment_bytes;
        shm->at_once_max = config->segment_bytes * SHM_AT_ONCE_SEGMENTS;
        shm->shared_max = shm->piece_bytes < SHM_SHARED_BYTES ? shm->piece_bytes : SHM_SHARED_BYTES;
        shm->flows.turn_bytes = (uint32_t)shm->shared_max;
    }
    *ret_driver = &shm->driver;
    return 0;
}

/* Landings of the instance are valid in it. */
static int shm_branch(struct driver *driver, const struct driver_events *events,
                      struct driver **ret_branch)
{
    const struct shm_driver *of = (const struct shm_driver *)driver;
    struct shm_driver *shm = calloc(1, sizeof(*shm));
    if (!shm)
        return -ENOMEM;
    *shm = (struct shm_driver){.driver = {.ops = &shm_driver_ops, .events = *events},
                               .cookie = of->cookie,
                               .piece_bytes = of->piece_bytes,
                               .shared_max = of->shared_max,
                               .segment_bytes = of->segment_bytes,
                               .at_once_max = of->at_once_max,
                               .flows.turn_bytes = of->flows.turn_bytes};
    *ret_branch = &shm->driver;
    return 0;
}

static void shm_close(struct driver *driver)
{
    struct shm_driver *shm = (struct shm_driver *)driver;
    assert(!flows_next(&shm->flows));
    free(shm);
}

/* Empty: both ends are in this process. */
static int shm_address(struct driver *driver, void *ret_address)
{
    return 0;
}

static int shm_peer_connect(struct driver *driver, const void *address, size_t address_bytes,
                            struct driver_peer **ret_peer, void *ret_offer, size_t *ret_offer_bytes)
{
    struct shm_peer *peer = calloc(1, sizeof(*peer));
    if (!peer)
        return -ENOMEM;
    *ret_peer = (struct driver_peer *)peer;
    *ret_offer_bytes = 0;
    return 0;
}

static void shm_peer_disconnect(struct driver *driver, struct driver_peer *driver_peer)
{
    struct shm_peer *peer = (struct shm_peer *)driver_peer;
    assert(peer->waiting == 0);
    free(peer);
}

static void shm_peer_fail(struct driver *driver, struct driver_peer *driver_peer, int error)
{
    struct shm_peer *peer = (struct shm_peer *)driver_peer;
    peer->error = error;
    peer->detour = true;
}

static int shm_landing_new(struct driver *driver, const struct driver_landing_args *args,
                           struct driver_landing **ret_landing, void *ret_blob,
                           size_t *ret_blob_bytes)
{
    const struct shm_driver *shm = (const struct shm_driver *)driver;
    const struct mapped *region = (const struct mapped *)args->region;
    struct shm_blob blob = {
        .cookie = shm->cookie,
        .token = args->token,
        .notify = args->notify,
    };
    if (region) {
        if (!layout_fits(args->layout, args->offset_bytes, region->length_bytes))
            return -ERANGE;
        blob.address = (uint64_t)(uintptr_t)(region->base + args->offset_bytes);
        blob.size_bytes = args->layout->size_bytes;
        blob.dmabuf = region->dmabuf;
    }
    memcpy(ret_blob, &blob, sizeof(blob));
    *ret_blob_bytes = sizeof(blob);
    *ret_landing = (struct driver_landing *)driver; /* the blob has all the data */
    return 0;
}

static uint64_t shm_landing_bytes(const struct driver_landing *landing)
{
    return 0; /* the sender has the layouts */
}

static void shm_landing_free(struct driver *driver, struct driver_landing *landing)
{
}

/* Only the caller adds work. */
static int shm_event_fd(struct driver *driver)
{
    return -1;
}

static int shm_arm(struct driver *driver)
{
    return flows_next(&((struct shm_driver *)driver)->flows) ? -EAGAIN : 0;
}

const struct driver_ops shm_driver_ops = {
    .name = "shm",
    .id = DRIVER_SHM,
    .probe = shm_probe,
    .open = shm_open_driver,
    .branch = shm_branch,
    .close = shm_close,
    .address = shm_address,
    .region_add = mapped_add,
    .region_remove = mapped_remove,
    .peer_connect = shm_peer_connect,
    .peer_disconnect = shm_peer_disconnect,
    .peer_fail = shm_peer_fail,
    .landing_new = shm_landing_new,
    .landing_free = shm_landing_free,
    .landing_bytes = shm_landing_bytes,
    .put_compile = shm_put_compile,
    .put_prepare = shm_put_prepare,
    .put_release = shm_put_release,
    .put_part = shm_put_part,
    .put_post = shm_put_post,
    .peer_flush = shm_peer_flush,
    .progress = shm_progress,
    .event_fd = shm_event_fd,
    .arm = shm_arm,
};
