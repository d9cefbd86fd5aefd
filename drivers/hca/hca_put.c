/* Puts: which path they take, and when they are started. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "drivers/hca/hca.h"
#include "drivers/puts.h"
#include "proto/list.h"

int hca_blob_read(const struct driver_put_args *args, struct hca_blob *ret_blob)
{
    int r = puts_read_blob(args, HCA_BLOB_MAGIC, ret_blob, sizeof(*ret_blob));
    if (r == 0)
        r = puts_check_size(args, ret_blob->size_bytes);
    if (r == 0 && hca_is_recalled((const struct hca_peer *)args->peer, ret_blob->region))
        r = -ESTALE;
    return r;
}

/* Whether the target can be written where it lies. */
static bool choose_target(struct hca_put *put, const struct layout *layout,
                          const struct hca_blob *blob)
{
    struct layout_strided strided;
    put->target_address = blob->address;
    put->rkey = blob->rkey;
    if (!layout || layout->size_bytes != blob->size_bytes || layout->size_bytes <= HCA_COPY_BYTES)
        return false;
    if (layout_as_strided(layout, &strided) && strided.count == 1) {
        put->target_address += (uint64_t)strided.offset_bytes;
        return true;
    }
    put->blocks = layout;
    return layout->size_bytes / HCA_BLOCK_BYTES >= layout->block_count &&
           layout->pair_count <= HCA_BLOCKS_MAX;
}

static uint64_t count_requests(const struct hca_put *put)
{
    const uint64_t size = put->source.size_bytes;
    if (put->writes && put->blocks)
        return put->blocks->block_count;
    const uint64_t most =
        put->writes ? HCA_CHAIN_BYTES : put->peer->segment_bytes - sizeof(struct hca_head);
    return size == 0 ? 1 : (size - 1) / most + 1;
}

void hca_put_choose(struct hca_put *put)
{
    put->copied = put->base.end_bytes - put->base.from_bytes <= HCA_COPY_BYTES;
    put->writes = put->writable && !put->copied;
}

static void set_part(struct hca_put *put, const struct driver_part *part)
{
    window_part(&put->base, part);
    hca_put_choose(put);
}

/* A process may not be allowed to register that much: then the device reads copies. */
static void register_source(struct hca_put *put, struct hca_region *region)
{
    struct hca_driver *hca = put->peer->hca;
    const struct hca_part wanted = {.domain = put->peer->domain};
    if (hca_part_take(hca, region, &wanted, &put->part) < 0)
        return;
    put->region_of = region;
    put->lkey = put->part->mr->lkey;
}

void hca_put_part(struct driver *driver, struct driver_put *put, const struct driver_part *part)
{
    set_part((struct hca_put *)put, part);
}

int hca_put_make(const struct driver_put_args *args, const struct hca_blob *blob,
                 struct hca_put **ret_put, struct driver_put_info *ret_info)
{
    struct hca_region *region = (struct hca_region *)args->region;
    struct hca_put *put = calloc(1, sizeof(*put));
    int r = put ? puts_init(args, region ? region->base : NULL, region ? region->length_bytes : 0,
                            &put->base, &put->source)
                : -ENOMEM;
    if (r < 0) {
        free(put);
        return r;
    }
    put->peer = (struct hca_peer *)args->peer;
    if (region)
        register_source(put, region);
    put->landing = blob->landing;
    put->generation = blob->generation;
    put->region = blob->region;
    put->writable = put->part && (!put->source.program || put->source.blocks) &&
                    choose_target(put, args->target_layout, blob);
    set_part(put, &(struct driver_part){.bytes = put->source.size_bytes});
    puts_describe(&put->source, count_requests(put), !put->writes && put->source.program, ret_info);
    *ret_put = put;
    return 0;
}

int hca_put_prepare(struct driver *driver, const struct driver_put_args *args,
                    struct driver_put **ret_put, struct driver_put_info *ret_info)
{
    struct hca_peer *peer = (struct hca_peer *)args->peer;
    struct hca_blob blob;
    struct hca_put *put;
    if (peer->error < 0 || !peer->answered)
        return peer->error < 0 ? peer->error : -ENOTCONN;
    int r = hca_blob_read(args, &blob);
    if (r == 0 && !hca_same(blob.id, peer->address.id))
        r = -ESTALE;
    if (r == 0)
        r = hca_put_make(args, &blob, &put, ret_info);
    if (r < 0)
        return r;
    if (put->writable)
        LIST_ADD(&peer->writes, put, next, link);
    *ret_put = (struct driver_put *)put;
    return 0;
}
static_assert(sizeof(struct hca_put) <= DRIVER_PUT_BYTES, "a put is charged as this");

void hca_put_release(struct driver *driver, struct driver_put *driver_put)
{
    struct hca_put *put = (struct hca_put *)driver_put;
    if (!put)
        return;
    assert(!put->base.op && put->base.pending == 0);
    if (put->link)
        LIST_REMOVE(put, next, link);
    if (put->part)
        hca_part_give(put->peer->hca, put->region_of, put->part);
    packed_deinit(&put->source);
    free(put);
}

static int make(struct window_put *base)
{
    struct hca_put *put = (struct hca_put *)base;
    if (put->unknown)
        return -EAGAIN;
    if (put->gone)
        return hca_write_stop(put);
    return put->writes ? hca_write(put) : hca_send_piece(put);
}

int hca_put_post(struct driver *driver, struct driver_put *driver_put, struct driver_op *op)
{
    struct hca_put *put = (struct hca_put *)driver_put;
    struct hca_peer *peer = put->peer;
    if (peer->error < 0)
        return peer->error;
    if (put->base.stale || put->gone)
        return -ESTALE;
    window_post(&peer->window, &put->base, op, HCA_WINDOW, make);
    if (window_next_put(&peer->window)) {
        hca_peer_activate(peer);
        hca_alive_watch(peer->hca);
    }
    return 0;
}

int hca_puts_pump(struct hca_peer *peer, unsigned budget)
{
    return window_pump(&peer->window, budget, make);
}
