/* Puts of the shm driver: a copy, at once where it is short, in pieces where others would have to
 * wait for it. */
#include <errno.h>
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
    if (blob.size_bytes != (args->region ? args->layout->size_bytes : 0) ||
        (blob.address != 0 && args->target_layout->size_bytes != blob.size_bytes))
        return -EMSGSIZE;
    *ret_blob = blob;
    return 0;
}

/* Contiguous on both sides needs no program where ordinary stores will do. */
static int choose_kind(struct shm_put *put, const struct driver_put_args *args)
{
    struct layout_strided target, source;
    if (put->size_bytes == 0)
        return 0;
    put->stream = put->size_bytes >= SHM_STREAM_MIN &&
                  put->size_bytes / args->target_layout->block_count >= SHM_STREAM_BLOCK_MIN;
    if (put->stream || !layout_as_strided(args->target_layout, &target) || target.count != 1 ||
        !layout_as_strided(args->layout, &source) || source.count != 1) {
        put->kind = SHM_PROGRAM;
        return copy_program_new(args->target_layout, args->layout, &put->program);
    }
    put->kind = put->size_bytes == sizeof(uint64_t) ? SHM_WORD : SHM_BYTES;
    put->target += target.offset_bytes;
    put->source += source.offset_bytes;
    return 0;
}

int shm_put_prepare(struct driver *driver, const struct driver_put_args *args,
                    struct driver_put **ret_put, struct driver_put_info *ret_info)
{
    const struct shm_region *region = (const struct shm_region *)args->region;
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
    };
    if (blob.size_bytes > 0) {
        put->target = (uint8_t *)(uintptr_t)blob.address;
        put->source = region->base + args->offset_bytes;
        put->base_target = put->target;
        put->base_source = put->source;
    }
    r = choose_kind(put, args);
    if (r < 0) {
        free(put);
        return r;
    }
    *ret_put = (struct driver_put *)put;
    *ret_info = (struct driver_put_info){.descriptors = 1};
    return 0;
}

void shm_put_release(struct driver *driver, struct driver_put *driver_put)
{
    struct shm_put *put = (struct shm_put *)driver_put;
    shm_share_free(put);
    if (put->attached)
        free(put->attached->layout);
    free(put->attached);
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
    }
}

static inline void complete(struct shm_driver *shm, const struct shm_put *put, struct driver_op *op)
{
    if (put->notify)
        shm->driver.events.notified(shm->driver.events.context, put->token);
    op->done(op, 0);
}

static int enqueue(struct shm_driver *shm, struct shm_put *put, struct driver_op *op)
{
    struct shm_peer *peer = put->peer;
    if (peer->error < 0)
        return peer->error;
    put->op = op;
    put->next = NULL;
    if (!peer->queue.first) { /* it becomes busy: last in the ring */
        if (shm->busy) {
            peer->next_busy = shm->busy->next_busy;
            shm->busy->next_busy = peer;
        } else {
            peer->next_busy = peer;
        }
        shm->busy = peer;
        peer->detour = true;
    }
    *peer->queue.last = put;
    peer->queue.last = &put->next;
    return 0;
}

/* Not a simple copy: it is long, others are before it, or the receiver has a part in it. */
static __attribute__((noinline)) int post_detour(struct shm_driver *shm, struct shm_put *put,
                                                 struct driver_op *op)
{
    struct shm_peer *peer = put->peer;
    if (peer->error < 0)
        return peer->error;
    put->position_bytes = 0;
    if (!peer->queue.first && put->size_bytes <= shm->segment_bytes &&
        shm->at_once <= shm->at_once_max) {
        if (!put->share && shm_lane_settled(peer)) {
            peer->detour = false;
            int r = put->attached ? shm_attached_copy(put) : 0;
            if (r < 0)
                return r;
            if (!put->attached)
                shm_copy(put, 0, put->size_bytes);
            complete(shm, put, op);
            return 0;
        }
        if (put->share && shm_share_advance(shm, put)) {
            op->done(op, 0);
            return 0;
        }
    }
    return enqueue(shm, put, op);
}

