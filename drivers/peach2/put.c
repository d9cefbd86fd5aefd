/* Puts, compiled once where the hardware supports their layouts. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "drivers/peach2/peach2.h"

/* Whether the whole target is in the peer's window: hostile offsets must not lead to other
 * nodes. */
static bool lands_at_peer(const struct blob *blob, const struct layout *layout)
{
    const uint64_t first = blob->bus + (uint64_t)layout->lower_bytes,
                   end = blob->bus + (uint64_t)layout->upper_bytes;
    return first < end && end <= PEACH2_OFFSET_MASK + 1;
}

static int read_blob(const struct driver_put_args *args, struct blob *ret_blob)
{
    const struct peer *peer = (const struct peer *)args->peer;
    struct blob blob;
    if (args->landing_bytes != sizeof(blob))
        return -EINVAL;
    memcpy(&blob, args->landing, sizeof(blob));
    if (blob.magic != BLOB_MAGIC)
        return -EINVAL;
    if (blob.cookie != peer->address.cookie)
        return -ESTALE;
    if ((!args->parts && blob.size_bytes != (args->region ? args->layout->size_bytes : 0)) ||
        (blob.size_bytes > 0 && args->target_layout->size_bytes != blob.size_bytes))
        return -EMSGSIZE;
    if (blob.size_bytes > 0 && !lands_at_peer(&blob, args->target_layout))
        return -EINVAL;
    *ret_blob = blob;
    return 0;
}

static struct peach2_descriptor *slot_of(struct peach2 *peach2, struct put *put, uint32_t index)
{
    if (put->fetch == PEACH2_FETCH_REGISTERS)
        return &put->alone;
    return put->fetch == PEACH2_FETCH_INTERNAL
               ? &peach2->internal_descriptors[put->first_slot + index]
               : &peach2->host_descriptors[put->first_slot + index];
}

static uint64_t slot_name(const struct peach2 *peach2, const struct put *put, uint32_t index)
{
    uint32_t slot = put->first_slot + index;
    return put->fetch == PEACH2_FETCH_INTERNAL
               ? slot
               : peach2->arena_bus +
                     (uint64_t)((const uint8_t *)&peach2->host_descriptors[slot] - peach2->arena);
}

/* Internal memory is fetched faster, but long chains would use up the slots of many short ones. A
 * single descriptor needs no slot: it is one cache line, stored at each start. */
static int place_chain(struct peach2 *peach2, struct put *put, struct peach2_descriptor *chain,
                       uint32_t count)
{
    int r = -ENOSPC;
    if (count == 1) {
        put->fetch = PEACH2_FETCH_REGISTERS;
        put->slot_count = 1;
        put->alone = chain[0];
        return 0;
    }
    put->fetch = PEACH2_FETCH_INTERNAL;
    if (count <= INTERNAL_CHAIN_MAX)
        r = peach2_slots_take(&peach2->internal_slots, count, &put->first_slot);
    if (r < 0) {
        put->fetch = PEACH2_FETCH_HOST;
        r = peach2_slots_take(&peach2->host_slots, count, &put->first_slot);
    }
    if (r < 0)
        return r;
    put->slot_count = count;
    for (uint32_t i = 0; i < count; i++) {
        chain[i].next = i + 1 < count ? slot_name(peach2, put, i + 1) : 0;
        *slot_of(peach2, put, i) = chain[i];
    }
    if (put->fetch == PEACH2_FETCH_INTERNAL && peach2->device.bar0)
        memcpy(&peach2->device.bar0->descriptors[put->first_slot], chain, count * sizeof(chain[0]));
    return 0;
}

