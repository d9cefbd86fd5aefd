/* Puts of the shm driver: copied immediately if short, or in pieces if other puts would have to
 * wait. */
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "drivers/shm/share.h"
#include "drivers/shm/shm.h"

static int read_blob(const struct shm_driver *shm, const struct driver_put_args *args,
                     struct shm_blob *ret_blob)
{
    struct shm_blob blob;
    if (args->landing_bytes != sizeof(blob))
        return -EINVAL;
    memcpy(&blob, args->landing, sizeof(blob));
    if (blob.cookie != shm->cookie)
        return -ESTALE;
    if ((!args->parts && blob.size_bytes != (args->region ? args->layout->size_bytes : 0)) ||
        (blob.address != 0 && args->target_layout->size_bytes != blob.size_bytes))
        return -EMSGSIZE;
    *ret_blob = blob;
    return 0;
}

static bool is_flat(const struct layout *layout, int64_t *ret_offset_bytes)
{
    struct layout_strided strided;
    if (!layout_as_strided(layout, &strided) || strided.count != 1)
        return false;
    *ret_offset_bytes = strided.offset_bytes;
    return true;
}

static bool streams(const struct driver_put_args *args)
{
    return !args->parts && args->combine == OPERATOR_REPLACE &&
           copy_streams(args->target_layout, args->layout);
}

/* Of a put whose starts move parts, the contiguous side is as long as the other. */
static int compile_parts(const struct layout *target, const struct layout *source,
                         struct copy_program **ret_program)
{
    int64_t offset;
    const bool target_is_flat = is_flat(target, &offset), source_is_flat = is_flat(source, &offset);
    struct layout *flat = NULL;
    int r = 0;
    if (target_is_flat || source_is_flat)
        r = layout_contiguous(source_is_flat ? target->size_bytes : source->size_bytes, &flat);
    if (r == 0)
        r = copy_program_new_run(target_is_flat ? flat : target, source_is_flat ? flat : source,
                                 ret_program);
    free(flat);
    return r;
}

static int compile(const struct driver_put_args *args, struct copy_program **ret_program)
{
    return args->parts ? compile_parts(args->target_layout, args->layout, ret_program)
                       : copy_program_new_run(args->target_layout, args->layout, ret_program);
}

int shm_put_compile(const struct driver_put_args *args, struct copy_program **ret_program)
{
    int64_t target, source;
    *ret_program = NULL;
    if (!args->layout || args->layout->size_bytes == 0 || args->combine != OPERATOR_REPLACE)
        return 0;
    if (is_flat(args->target_layout, &target) && is_flat(args->layout, &source) && !streams(args))
        return 0;
    return compile(args, ret_program);
}

static int take_program(struct shm_put *put, const struct driver_put_args *args)
{
    if (!args->program || !*args->program)
        return compile(args, &put->program);
    put->program = *args->program;
    *args->program = NULL;
    return 0;
}

/* Two contiguous layouts need no copy program, unless streaming stores are better. */
static int choose_kind(struct shm_put *put, const struct driver_put_args *args)
{
    int64_t target, source;
    const bool combine = args->combine != OPERATOR_REPLACE;
    if (put->size_bytes == 0)
        return 0;
    put->stream = streams(args);
    if (put->stream || !is_flat(args->target_layout, &target) || !is_flat(args->layout, &source)) {
        put->kind = SHM_PROGRAM;
        return combine ? -EINVAL : take_program(put, args);
    }
    put->kind = put->size_bytes == sizeof(uint64_t) ? SHM_WORD : SHM_BYTES;
    if (combine) {
        put->kind = SHM_COMBINE;
        put->combine = combine_choose(args->combine, args->type);
    }
    put->target += target;
    put->source += source;
    return 0;
}

/* Of a put whose starts move parts: two contiguous layouts are SHM_BYTES; otherwise a program
 * copies. */
static int choose_parts(struct shm_put *put, const struct driver_put_args *args)
{
    int64_t target = 0, source = 0;
    const bool target_is_flat = is_flat(args->target_layout, &target),
               source_is_flat = is_flat(args->layout, &source);
    if (target_is_flat)
        put->base_target += target;
    if (source_is_flat)
        put->base_source += source;
    put->kind = target_is_flat && source_is_flat ? SHM_BYTES : SHM_PROGRAM;
    put->by_target = source_is_flat;
    return put->kind == SHM_BYTES ? 0 : take_program(put, args);
}

void shm_put_part(struct driver *driver, struct driver_put *driver_put,
                  const struct driver_part *part)
{
    struct shm_put *put = (struct shm_put *)driver_put;
    const uint64_t from = put->kind == SHM_BYTES ? 0
                          : put->by_target       ? part->target_at_bytes
                                                 : part->source_at_bytes;
    put->from_bytes = from;
    put->target = put->base_target + (part->target_at_bytes - from);
    put->source = put->base_source + (part->source_at_bytes - from);
    put->size_bytes = part->bytes;
    put->slow = put->detour =
        put->deferred || put->dmabuf || part->bytes > ((struct shm_driver *)driver)->segment_bytes;
}