int shm_put_post(struct driver *driver, struct driver_put *driver_put, struct driver_op *op)
{
    struct shm_driver *shm = (struct shm_driver *)driver;
    struct shm_put *put = (struct shm_put *)driver_put;

    op->posted_ns = 0;
    if (__builtin_expect(put->size_bytes > shm->segment_bytes || put->peer->detour || put->share || put->attached ||
                             shm->at_once > shm->at_once_max,
                         0))
        return post_detour(shm, put, op);
    shm->at_once += put->size_bytes + SHM_PUT_COST;
    shm_copy(put, 0, put->size_bytes);
    complete(shm, put, op);
    return 0;
}

/* Nothing is queued for the peer any more. */
static void be_idle(struct shm_driver *shm, struct shm_peer *peer)
{
    struct shm_peer *before = shm->busy;
    while (before->next_busy != peer)
        before = before->next_busy;
    peer->detour = peer->error < 0 || (peer->lane && peer->lane->next != peer->lane->head);
    before->next_busy = peer->next_busy;
    if (shm->busy == peer)
        shm->busy = before == peer ? NULL : before;
}

/* Takes a put out of the queue of its peer, where `at` points to it. */
static void leave_queue(struct shm_driver *shm, struct shm_put *put, struct shm_put **at)
{
    struct shm_peer *peer = put->peer;
    *at = put->next;
    if (!put->next)
        peer->queue.last = at;
    if (!peer->queue.first)
        be_idle(shm, peer);
}

/* 1: that was the last piece of it; 0: not yet; or why there will be none. */
static int copy_piece(struct shm_driver *shm, struct shm_put *put)
{
    if (put->share)
        return shm_share_advance(shm, put);
    if (put->position_bytes == 0 && !shm_lane_settled(put->peer))
        return 0;
    if (put->attached) {
        int r = shm_attached_copy(put);
        return r < 0 ? r : 1;
    }
    uint64_t left = put->size_bytes - put->position_bytes;
    uint64_t piece = left < shm->segment_bytes ? left : shm->segment_bytes;
    shm_copy(put, put->position_bytes, piece);
    put->position_bytes += piece;
    return piece == left;
}

/* One piece of the first put in the queue of the peer whose turn it is. */
static void move_piece(struct shm_driver *shm)
{
    struct shm_peer *peer = shm->busy->next_busy;
    struct shm_put *put = peer->queue.first;
    const int error = peer->error < 0 ? peer->error : copy_piece(shm, put);

    if (error == 0) {
        shm->busy = peer;
        return;
    }
    leave_queue(shm, put, &peer->queue.first);
    if (peer->queue.first)
        shm->busy = peer;
    /* last: it may post, or release the put */
    if (error < 0)
        put->op->done(put->op, error);
    else if (put->share)
        put->op->done(put->op, 0); /* it has notified */
    else
        complete(shm, put, put->op);
}

void shm_put_cancel(struct driver *driver, struct driver_put *driver_put, int error)
{
    struct shm_put *put = (struct shm_put *)driver_put, **at = &put->peer->queue.first;
    while (*at && *at != put)
        at = &(*at)->next;
    if (!*at)
        return;
    leave_queue((struct shm_driver *)driver, put, at);
    if (put->share)
        shm_share_end(put->share);
    put->op->done(put->op, error);
}

int shm_progress(struct driver *driver, unsigned budget)
{
    struct shm_driver *shm = (struct shm_driver *)driver;
    unsigned moved = 0;
    shm->at_once = 0;
    for (; moved < budget && shm->busy; moved++)
        move_piece(shm);
    return (int)moved;
}

/* A put that is done has landed. */
int shm_peer_flush(struct driver *driver, struct driver_peer *driver_peer, struct driver_op *op)
{
    const struct shm_peer *peer = (const struct shm_peer *)driver_peer;
    if (peer->error < 0)
        return peer->error;
    if (peer->queue.first)
        return -EAGAIN;
    op->done(op, 0);
    return 0;
}
