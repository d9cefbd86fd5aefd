/* Puts: prepared, queued at their peer, posted in order. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "drivers/ofi/ofi.h"
#include "drivers/puts.h"
#include "proto/list.h"

static_assert(sizeof(struct ofi_put) <= DRIVER_PUT_BYTES, "a put is charged as this");

static int read_blob(const struct driver_put_args *args, struct ofi_blob *ret_blob)
{
    const struct ofi_peer *peer = (const struct ofi_peer *)args->peer;
    int r = puts_read_blob(args, OFI_BLOB_MAGIC, ret_blob, sizeof(*ret_blob));
    if (r == 0 && memcmp(&ret_blob->cookie, &peer->address.cookie, sizeof(ret_blob->cookie)) != 0)
        r = -ESTALE;
    return r < 0 ? r : puts_check_size(args, ret_blob->size_bytes);
}

/* The segment that notifies is not counted, unless it is the only descriptor. */
static uint32_t descriptors(const struct ofi_driver *ofi, const struct ofi_put *put)
{
    const uint64_t most = put->source.program || put->path == OFI_RING ? ofi->requests.segment_bytes
                                                                       : ofi->write_max_bytes;
    const uint64_t count =
        put->source.size_bytes == 0 ? 1 : (put->source.size_bytes - 1) / most + 1;
    return count < UINT32_MAX ? (uint32_t)count : UINT32_MAX;
}

/* ---- puts by the memory key of their target, which the peer may revoke ---- */

static void enlist(struct ofi_driver *ofi, struct ofi_put *put)
{
    const struct ofi_link *link = &put->peer->link;
    for (unsigned i = 0; i < OFI_REVOKED_KEPT; i++)
        put->base.stale |= link->revoked[i] == put->key && put->key != 0;
    LIST_ADD(&ofi->keys[ofi_key_bucket(put->key)], put, next_of_key, link_of_key);
}

static void delist(struct ofi_put *put)
{
    if (put->link_of_key)
        LIST_REMOVE(put, next_of_key, link_of_key);
}

/* A put that is completely posted may have arrived, and completes as usual. */
void ofi_puts_revoke(struct ofi_driver *ofi, const struct ofi_secret *cookie, uint64_t key)
{
    for (struct ofi_put *put = ofi->keys[ofi_key_bucket(key)]; put; put = put->next_of_key) {
        if (put->key != key || !ofi_same(&put->peer->address.cookie, cookie))
            continue;
        put->base.stale = true;
        if (put->base.op && !put->base.made)
            put->base.error = -ESTALE;
    }
}

/* ---- preparing ---- */

static void set_part(struct ofi_put *put, const struct driver_part *part)
{
    put->address -= put->base.shift_bytes;
    window_part(&put->base, part);
    put->address += put->base.shift_bytes;
    put->copied = part->bytes <= OFI_INLINE_BYTES;
    put->path = put->copied || !put->link_of_key ? OFI_RING
                : put->source.program            ? OFI_GATHER
                                                 : OFI_DIRECT;
}

void ofi_put_part(struct driver *driver, struct driver_put *put, const struct driver_part *part)
{
    set_part((struct ofi_put *)put, part);
}

int ofi_put_prepare(struct driver *driver, const struct driver_put_args *args,
                    struct driver_put **ret_put, struct driver_put_info *ret_info)
{
    const struct ofi_region *region = (const struct ofi_region *)args->region;
    struct ofi_peer *peer = (struct ofi_peer *)args->peer;
    struct ofi_blob blob;
    int r = read_blob(args, &blob);
    if (r < 0)
        return r;
    struct ofi_put *put = calloc(1, sizeof(*put));
    r = put ? puts_init(args, region ? region->memory.base : NULL,
                        region ? region->memory.length_bytes : 0, &put->base, &put->source)
            : -ENOMEM;
    if (r < 0) {
        free(put);
        return r;
    }
    const bool packs = put->source.program, direct = blob.flags & OFI_BLOB_CONTIGUOUS;
    put->base.cost = packs ? OFI_PACK_COST : 1;
    put->peer = peer;
    put->descriptor = region ? fi_mr_desc(region->memory.mr) : NULL;
    put->landing = blob.landing;
    put->generation = blob.generation;
    put->landing_key = blob.landing_key;
    if (direct && put->source.size_bytes > OFI_INLINE_BYTES) {
        put->address = blob.address;
        put->key = blob.key;
        enlist(ofi_of(driver), put);
    }
    set_part(put, &(struct driver_part){.bytes = put->source.size_bytes});
    puts_describe(&put->source, descriptors(ofi_of(driver), put),
                  packs || (put->source.size_bytes > 0 && !direct), ret_info);
    *ret_put = (struct driver_put *)put;
    return 0;
}