void peach2_put_number(struct peach2 *peach2, struct put *put)
{
    struct peach2_descriptor *last = slot_of(peach2, put, put->slot_count - 1);
    last->notify[0] = peach2_message_put(put);
    if (put->fetch == PEACH2_FETCH_REGISTERS) {
        /* cannot fail: checked by may_send() */
        peach2_channel_register(peach2, &peach2->channels[put->channel], &put->first_slot);
        peach2->device.bar0->channels[put->channel].descriptors[put->first_slot] = *last;
    }
    if (put->fetch == PEACH2_FETCH_INTERNAL)
        peach2->device.bar0->descriptors[put->first_slot + put->slot_count - 1].notify[0] =
            last->notify[0];
}

uint64_t peach2_put_first(const struct peach2 *peach2, const struct put *put)
{
    if (put->fetch == PEACH2_FETCH_REGISTERS)
        return put->first_slot;
    return slot_name(peach2, put, 0);
}

static void end_chain(const struct put *put, struct peach2_descriptor *last)
{
    last->flags =
        PEACH2_END | PEACH2_NOTIFY | PEACH2_ACKNOWLEDGE | (put->notify ? 0 : PEACH2_QUIET);
    last->notify[1] = put->id;
}

static int compile_put(struct peach2 *peach2, const struct driver_put_args *args, struct put *put)
{
    const struct region *region = (const struct region *)args->region;
    uint32_t count = 1;
    struct peach2_descriptor *chain = malloc(PEACH2_CHAIN_MAX * sizeof(chain[0]));
    if (!chain)
        return -ENOMEM;
    int r = 0;
    if (put->kind == PUT_NOTHING)
        chain[0] =
            (struct peach2_descriptor){.destination = peach2_global(put->peer->address.node, 0)};
    else
        r = peach2_compile(args->layout, region->bus + args->offset_bytes, args->target_layout,
                           put->target, chain, PEACH2_CHAIN_MAX, &count);
    if (r == 0) {
        end_chain(put, &chain[count - 1]);
        r = place_chain(peach2, put, chain, count);
    }
    free(chain);
    return r;
}

static void stage_put(const struct peach2 *peach2, const struct driver_put_args *args,
                      struct put *put, uint32_t *ret_descriptors)
{
    const struct region *region = (const struct region *)args->region;
    put->kind = PUT_STAGED;
    put->source_layout = args->layout;
    put->target_layout = args->target_layout;
    put->source = region->base + args->offset_bytes;
    put->window = peach2_stage_uses_window(put, peach2->segment_bytes, ret_descriptors);
}

/* ---- parts ---- */

/* Parts are staged, unless one descriptor can move them. */
static void prepare_parts(const struct peach2 *peach2, const struct driver_put_args *args,
                          struct put *put, uint32_t *ret_descriptors)
{
    struct layout_strided source, target;
    stage_put(peach2, args, put, ret_descriptors);
    put->window = true;
    put->fetch = PEACH2_FETCH_REGISTERS;
    put->flat = layout_as_strided(args->layout, &source) && source.count == 1 &&
                layout_as_strided(args->target_layout, &target) && target.count == 1;
    if (!put->flat)
        return;
    put->flat_source = ((const struct region *)args->region)->bus + args->offset_bytes +
                       (uint64_t)source.offset_bytes;
    put->flat_target = put->target + (uint64_t)target.offset_bytes;
}

void peach2_put_part(struct driver *driver, struct driver_put *driver_put,
                     const struct driver_part *part)
{
    struct put *put = (struct put *)driver_put;
    const uint64_t source = put->flat_source + part->source_at_bytes,
                   target = put->flat_target + part->target_at_bytes;
    put->size_bytes = part->bytes;
    put->source_at_bytes = part->source_at_bytes;
    put->target_at_bytes = part->target_at_bytes;
    put->kind = PUT_STAGED;
    if (part->bytes > 0 && (!put->flat || part->bytes > PEACH2_LENGTH_MAX ||
                            !peach2_movable(source, target, part->bytes)))
        return;
    put->kind = PUT_CHAIN;
    put->alone =
        (struct peach2_descriptor){.destination = peach2_global(put->peer->address.node, 0)};
    if (part->bytes > 0)
        put->alone = (struct peach2_descriptor){.source = source,
                                                .destination = target,
                                                .length = (uint32_t)part->bytes,
                                                .block = (uint32_t)part->bytes};
    end_chain(put, &put->alone);
}

