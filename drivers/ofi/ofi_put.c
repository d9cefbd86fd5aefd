/* Puts: prepared, queued at their peer, posted in order. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "drivers/ofi/ofi.h"
#include "proto/wait.h"

static_assert(sizeof(struct ofi_put) <= DRIVER_PUT_BYTES, "what a put is charged as");

static int read_blob(const struct driver_put_args *args, struct ofi_blob *ret_blob)
{
    const struct ofi_peer *peer = (const struct ofi_peer *)args->peer;
    struct ofi_blob blob;
    if (args->landing_bytes != sizeof(blob))
        return -EINVAL;
    memcpy(&blob, args->landing, sizeof(blob));
    if (blob.magic != OFI_BLOB_MAGIC || blob.landing >= (uint64_t)OFI_GENERATIONS << OFI_INDEX_BITS)
        return -EINVAL;
    if (memcmp(&blob.cookie, &peer->address.cookie, sizeof(blob.cookie)) != 0)
        return -ESTALE;
    if (blob.size_bytes != (args->region ? args->layout->size_bytes : 0))
        return -EMSGSIZE;
    *ret_blob = blob;
    return 0;
}

static int set_source(struct ofi_put *put, const struct driver_put_args *args)
{
    const struct ofi_region *region = (const struct ofi_region *)args->region;
    struct layout_strided strided;
    put->size_bytes = args->layout->size_bytes;
    put->descriptor = fi_mr_desc(region->memory.mr);
    put->base = region->memory.base + args->offset_bytes;
    if (layout_as_strided(args->layout, &strided) && strided.count == 1) {
        put->base += strided.offset_bytes;
        return 0;
    }
    struct layout *packed;
    int r = layout_contiguous(put->size_bytes, &packed);
    if (r < 0)
        return r;
    r = copy_program_new(packed, args->layout, &put->packer);
    free(packed);
    return r;
}

/* The last segment is counted where it is all there is. */
static uint32_t descriptors(const struct ofi_driver *ofi, const struct ofi_put *put)
{
    uint64_t most =
        put->packer || put->path == OFI_RING ? ofi->requests.segment_bytes : ofi->write_max_bytes;
    uint64_t count = put->size_bytes == 0 ? 1 : (put->size_bytes - 1) / most + 1;
    return count < UINT32_MAX ? (uint32_t)count : UINT32_MAX;
}

/* ---- what leads to memory that the peer may free ---- */

static void enlist(struct ofi_driver *ofi, struct ofi_put *put)
{
    const struct ofi_link *link = &put->peer->link;
    for (unsigned i = 0; i < OFI_REVOKED_KEPT; i++)
        put->stale |= link->revoked[i] == put->key && put->key != 0;
    put->link_of_key = &ofi->keys[ofi_key_bucket(put->key)];
    put->next_of_key = *put->link_of_key;
    if (put->next_of_key)
        put->next_of_key->link_of_key = &put->next_of_key;
    *put->link_of_key = put;
}

static void delist(struct ofi_put *put)
{
    if (!put->link_of_key)
        return;
    *put->link_of_key = put->next_of_key;
    if (put->next_of_key)
        put->next_of_key->link_of_key = put->link_of_key;
}

/* What is wholly posted has gone, and may have arrived: it ends as it would. */
void ofi_puts_revoke(struct ofi_driver *ofi, const struct ofi_secret *cookie, uint64_t key)
{
    for (struct ofi_put *put = ofi->keys[ofi_key_bucket(key)]; put; put = put->next_of_key) {
        if (put->key != key || !ofi_same(&put->peer->address.cookie, cookie))
            continue;
        put->stale = true;
        if (put->op && !put->posted)
            put->error = -ESTALE;
    }
}

/* ---- */

int ofi_put_prepare(struct driver *driver, const struct driver_put_args *args,
                    struct driver_put **ret_put, struct driver_put_info *ret_info)
{
    const struct ofi_region *region = (const struct ofi_region *)args->region;
    struct ofi_peer *peer = (struct ofi_peer *)args->peer;
    struct ofi_blob blob;
    int r = read_blob(args, &blob);
    if (r < 0)
        return r;
    if (region && !layout_fits(args->layout, args->offset_bytes, region->memory.length_bytes))
        return -ERANGE;

    struct ofi_put *put = calloc(1, sizeof(*put));
    if (!put)
        return -ENOMEM;
    put->peer = peer;
    put->place = (struct flow_put){.peer = peer, .flow = args->flow};
    put->landing = blob.landing;
    put->landing_key = blob.landing_key;
    put->path = OFI_RING;
    if (blob.size_bytes > 0)
        r = set_source(put, args);
    if (r < 0) {
        free(put);
        return r;
    }
    const bool straight = blob.flags & OFI_BLOB_CONTIGUOUS;
    put->copied = put->size_bytes <= OFI_INLINE_BYTES;
    if (straight && !put->copied) {
        put->path = put->packer ? OFI_GATHER : OFI_DIRECT;
        put->address = blob.address;
        put->key = blob.key;
        enlist(ofi_of(driver), put);
    }
    *ret_put = (struct driver_put *)put;
    *ret_info = (struct driver_put_info){
        .descriptors = descriptors(ofi_of(driver), put),
        .gathered = put->packer || (put->size_bytes > 0 && !straight),
        .memory_bytes = copy_program_bytes(put->packer),
    };
    return 0;
}