void ofi_put_release(struct driver *driver, struct driver_put *driver_put)
{
    struct ofi_put *put = (struct ofi_put *)driver_put;
    if (!put)
        return;
    assert(!put->base.op && put->base.pending == 0 && put->outstanding == 0);
    delist(put);
    packed_deinit(&put->source);
    free(put);
}

/* ---- posting ---- */

/* The reason to report of two reasons why a peer is blocked: the one that lasts longer. */
static enum ofi_blocked worse(enum ofi_blocked a, enum ofi_blocked b)
{
    static const unsigned rank[] = {[OFI_BLOCKED_ORDER] = 1,
                                    [OFI_BLOCKED_BUFFERS] = 2,
                                    [OFI_BLOCKED_LINK] = 3,
                                    [OFI_BLOCKED_PROVIDER] = 4};
    return rank[a] > rank[b] ? a : b;
}

/* See window_make. Collects in peer->blocked why puts are blocked. */
static int post_next(struct window_put *base)
{
    struct ofi_put *put = (struct ofi_put *)base;
    struct ofi_peer *peer = put->peer;
    const enum ofi_blocked before = peer->blocked;
    int r = ofi_write_next(peer->ofi, put);
    if (r == 0) {
        peer->blocked = OFI_RUNNING;
        return 0;
    }
    if (r != -EAGAIN) {
        ofi_peer_mark_failed(peer->ofi, peer, -ENETDOWN);
        return r;
    }
    peer->blocked = worse(before, peer->blocked);
    return peer->blocked == OFI_BLOCKED_PROVIDER ? -EBUSY : -EAGAIN;
}

int ofi_put_post(struct driver *driver, struct driver_put *driver_put, struct driver_op *op)
{
    struct ofi_put *put = (struct ofi_put *)driver_put;
    struct ofi_peer *peer = put->peer;
    if (peer->error < 0)
        return peer->error;
    if (put->base.stale)
        return -ESTALE;
    ofi_peer_activate(ofi_of(driver), peer);
    window_post(&peer->window, &put->base, op, OFI_POST_BUDGET, post_next);
    return 0;
}

/* Sends operations again that were lost with a connection, before anything else. */
static int pump_again(struct ofi_driver *ofi, struct ofi_peer *peer, unsigned budget)
{
    int posted = 0;
    peer->blocked = OFI_RUNNING;
    while (budget-- > 0 && peer->link.again != peer->window.made) {
        int r = ofi_write_again(ofi, peer);
        if (r == -EAGAIN)
            break;
        if (r < 0) {
            ofi_peer_mark_failed(ofi, peer, -ENETDOWN);
            break;
        }
        posted++;
    }
    return posted;
}

/* Asks for the count that a flush waits for. */
static void pump_ask(struct ofi_driver *ofi, struct ofi_peer *peer)
{
    const int r = ofi_write_ask(ofi, peer);
    peer->window.ask = r < 0;
    if (r < 0 && r != -EAGAIN)
        ofi_peer_mark_failed(ofi, peer, -ENETDOWN);
}

int ofi_peer_pump(struct ofi_driver *ofi, struct ofi_peer *peer, unsigned budget)
{
    struct ofi_link *link = &peer->link;
    int posted = 0;
    if (link->state == OFI_LINK_READY && link->again != peer->window.made) {
        posted = pump_again(ofi, peer, budget);
        if (link->again != peer->window.made)
            return posted;
    }
    peer->blocked = OFI_RUNNING;
    if (peer->window.ask)
        pump_ask(ofi, peer);
    if (peer->error < 0 || peer->blocked == OFI_BLOCKED_PROVIDER)
        return posted;
    return posted + window_pump(&peer->window, budget, post_next);
}