/* ---- any ---- */

static_assert(sizeof(struct put) > DRIVER_PUT_BYTES, "memory_bytes is the difference");

int peach2_put_prepare(struct driver *driver, const struct driver_put_args *args,
                       struct driver_put **ret_put, struct driver_put_info *ret_info)
{
    struct peach2 *peach2 = peach2_of(driver);
    const struct region *region = (const struct region *)args->region;
    struct blob blob;
    int r = read_blob(args, &blob);
    if (r < 0)
        return r;
    if (region && !layout_fits(args->layout, args->offset_bytes, region->length_bytes))
        return -ERANGE;
    struct put *put = calloc(1, sizeof(*put));
    if (!put)
        return -ENOMEM;
    put->peer = (struct peer *)args->peer;
    put->flow = args->flow;
    put->size_bytes = blob.size_bytes;
    put->id = blob.id;
    put->notify = blob.flags & BLOB_NOTIFY;
    put->target = peach2_global(put->peer->address.node, 0) + blob.bus;
    put->kind = blob.size_bytes > 0 ? PUT_CHAIN : PUT_NOTHING;
    put->recall = blob.recall;
    if (blob.size_bytes > 0) {
        put->target_first = blob.bus + (uint64_t)args->target_layout->lower_bytes;
        put->target_end = blob.bus + (uint64_t)args->target_layout->upper_bytes;
    }
    uint32_t descriptors = 0;
    if (peach2_recalled_already(peach2, put)) {
        r = -ESTALE;
    } else if (args->parts) {
        prepare_parts(peach2, args, put, &descriptors);
    } else {
        r = compile_put(peach2, args, put);
        descriptors = put->slot_count;
    }
    if (r < 0 && r != -ENOMEM && r != -ESTALE && put->kind == PUT_CHAIN) {
        stage_put(peach2, args, put, &descriptors);
        r = 0;
    }
    if (r < 0) {
        free(put);
        return r;
    }
    peach2_recalled_add(peach2, put);
    *ret_put = (struct driver_put *)put;
    *ret_info = (struct driver_put_info){.descriptors = descriptors,
                                         .gathered = put->kind == PUT_STAGED,
                                         .memory_bytes = sizeof(*put) - DRIVER_PUT_BYTES};
    return 0;
}

void peach2_put_release(struct driver *driver, struct driver_put *driver_put)
{
    struct peach2 *peach2 = peach2_of(driver);
    struct put *put = (struct put *)driver_put;
    if (!put)
        return;
    assert(put->state == PUT_IDLE);
    peach2_recalled_remove(put);
    if (put->slot_count > 0 && put->fetch != PEACH2_FETCH_REGISTERS)
        peach2_slots_give(put->fetch == PEACH2_FETCH_INTERNAL ? &peach2->internal_slots
                                                              : &peach2->host_slots,
                          put->first_slot, put->slot_count);
    free(put);
}

int peach2_put_post(struct driver *driver, struct driver_put *driver_put, struct driver_op *op)
{
    struct peach2 *peach2 = peach2_of(driver);
    struct put *put = (struct put *)driver_put;
    struct peer *peer = put->peer;
    peach2_peer_link(peach2, peer);
    if (peer->error < 0)
        return peer->error;
    if (put->stale)
        return -ESTALE;
    op->posted_ns = 0;
    put->op = op;
    put->state = PUT_QUEUED;
    put->staging = false;
    put->channel = peach2_channel_choose(peach2, put);
    peach2_stream_add(peach2, put);
    peach2_channel_pump(peach2, peer);
    return 0;
}

void peach2_put_done(struct peach2 *peach2, struct put *put, int status)
{
    peach2_stream_remove(peach2, put);
    struct driver_op *op = put->op;
    put->op = NULL;
    put->state = PUT_IDLE;
    op->done(op, status);
}