int shm_put_prepare(struct driver *driver, const struct driver_put_args *args,
                    struct driver_put **ret_put, struct driver_put_info *ret_info)
{
    const struct mapped *region = (const struct mapped *)args->region;
    struct shm_blob blob;
    int r = read_blob((struct shm_driver *)driver, args, &blob);
    if (r < 0)
        return r;
    if (region && !layout_fits(args->layout, args->offset_bytes, region->length_bytes))
        return -ERANGE;

    struct shm_put *put = malloc(sizeof(*put));
    if (!put)
        return -ENOMEM;
    *put = (struct shm_put){
        .size_bytes = blob.size_bytes,
        .notify = blob.notify,
        .token = blob.token,
        .peer = (struct shm_peer *)args->peer,
        .queued = {.peer = args->peer, .flow = args->flow},
    };
    if (blob.size_bytes > 0) {
        put->target = (uint8_t *)(uintptr_t)blob.address;
        put->source = region->base + args->offset_bytes;
        put->base_target = put->target;
        put->base_source = put->source;
    }
    put->dmabuf = blob.dmabuf || (region && region->dmabuf);
    put->slow = put->detour =
        put->dmabuf || put->size_bytes > ((struct shm_driver *)driver)->segment_bytes;
    r = args->parts ? choose_parts(put, args) : choose_kind(put, args);
    if (r < 0) {
        free(put);
        return r;
    }
    *ret_put = (struct driver_put *)put;
    *ret_info = (struct driver_put_info){.descriptors = 1,
                                         .memory_bytes = copy_program_bytes(put->program)};
    return 0;
}

void shm_put_release(struct driver *driver, struct driver_put *driver_put)
{
    struct shm_put *put = (struct shm_put *)driver_put;
    shm_share_free(put);
    copy_program_free(put->program);
    free(put);
}

void shm_copy(const struct shm_put *put, uint64_t position, uint64_t length)
{
    switch (put->kind) {
    case SHM_NOTHING:
        break;
    case SHM_WORD:
        memcpy(put->target, put->source, sizeof(uint64_t));
        break;
    case SHM_BYTES:
        memmove(put->target + position, put->source + position, length);
        break;
    case SHM_PROGRAM:
        if (put->stream && !put->peer->self)
            copy_program_run_stream(put->program, put->target, put->source, position, length);
        else
            copy_program_run(put->program, put->target, put->source, position, length);
        break;
    case SHM_COMBINE:
        put->combine(put->target + position, put->source + position, length);
        break;
    }
}

/* Its own stores and loads do not pass those to write-combined memory. */
static void copy(const struct shm_put *put, uint64_t position, uint64_t length)
{
    if (put->dmabuf)
        atomic_thread_fence(memory_order_seq_cst);
    shm_copy(put, position, length);
    if (put->dmabuf)
        atomic_thread_fence(memory_order_seq_cst);
}

static inline void notify(struct shm_driver *shm, const struct shm_put *put)
{
    if (put->notify)
        shm->driver.events.notified(shm->driver.events.context, put->token);
}

static inline void complete(struct shm_driver *shm, const struct shm_put *put, struct driver_op *op)
{
    notify(shm, put);
    op->done(op, 0);
}

static void enqueue(struct shm_driver *shm, struct shm_put *put, struct driver_op *op)
{
    put->op = op;
    put->peer->waiting++;
    put->peer->detour = true;
    flows_push(&shm->flows, &put->queued);
}

/* Copies a put immediately. 1 (complete), 0 (not possible now) or a negative errno. */
static int copy_at_once(struct shm_driver *shm, struct shm_put *put)
{
    struct shm_peer *peer = put->peer;
    if (put->share)
        return shm_share_advance(shm, put);
    if (!put->apart) {
        if (!shm_lane_drained(peer))
            return 0;
        peer->detour = peer->waiting > 0;
    }
    copy(put, put->from_bytes, put->size_bytes);
    notify(shm, put);
    return 1;
}

/* Before the next progress(). */
static inline bool may_copy_at_once(const struct shm_driver *shm, const struct shm_put *put)
{
    const uint64_t most = flows_shared(&shm->flows) ? shm->shared_max : shm->at_once_max;
    return put->size_bytes <= most && shm->at_once <= most - put->size_bytes;
}

static inline void note_copied(struct shm_driver *shm, const struct shm_put *put)
{
    shm->at_once += put->size_bytes + SHM_PUT_COST;
    flows_note(&shm->flows, put->queued.flow, put->size_bytes + SHM_PUT_COST);
}

/* Posts a put that may not be a simple copy: it is long, other puts precede it, or the receiver
 * shares its copying. */