void ofi_put_release(struct driver *driver, struct driver_put *driver_put)
{
    struct ofi_put *put = (struct ofi_put *)driver_put;
    if (!put)
        return;
    assert(!put->op && put->uncounted == 0 && put->outstanding == 0);
    delist(put);
    copy_program_free(put->packer);
    free(put);
}

void ofi_put_done(struct ofi_put *put, int status)
{
    struct driver_op *op = put->op;
    put->op = NULL;
    op->done(op, status);
}

void ofi_put_settle(struct ofi_put *put)
{
    if (put->op && put->posted && put->outstanding == 0 && put->uncounted == 0)
        ofi_put_done(put, put->error);
}

/* One write more. 1: wholly posted, 0: not, -EAGAIN: not now, else the peer is down. */
static int post(struct ofi_driver *ofi, struct ofi_put *put, unsigned *budget)
{
    if (put->error == 0) {
        int r = ofi_write_next(ofi, put);
        if (r < 0)
            return r;
    } else {
        put->posted = true;
    }
    const unsigned cost = put->packer ? OFI_PACK_COST : 1;
    *budget -= cost < *budget ? cost : *budget;
    return put->posted;
}

int ofi_put_post(struct driver *driver, struct driver_put *driver_put, struct driver_op *op)
{
    struct ofi_driver *ofi = ofi_of(driver);
    struct ofi_put *put = (struct ofi_put *)driver_put;
    struct ofi_peer *peer = put->peer;
    unsigned budget = OFI_POST_BUDGET;
    int r = 0;

    if (peer->error < 0)
        return peer->error;
    if (put->stale)
        return -ESTALE;
    op->posted_ns = 0;
    put->op = op;
    put->posted_bytes = 0;
    put->posted = false;
    put->error = 0;
    if (!flows_busy(&peer->flows, &put->place))
        while (budget > 0 && (r = post(ofi, put, &budget)) == 0)
            ;
    /* Also when all is posted: it waits to be counted. */
    ofi_peer_activate(ofi, peer);
    if (r > 0) {
        ofi_put_settle(put);
        return 0;
    }
    if (r < 0 && r != -EAGAIN)
        ofi_peer_mark_failed(ofi, peer, -EHOSTDOWN);
    flows_push(&peer->flows, &put->place);
    return 0;
}

/* What keeps the peer from going on, of two things: first what only others can end. */
static enum ofi_blocked worse(enum ofi_blocked a, enum ofi_blocked b)
{
    static const unsigned rank[] = {[OFI_BLOCKED_ORDER] = 1,
                                    [OFI_BLOCKED_BUFFERS] = 2,
                                    [OFI_BLOCKED_LINK] = 3,
                                    [OFI_BLOCKED_PROVIDER] = 4};
    return rank[a] > rank[b] ? a : b;
}

/* Wholly posted: it waits no more. */
static void leave(struct ofi_put *put)
{
    flows_remove(&put->peer->flows, &put->place);
    put->op->posted_ns = clock_now_ns();
    ofi_put_settle(put);
}

/* What was lost goes first. */
static int pump_again(struct ofi_driver *ofi, struct ofi_peer *peer, unsigned budget)
{
    int posted = 0;
    while (budget-- > 0 && peer->link.again != peer->link.sent) {
        int r = ofi_write_again(ofi, peer);
        if (r == -EAGAIN)
            break;
        if (r < 0) {
            ofi_peer_mark_failed(ofi, peer, -EHOSTDOWN);
            break;
        }
        posted++;
    }
    return posted;
}

/* A flush waits for the count of what was sent: asks for it, unless the last unit does. */
static enum ofi_blocked pump_ask(struct ofi_driver *ofi, struct ofi_peer *peer)
{
    struct ofi_link *link = &peer->link;
    const bool known = link->counted == link->sent || link->asked_for == link->sent;
    const int r = known ? 0 : ofi_write_ask(ofi, peer);
    link->ask = r < 0;
    if (r == -EAGAIN)
        return peer->blocked;
    if (r < 0)
        ofi_peer_mark_failed(ofi, peer, -EHOSTDOWN);
    return OFI_RUNNING;
}

int ofi_peer_pump(struct ofi_driver *ofi, struct ofi_peer *peer, unsigned budget)
{
    enum ofi_blocked blocked = OFI_RUNNING;
    const struct ofi_put *idle = NULL; /* the first of those since that can do nothing */
    struct ofi_put *put;
    int posted = 0;
    if (peer->link.state == OFI_LINK_READY && peer->link.again != peer->link.sent) {
        peer->blocked = OFI_RUNNING;
        posted = pump_again(ofi, peer, budget);
        if (peer->link.again != peer->link.sent)
            return posted;
    }
    if (peer->link.ask)
        blocked = pump_ask(ofi, peer);
    while (peer->error == 0 && budget > 0 && (put = ofi_put_next(peer)) && put != idle &&
           blocked != OFI_BLOCKED_PROVIDER) {
        int r = post(ofi, put, &budget);
        if (r == -EAGAIN) {
            blocked = worse(blocked, peer->blocked);
            idle = idle ? idle : put;
            flows_turn(&peer->flows);
            continue;
        }
        if (r < 0) {
            ofi_peer_mark_failed(ofi, peer, -EHOSTDOWN);
            return posted;
        }
        posted++;
        idle = NULL;
        blocked = OFI_RUNNING;
        if (r > 0)
            leave(put);
        else
            flows_turn(&peer->flows);
    }
    if (peer->error == 0)
        peer->blocked = blocked;
    return posted;
}