static __attribute__((noinline)) int post_detour(struct shm_driver *shm, struct shm_put *put,
                                                 struct driver_op *op)
{
    int r = 0;
    if (put->peer->error < 0)
        return put->peer->error;
    put->position_bytes = put->from_bytes;
    if (!put->deferred && put->size_bytes <= shm->segment_bytes && may_copy_at_once(shm, put) &&
        !flows_busy(&shm->flows, &put->queued))
        r = copy_at_once(shm, put);
    if (r == 0) {
        enqueue(shm, put, op);
    } else if (r > 0) {
        note_copied(shm, put);
        op->done(op, 0);
    }
    return r < 0 ? r : 0;
}

int shm_put_post(struct driver *driver, struct driver_put *driver_put, struct driver_op *op)
{
    struct shm_driver *shm = (struct shm_driver *)driver;
    struct shm_put *put = (struct shm_put *)driver_put;

    op->posted_ns = 0;
    if (__builtin_expect(put->detour || put->peer->detour || !may_copy_at_once(shm, put), 0))
        return post_detour(shm, put, op);
    note_copied(shm, put);
    if (put->kind == SHM_WORD)
        memcpy(put->target, put->source, sizeof(uint64_t));
    else
        shm_copy(put, put->from_bytes, put->size_bytes);
    complete(shm, put, op);
    return 0;
}

/* Removes a put from the queue; false if it was not queued. */
static bool leave_queue(struct shm_driver *shm, struct shm_put *put)
{
    struct shm_peer *peer = put->peer;
    if (!flows_remove(&shm->flows, &put->queued))
        return false;
    if (--peer->waiting == 0)
        peer->detour = peer->error < 0 || (peer->lane && peer->lane->next != peer->lane->head);
    return true;
}

static uint64_t piece_max(const struct shm_driver *shm)
{
    return flows_shared(&shm->flows) && shm->shared_max < shm->piece_bytes ? shm->shared_max
                                                                           : shm->piece_bytes;
}

/* Copies the next piece. 1 (that was the last), 0 (not the last) or a negative errno. */
static int copy_piece(struct shm_driver *shm, struct shm_put *put)
{
    if (put->share)
        return shm_share_advance(shm, put);
    if (put->position_bytes == put->from_bytes && !shm_lane_drained(put->peer))
        return 0;
    const uint64_t left = put->from_bytes + put->size_bytes - put->position_bytes,
                   most = piece_max(shm), piece = left < most ? left : most;
    copy(put, put->position_bytes, piece);
    put->position_bytes += piece;
    return piece == left;
}

static void spend(struct shm_driver *shm, const struct shm_put *put, uint64_t bytes)
{
    flows_note(&shm->flows, put->queued.flow, bytes);
    flows_spend(&shm->flows, bytes);
}

/* Copies one piece of the next put. Returns the bytes copied, plus 1 if the put is done. */
static uint64_t move_piece(struct shm_driver *shm)
{
    struct shm_put *put =
        (struct shm_put *)((char *)flows_next(&shm->flows) - offsetof(struct shm_put, queued));
    const uint64_t before = put->position_bytes;
    const int error = put->peer->error < 0 ? put->peer->error : copy_piece(shm, put);
    const uint64_t moved = put->position_bytes - before;

    if (error == 0 && moved == 0)
        flows_turn(&shm->flows);
    else
        spend(shm, put, moved + SHM_PUT_COST);
    if (error == 0)
        return moved;
    leave_queue(shm, put);
    if (put->share)
        shm_share_end(put->share);
    /* last, because done() may post or release the put */
    if (error < 0)
        put->op->done(put->op, error);
    else if (put->share)
        put->op->done(put->op, 0); /* already notified */
    else
        complete(shm, put, put->op);
    return moved + 1;
}

void shm_put_cancel(struct driver *driver, struct driver_put *driver_put, int error)
{
    struct shm_put *put = (struct shm_put *)driver_put;
    if (!leave_queue((struct shm_driver *)driver, put))
        return;
    if (put->share)
        shm_share_end(put->share);
    put->op->done(put->op, error);
}

/* At most one long piece per call, so that the caller can check for new work soon. */
int shm_progress(struct driver *driver, unsigned budget)
{
    struct shm_driver *shm = (struct shm_driver *)driver;
    const uint64_t most = piece_max(shm);
    uint64_t bytes = 0;
    unsigned moved = 0;
    shm->at_once = 0;
    for (unsigned tries = 0; tries < budget && bytes < most && flows_next(&shm->flows); tries++) {
        const uint64_t more = move_piece(shm);
        bytes += more;
        moved += more > 0;
    }
    return (int)moved;
}

/* Only puts in the lane complete locally before they complete at the receiver. */
int shm_peer_flush(struct driver *driver, struct driver_peer *driver_peer, struct driver_op *op)
{
    struct shm_peer *peer = (struct shm_peer *)driver_peer;
    if (peer->error < 0)
        return peer->error;
    if (!shm_lane_drained(peer))
        return -EAGAIN;
    op->done(op, 0);
    return 0;
}
